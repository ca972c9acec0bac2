//! The filter loaded into real processes of this kernel. Each denied call is tried by number in a child of
//! its own, and the same call without the filter must give another answer; where this machine cannot tell
//! the two apart the test says so.

mod attempts;
mod cost;
mod programs;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::load_filter;
use crate::backend::linux::seccomp::{Architecture, SockFilter, Verdict, program, table};
use attempts::{ATTEMPTS, Attempt, Outside};

fn host() -> Architecture {
    Architecture::host().expect("a filter for this architecture")
}

fn number_of(name: &str) -> Option<libc::c_long> {
    table(host()).find(|row| row.call == name).map(|row| row.number.into())
}

/// For the child between fork and exec, or fork and exit: no_new_privs, then the filter.
fn confine(program: &[SockFilter]) -> io::Result<()> {
    // SAFETY: prctl reads no memory for this option.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    load_filter(program)
}

/// A command that starts under the filter.
fn filtered(argv: &[&str]) -> Command {
    let program = program(host());
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]);
    // SAFETY: the closure runs in the child between fork and exec, allocates nothing and reads only
    // `program`, which is static.
    unsafe {
        command.pre_exec(|| confine(program));
    }
    command
}

/// How a call ended in a child that did nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Returned,
    Failed(i32),
    Killed(i32),
}

/// Runs a closure in a forked child of its own session, under the filter or not, and says how it ended.
/// The closure gives the call's own result: 0 or more, or minus the error.
fn in_child(filtered: bool, call: impl Fn() -> libc::c_long) -> Ended {
    const NOT_CONFINED: i32 = 255;
    let program = program(host());
    // SAFETY: the child calls only prctl, seccomp, setsid, the closure (one system call) and _exit: nothing
    // that another thread's lock could hold up.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", io::Error::last_os_error());
    if child == 0 {
        // SAFETY: takes no pointer; a session without a terminal keeps the attempts away from the tester's.
        unsafe { libc::setsid() };
        let status = if filtered && confine(program).is_err() {
            NOT_CONFINED
        } else {
            call().min(0).unsigned_abs() as i32
        };
        // SAFETY: ends the child; takes no pointer.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: `status` is an int on this stack; the child is ours and has not been waited for.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFSIGNALED(status) {
        return Ended::Killed(libc::WTERMSIG(status));
    }
    match libc::WEXITSTATUS(status) {
        0 => Ended::Returned,
        NOT_CONFINED => panic!("the child could not load the filter"),
        error => Ended::Failed(error),
    }
}

/// Tries one call by number.
fn tried(filtered: bool, number: libc::c_long, arguments: [u64; 6]) -> Ended {
    in_child(filtered, || {
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: every pointer among the arguments of an attempt is null, 1, or a static empty string, so
        // the kernel writes to nothing; what a call may change is this child's alone.
        match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
            -1 => -libc::c_long::from(io::Error::last_os_error().raw_os_error().unwrap_or(254)),
            other => other,
        }
    })
}

fn status_line(name: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
    line.trim_start_matches(':').trim().to_string()
}

fn holds_capability(capability: u32) -> bool {
    let held = u64::from_str_radix(&status_line("CapEff"), 16).expect("a hexadecimal set");
    held & (1 << capability) != 0
}

/// Why the control of an attempt may give the same answer as the filter on this machine.
fn excuse(attempt: &Attempt) -> Option<String> {
    if status_line("Seccomp") != "0" {
        return Some("these tests run under another filter".into());
    }
    match attempt.outside {
        Outside::Differs => None,
        Outside::Needs(capability) if holds_capability(capability) => None,
        Outside::Needs(capability) => Some(format!("these tests lack capability {capability}")),
        Outside::MayBeTheSame(why) => Some(why.into()),
    }
}

