//! The program against the rules: a small BPF machine runs it, a plain reading of the table says what it
//! should answer, and both agree on every number and on arguments drawn at random. What must come out for
//! the calls that matter most is also written down here by hand, apart from the rules.

mod corpus;
mod machine;
#[cfg(target_os = "linux")]
mod numbers;

use proptest::prelude::*;

use super::numbers::{END, NUMBERS};
use super::{Architecture, Condition, Half, Treatment, Verdict, program, table};
use machine::{Call, answer, run};

const BOTH: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];
const I386: u32 = 0x4000_0003;
const ARM: u32 = 0x4000_0028;

/// What the rules say of a call, read the plain way.
fn judge(architecture: Architecture, call: &Call) -> Verdict {
    if call.table != architecture.audit() {
        return Verdict::Deny;
    }
    if call.number == u32::MAX {
        return Verdict::Allow;
    }
    if architecture == Architecture::X86_64 && call.number >= 0x4000_0000 {
        return Verdict::Deny;
    }
    let Some(row) = table(architecture).find(|row| u32::from(row.number) == call.number) else {
        return Verdict::Absent;
    };
    match row.treatment {
        Treatment::Always(verdict) => *verdict,
        Treatment::ByArgument(clauses, otherwise) => clauses
            .iter()
            .find(|clause| clause.all.iter().all(|condition| holds(condition, call)))
            .map_or(*otherwise, |clause| clause.verdict),
    }
}

fn holds(condition: &Condition, call: &Call) -> bool {
    let part = |argument: u8, half| {
        let argument = call.arguments[usize::from(argument)];
        match half {
            Half::Low => argument as u32,
            Half::High => (argument >> 32) as u32,
        }
    };
    match *condition {
        Condition::AnyBit(argument, half, bits) => part(argument, half) & bits != 0,
        Condition::OneOf(argument, half, mask, values) => values.contains(&(part(argument, half) & mask)),
    }
}

fn number_of(architecture: Architecture, name: &str) -> Option<u32> {
    table(architecture).find(|row| row.call == name).map(|row| u32::from(row.number))
}

fn verdict(architecture: Architecture, name: &str, arguments: [u64; 6]) -> Option<Verdict> {
    let number = number_of(architecture, name)?;
    let call = Call { table: architecture.audit(), number, arguments };
    Some(answer(program(architecture), &call).expect("the program is sound"))
}

#[test]
fn the_program_is_short_and_only_goes_forward_to_a_return() {
    for architecture in BOTH {
        let program = program(architecture);
        eprintln!("{architecture:?}: {} instructions", program.len());
        assert!(program.len() <= 4096, "{architecture:?}: {} instructions", program.len());
        assert!(program.len() < 400, "{architecture:?} grew to {} instructions", program.len());
        machine::check(program).unwrap_or_else(|fault| panic!("{architecture:?}: {fault}"));
    }
}

#[test]
fn every_number_is_answered_as_the_table_says() {
    for architecture in BOTH {
        for call in corpus::calls(architecture) {
            assert_eq!(
                answer(program(architecture), &call),
                Ok(judge(architecture, &call)),
                "{architecture:?}: {call:?}"
            );
        }
    }
}

