//! What the self-test and its subjects do that the standard library does not offer.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use super::signals::Signals;

/// Numbers that the standard library gives no kind: address families and protocols that are not here.
pub fn is_unsupported(code: i32) -> bool {
    matches!(code, libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::EAFNOSUPPORT)
}

/// The same of what there is no more of: every such number has a kind here.
pub fn is_exhausted(_: i32) -> bool {
    false
}

/// CPU time that this process has used, all threads together.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Leave the session and its terminal.
pub fn leave_session() -> io::Result<()> {
    Ok(rustix::process::setsid().map(drop)?)
}

/// Take no signal any more that can be refused.
pub fn turn_deaf() {
    Signals::all().block();
}

/// Say this process's number on standard error, and let go of that.
pub fn say_pid_and_close_stderr() -> io::Result<()> {
    let pid = format!("{}\n", std::process::id());
    rustix::io::write(rustix::stdio::stderr(), pid.as_bytes())?;
    let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Open an ICMP socket, of either kind, that leads to `address`. A way there is looked up; nothing is sent.
pub fn icmp_towards(address: Ipv4Addr) -> io::Result<()> {
    let open = |kind| {
        let socket =
            rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, Some(ipproto::ICMP))?;
        rustix::net::connect(&socket, &std::net::SocketAddrV4::new(address, 0))
    };
    Ok(open(SocketType::DGRAM).or_else(|_| open(SocketType::RAW))?)
}

/// What of another process is opened. Each of them is enough to read what it knows, or to act through it.
const FILES: [&str; 4] = ["environ", "mem", "maps", "auxv"];

/// Every process that is seen, but for this one.
pub fn others() -> io::Result<Vec<i32>> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid: Option<i32> = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        pids.extend(pid.filter(|pid| *pid != own));
    }
    Ok(pids)
}

/// What of a process of one's own can be looked into outside a container, or else nothing is shown by a refusal.
pub const LEAST_OPEN: [&str; 2] = ["environ", "mem"];

/// Each way to read what another process knows or to act through it, and what came of it. One that has ended
/// meanwhile is not a refusal, and not a success.
pub fn look_into(process: i32) -> Vec<(&'static str, io::Result<()>)> {
    let folder = format!("/proc/{process}");
    let mut looks = Vec::new();
    for file in FILES {
        // Some of them open and then give nothing; mem alone is not read, since where is not known.
        let path = format!("{folder}/{file}");
        let read = if file == "mem" { fs::File::open(path).map(drop) } else { fs::read(path).and_then(some) };
        looks.push((file, read));
    }
    looks.push(("fd", fs::read_dir(format!("{folder}/fd")).and_then(one_leads_on)));
    looks.push(("root", fs::read_dir(format!("{folder}/root")).map(drop)));
    looks.push(("ptrace", seize(process)));
    looks
}

/// An empty answer is what the system gives for what it does not show.
fn some(bytes: Vec<u8>) -> io::Result<()> {
    if bytes.is_empty() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

/// The numbers of its descriptors root may list; what counts is whether one of them leads anywhere.
fn one_leads_on(descriptors: fs::ReadDir) -> io::Result<()> {
    let mut last = io::ErrorKind::PermissionDenied.into();
    for descriptor in descriptors {
        match descriptor.and_then(|descriptor| fs::read_link(descriptor.path())) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Become the tracer of a process. It is let go when this process ends.
fn seize(process: i32) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: PTRACE_SEIZE takes no pointer: both are null.
    if unsafe { libc::ptrace(libc::PTRACE_SEIZE, process, none, none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Open a folder so that every program started from here inherits it, as a careless caller does.
pub fn open_inheritable(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    Ok(rustix::fs::open(folder, flags, rustix::fs::Mode::empty())?)
}

/// Other names of the absolute `path`: by way of processes' folders in /proc, from `folder` on as the working
/// directory of the first process, and through the descriptor `held`, which is open on `above`.
pub fn aliases(path: &Path, folder: &Path, held: &OwnedFd, above: &Path) -> Vec<PathBuf> {
    let below_root = path.strip_prefix("/").unwrap_or(path);
    let up: PathBuf = folder.components().skip(1).map(|_| Component::ParentDir).collect();
    let below = path.strip_prefix(above).unwrap_or(below_root);
    vec![
        Path::new("/proc/self/root").join(below_root),
        Path::new("/proc/1/root").join(below_root),
        Path::new("/proc/1/cwd").join(up).join(below_root),
        Path::new("/proc/self/fd").join(held.as_raw_fd().to_string()).join(below),
    ]
}

/// End a process that holds `output` open, which is why its number is still its own.
pub fn end(process: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(process) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Is there a process of this number?
pub fn is_there(process: i32) -> bool {
    rustix::process::Pid::from_raw(process)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// From here on standard input is empty.
pub fn empty_input() -> io::Result<()> {
    let null = rustix::fs::open(c"/dev/null", OFlags::RDONLY, rustix::fs::Mode::empty())?;
    Ok(rustix::stdio::dup2_stdin(&null)?)
}

/// Make a link.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}