#[test]
fn every_denied_call_is_refused_and_only_by_the_filter() {
    let mut untold = Vec::new();
    for attempt in ATTEMPTS {
        let Some(number) = number_of(attempt.call) else {
            assert_eq!(host(), Architecture::Aarch64, "no call {}", attempt.call);
            continue;
        };
        let expected = Ended::Failed(match attempt.expected {
            Verdict::Deny => libc::EPERM,
            Verdict::Absent => libc::ENOSYS,
            Verdict::Allow => unreachable!("attempts are at what is not allowed"),
        });
        let what = format!("{} {:x?}", attempt.call, attempt.arguments);
        assert_eq!(tried(true, number, attempt.arguments()), expected, "{what} under the filter");
        let outside = tried(false, number, attempt.arguments());
        if outside == expected {
            let why = excuse(attempt);
            untold.push(format!(
                "{what}: {}",
                why.unwrap_or_else(|| panic!("{what} gives {outside:?} without the filter too"))
            ));
        }
    }
    eprintln!("not told apart on this machine: {untold:#?}");
    assert!(untold.len() < ATTEMPTS.len() || status_line("Seccomp") != "0");
}

/// A call that the table refuses and nobody tries here would be a line that only the table vouches for.
#[test]
fn every_line_that_refuses_is_tried() {
    for row in table(host()) {
        let attempted = ATTEMPTS.iter().any(|attempt| attempt.call == row.call);
        let refuses = row.treatment.to_string() != Verdict::Allow.to_string();
        assert_eq!(attempted, refuses, "{}: {}", row.call, row.treatment);
    }
}

/// C056: the i386 call table through `int 0x80`, and x32 numbers.
#[cfg(target_arch = "x86_64")]
#[test]
fn c056_other_call_tables_are_refused_without_a_kill() {
    /// One i386 call without arguments that matter.
    fn interrupt(number: i64) -> libc::c_long {
        let answer: i64;
        // SAFETY: the interrupt reads registers only; getpid and the others here get null or no pointers,
        // and what the kernel may clobber is named.
        unsafe {
            std::arch::asm!(
                "push rbx", "xor ebx, ebx", "int 0x80", "pop rbx",
                inlateout("rax") number => answer,
                in("rcx") 0, in("rdx") 0, in("rsi") 0, in("rdi") 0,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        i64::from(answer as i32)
    }
    const I386: [(&str, i64); 5] =
        [("getpid", 20), ("socketcall", 102), ("io_uring_setup", 425), ("mount", 21), ("unknown", 9999)];
    for (name, number) in I386 {
        assert_eq!(in_child(true, || interrupt(number)), Ended::Failed(libc::EPERM), "i386 {name}");
    }
    match in_child(false, || interrupt(20)) {
        Ended::Returned => {}
        Ended::Killed(libc::SIGSEGV) => eprintln!("this kernel has no i386 calls: control not told apart"),
        other => panic!("i386 getpid without the filter: {other:?}"),
    }
    for number in [39, 425, 512, 547] {
        let x32 = 0x4000_0000 | number;
        assert_eq!(tried(true, x32, [0; 6]), Ended::Failed(libc::EPERM), "x32 {number}");
        assert_ne!(tried(false, x32, [0; 6]), Ended::Failed(libc::EPERM), "x32 {number} without");
    }
}

#[test]
fn numbers_beyond_the_table_are_absent() {
    for number in [471, 512, 600, 100_000] {
        assert_eq!(tried(true, number, [0; 6]), Ended::Failed(libc::ENOSYS), "{number}");
    }
}

#[test]
fn the_kernel_takes_the_program_and_reports_it() {
    let output = filtered(&["/bin/cat", "/proc/self/status"]).output().expect("cat starts");
    let status = String::from_utf8_lossy(&output.stdout);
    assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
    assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
}

#[test]
fn a_program_that_is_too_long_or_empty_is_an_error() {
    let long = vec![program(host())[0]; 70_000];
    assert_eq!(load_filter(&long).map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
    assert_eq!(load_filter(&[]).map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
}
