//! Unix: signals, process groups, and on Linux what ends with whom.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Standard input without a buffer: what is not read stays for the command.
pub fn bare_standard_input() -> io::Result<File> {
    Ok(rustix::stdio::stdin().as_fd().try_clone_to_owned()?.into())
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// End at once when the process with this number does, which must be this one's parent.
#[cfg(target_os = "linux")]
pub fn end_with(parent: u32) -> io::Result<()> {
    die_with(parent, Signal::KILL)
}

/// Be asked to end when that process ends.
#[cfg(target_os = "linux")]
pub fn be_asked_with(parent: u32) -> io::Result<()> {
    die_with(parent, Signal::TERM)
}

#[cfg(target_os = "linux")]
fn die_with(parent: u32, signal: Signal) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    // It may have ended before the call.
    if rustix::process::getppid() == pid(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the agent has ended"))
    }
}

/// Is that process this one's parent still?
pub fn is_parent(id: u32) -> bool {
    rustix::process::getppid() == pid(id)
}

/// Not told here: the next start of the agent finds what is left.
#[cfg(not(target_os = "linux"))]
pub fn end_with(_: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn be_asked_with(_: u32) -> io::Result<()> {
    Ok(())
}

/// What loses its parent below this process becomes its child.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Leave the session and its terminal.
pub fn leave_session() -> io::Result<()> {
    Ok(rustix::process::setsid().map(drop)?)
}

/// Give what is started a process group of its own.
pub fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Become that program.
pub fn become_program(mut command: Command) -> io::Error {
    command.exec()
}

/// Ask a process to end. The number must still be this caller's child.
pub fn ask(id: u32) {
    if let Some(pid) = pid(id) {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

/// Ask a process group to end, by the number of its first process.
pub fn ask_group(id: u32) {
    if let Some(pid) = pid(id) {
        if rustix::process::kill_process_group(pid, Signal::TERM).is_err() {
            // That one has not made it yet.
            ask(id);
        }
        // What stands still cannot hear it.
        let _ = rustix::process::kill_process_group(pid, Signal::CONT);
    }
}

/// End a process at once. The number must still be this caller's child, or known not to be used again.
pub fn kill(id: u32) {
    if let Some(pid) = pid(id) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Wait until this child has ended, and leave it to be waited for. False where that cannot be done.
pub fn wait_until_ended(id: u32) -> bool {
    let Some(pid) = pid(id) else { return false };
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.is_ok(),
        }
    }
}

/// The signal that ended a process.
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Wait for children that have ended, but leave `main` to its owner.
pub fn reap_orphans(main: u32) {
    for child in children().into_iter().filter(|child| *child != main) {
        let _ = rustix::process::waitpid(pid(child), rustix::process::WaitOptions::NOHANG);
    }
}

/// End every child, those that were adopted too, until none is left.
pub fn end_children() {
    loop {
        for child in children() {
            kill(child);
        }
        match rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            // Killed and not yet gone.
            Ok(None) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}

/// The numbers of this process's children, also of those that have ended and were not waited for.
fn children() -> Vec<u32> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|id: &u32| parent_of(*id) == Some(own))
        .collect()
}

fn parent_of(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name may hold anything; what follows it does not.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Let this user list a folder and change what is in it.
pub fn make_writable(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

/// Make a new file, to be executed or not.
pub fn make_file(path: &std::path::Path, executable: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mode = if executable { 0o755 } else { 0o644 };
    File::options().write(true).create_new(true).mode(mode).open(path)
}