/// The comparison above would notice any one instruction gone wrong.
#[test]
fn every_change_to_the_program_is_noticed() {
    for architecture in BOTH {
        let mut changed = program(architecture).to_vec();
        let mut passing = vec![Vec::new(); changed.len()];
        for call in corpus::calls(architecture) {
            let expected = judge(architecture, &call);
            machine::trace(&changed, &call, |place| passing[place].push((call, expected)))
                .expect("the program is sound");
        }
        for place in 0..changed.len() {
            let original = changed[place];
            for mutant in machine::mutants(original) {
                changed[place] = mutant;
                let noticed =
                    passing[place].iter().any(|(call, expected)| answer(&changed, call) != Ok(*expected));
                assert!(noticed, "{architecture:?}: {original:?} as {mutant:?} at {place} goes unnoticed");
            }
            changed[place] = original;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_calls_are_answered_as_the_table_says(
        number in prop_oneof![0..END as u32 + 64, any::<u32>()],
        arguments in any::<[u64; 6]>(),
        small in any::<[u8; 6]>(),
        table in prop_oneof![
            8 => Just(None), 1 => Just(Some(I386)), 1 => Just(Some(ARM)), 1 => any::<u32>().prop_map(Some)
        ],
    ) {
        for architecture in BOTH {
            for arguments in [arguments, small.map(u64::from)] {
                let call = Call { table: table.unwrap_or(architecture.audit()), number, arguments };
                prop_assert_eq!(answer(program(architecture), &call), Ok(judge(architecture, &call)));
            }
        }
    }
}

#[test]
fn nothing_is_ever_killed() {
    for architecture in BOTH {
        for instruction in program(architecture).iter().filter(|instruction| instruction.code == 0x06) {
            assert!(matches!(instruction.k, 0x7fff_0000 | 0x0005_0001 | 0x0005_0026), "{instruction:?}");
        }
    }
}

#[test]
fn every_line_has_a_reason_that_fits_a_sentence() {
    for architecture in BOTH {
        for row in table(architecture) {
            assert!(row.reason.len() > 12, "{}: {:?}", row.call, row.reason);
            assert!(!row.reason.contains("  ") && !row.reason.ends_with('.'), "{}", row.reason);
            assert!(!row.treatment.to_string().is_empty());
        }
    }
}

/// Between the first and the last call only the numbers that the kernel never gave out are missing.
#[test]
fn no_call_is_missing() {
    let given = |architecture| -> Vec<u16> { table(architecture).map(|row| row.number).collect() };
    for (architecture, never) in
        [(Architecture::X86_64, vec![335..=423]), (Architecture::Aarch64, vec![244..=259, 295..=423])]
    {
        let given = given(architecture);
        for number in 0..END as u16 {
            let times = given.iter().filter(|other| **other == number).count();
            let expected = usize::from(!never.iter().any(|range| range.contains(&number)));
            assert_eq!(times, expected, "{architecture:?}: number {number}");
        }
    }
    assert!(NUMBERS.iter().all(|call| usize::from(call.x86_64.min(call.aarch64)) < END));
}

/// C056: what comes through another call table is refused, and gets an error rather than a signal.
#[test]
fn other_call_tables_are_denied() {
    for architecture in BOTH {
        for table in [I386, ARM, 0, u32::MAX, architecture.audit() ^ 0x4000_0000] {
            for number in [0, 1, 11, 102, 359, 425, u32::MAX] {
                let call = Call { table, number, arguments: [0; 6] };
                assert_eq!(answer(program(architecture), &call), Ok(Verdict::Deny), "{call:?}");
            }
        }
    }
    let x32 = Call { table: Architecture::X86_64.audit(), number: 0x4000_0000 | 39, arguments: [0; 6] };
    assert_eq!(answer(program(Architecture::X86_64), &x32), Ok(Verdict::Deny));
}

/// A kernel newer than the table has calls that nobody has judged.
#[test]
fn numbers_beyond_the_table_are_absent() {
    for architecture in BOTH {
        for number in [END as u32, END as u32 + 1, 512, 547, 1000, 0x3fff_ffff] {
            let call = Call { table: architecture.audit(), number, arguments: [0; 6] };
            assert_eq!(answer(program(architecture), &call), Ok(Verdict::Absent), "{call:?}");
        }
        let skipped = Call { table: architecture.audit(), number: u32::MAX, arguments: [0; 6] };
        assert_eq!(run(program(architecture), &skipped), Ok(0x7fff_0000), "a tracer's skipped call");
    }
}

/// C055, C056, C095 and the holes that were seen, written by hand from the kernel's headers.
#[test]
fn the_calls_that_matter_come_out_as_written_here() {
    use Verdict::{Absent, Allow, Deny};
    const CLOEXEC: u64 = 0o2_000_000;
    const NONBLOCK: u64 = 0o4_000;
    let cases: &[(&str, &[u64], Verdict)] = &[
        ("socket", &[1, 1 | CLOEXEC, 0], Allow),
        ("socket", &[1, 5 | NONBLOCK, 0], Allow),
        ("socket", &[2, 1 | CLOEXEC | NONBLOCK, 0], Allow),
        ("socket", &[2, 1, 6], Allow),
        ("socket", &[10, 2 | CLOEXEC, 17], Allow),
        ("socket", &[0xffff_ffff_0000_000a, 0xffff_ffff_0000_0002, 0xffff_ffff_0000_0011], Allow),
        ("socket", &[16, 3 | CLOEXEC, 0], Allow),
        ("socket", &[2, 1, 262], Deny),
        ("socket", &[10, 1, 262], Deny),
        ("socket", &[2, 1, 132], Deny),
        ("socket", &[2, 5, 132], Deny),
        ("socket", &[2, 2, 136], Deny),
        ("socket", &[2, 2, 1], Deny),
        ("socket", &[10, 2, 58], Deny),
        ("socket", &[2, 3, 1], Deny),
        ("socket", &[2, 3 | CLOEXEC, 255], Deny),
        ("socket", &[2, 6, 33], Deny),
        ("socket", &[2, 10, 0x0300], Deny),
        ("socket", &[2, 1, 17], Deny),
        ("socket", &[2, 2, 6], Deny),
        ("socket", &[16, 3, 9], Deny),
        ("socket", &[16, 3, 15], Deny),
        ("socket", &[17, 3, 0x0300], Deny),
        ("socket", &[31, 3, 1], Deny),
        ("socket", &[38, 5, 0], Deny),
        ("socket", &[40, 1, 0], Deny),
        ("socket", &[44, 3, 0], Deny),
        ("socketpair", &[1, 1, 0, 0], Allow),
        ("socketpair", &[2, 1, 0, 0], Deny),
        ("socketpair", &[30, 1, 0, 0], Deny),
        ("setsockopt", &[3, 1, 16], Allow),
        ("clone", &[0x003d_0f00, 1], Allow),
        ("clone", &[0x0120_0011], Allow),
        ("clone", &[0x4111], Allow),
        ("clone", &[0x1000_0011], Deny),
        ("clone", &[0x0002_0011], Deny),
        ("clone", &[0xffff_ffff_4000_0011], Deny),
        ("clone3", &[], Absent),
        ("unshare", &[0x400], Allow),
        ("unshare", &[0x4_0600], Allow),
        ("unshare", &[0x1000_0000], Deny),
        ("unshare", &[0x80], Deny),
        ("unshare", &[0x1_0000_0000], Deny),
        ("setns", &[3, 0], Deny),
        ("io_uring_setup", &[8], Deny),
        ("ioctl", &[0, 0x5401], Allow),
        ("ioctl", &[0, 0x5412], Deny),
        ("ioctl", &[0, 0x1_0000_5412], Deny),
        ("ioctl", &[0, 0x541c], Deny),
        ("ioctl", &[0, 0x5423], Deny),
        ("open", &[0, 0o101, 0o644], Allow),
        ("open", &[0, 0, 0o7777], Allow),
        ("open", &[0, 0o101, 0o4755], Deny),
        ("openat", &[0, 0, 0o100, 0o666], Allow),
        ("openat", &[0, 0, 0o100, 0o1666], Allow),
        ("openat", &[0, 0, 0o100, 0o2666], Deny),
        ("openat", &[0, 0, 0o20_200_002, 0o4700], Deny),
        ("openat", &[0, 0, 0o200_000, 0xffff_ffff], Allow),
        ("openat2", &[], Absent),
        ("creat", &[0, 0o6755], Deny),
        ("chmod", &[0, 0o755], Allow),
        ("chmod", &[0, 0o1777], Allow),
        ("chmod", &[0, 0o4755], Deny),
        ("fchmod", &[0, 0o2755], Deny),
        ("fchmodat", &[0, 0, 0o4755], Deny),
        ("fchmodat2", &[0, 0, 0o2755], Deny),
        ("mknod", &[0, 0o010_644], Allow),
        ("mknod", &[0, 0o104_755], Deny),
        ("mknod", &[0, 0o020_666, 0x103], Deny),
        ("mknodat", &[0, 0, 0o060_666], Deny),
        ("mknodat", &[0, 0, 0o140_666], Allow),
        ("mkdirat", &[0, 0, 0o2755], Allow),
        ("personality", &[0xffff_ffff], Allow),
        ("personality", &[0x4_0000], Allow),
        ("personality", &[8], Allow),
        ("personality", &[0x40_0000], Deny),
        ("personality", &[0x10_0000], Deny),
        ("prctl", &[22, 2], Allow),
        ("prctl", &[35, 13], Deny),
        ("ptrace", &[0], Allow),
        ("open_by_handle_at", &[], Deny),
        ("mount_setattr", &[], Deny),
        ("umount2", &[], Deny),
    ];
    for architecture in BOTH {
        for (name, given, expected) in cases {
            let mut arguments = [0; 6];
            arguments[..given.len()].copy_from_slice(given);
            match verdict(architecture, name, arguments) {
                Some(answer) => assert_eq!(answer, *expected, "{architecture:?}: {name} {given:x?}"),
                None => assert!(
                    architecture == Architecture::Aarch64
                        && ["open", "creat", "chmod", "mknod"].contains(name),
                    "{architecture:?} has no {name}"
                ),
            }
        }
    }
}

/// What strace saw python, node, java, go, gcc, cargo, git, tar, npm, bash, gdb and headless Chromium call,
/// and close relatives of those. clone3 alone is not here: all of them fall back to clone.
const USED: &str = "accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres \
    clock_gettime clock_nanosleep clone close close_range connect copy_file_range creat dup dup2 dup3 \
    epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd2 execve execveat exit \
    exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl \
    fdatasync fgetxattr flistxattr flock fsetxattr fstat fstatfs fsync ftruncate futex get_mempolicy \
    getcwd getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid \
    getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsockname getsockopt \
    gettid getuid getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioctl kill \
    landlock_create_ruleset lchown link linkat listen listxattr llistxattr lseek lstat madvise \
    membarrier memfd_create mincore mkdir mkdirat mknodat mlock mmap mprotect mremap msync munmap \
    nanosleep newfstatat open openat personality pidfd_open pipe pipe2 pkey_alloc poll ppoll prctl \
    pread64 preadv prlimit64 process_vm_readv ptrace pwrite64 pwritev read readlink readlinkat readv \
    recvfrom recvmsg removexattr rename renameat2 restart_syscall rmdir rseq rt_sigaction \
    rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity sched_getattr \
    sched_getparam sched_getscheduler sched_setaffinity sched_setattr sched_yield seccomp sendfile \
    sendmmsg sendmsg sendto set_mempolicy set_robust_list set_tid_address setitimer setpgid \
    setpriority setsid setsockopt setxattr shutdown sigaltstack signalfd4 socket socketpair splice \
    stat statfs statx symlink sysinfo tgkill timer_create timer_settime timerfd_create timerfd_settime \
    tkill umask uname unlink unlinkat utimensat vfork wait4 waitid write writev";

/// C055: a call that real programs use stays open for harmless arguments.
#[test]
fn c055_what_real_programs_call_stays_allowed() {
    let harmless = |name: &str| match name {
        "socket" => [2, 1, 6, 0, 0, 0],
        "socketpair" => [1, 1, 0, 0, 0, 0],
        "clone" => [0x003d_0f00, 0, 0, 0, 0, 0],
        _ => [0; 6],
    };
    for name in USED.split(' ') {
        let verdicts = BOTH.map(|architecture| verdict(architecture, name, harmless(name)));
        assert!(
            matches!(verdicts, [Some(Verdict::Allow), None | Some(Verdict::Allow)]),
            "{name}: {verdicts:?}"
        );
    }
}
