//! What the self-test and its subjects do that the standard library does not offer.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::{Component, Path, PathBuf, Prefix};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::error::as_io;
use windows::Win32::Foundation::{FILETIME, HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation, WAIT_TIMEOUT};
use windows::Win32::Storage::FileSystem::FILE_FLAG_BACKUP_SEMANTICS;
use windows::Win32::System::Console::{
    GetStdHandle, STD_ERROR_HANDLE, STD_HANDLE, STD_INPUT_HANDLE, SetConsoleCtrlHandler, SetStdHandle,
};
use windows::Win32::System::Diagnostics::Debug::{DebugActiveProcess, DebugActiveProcessStop};
use windows::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows::Win32::System::Threading::{
    GetCurrentProcess, GetProcessTimes, OpenProcess, PROCESS_ACCESS_RIGHTS, PROCESS_CREATE_THREAD,
    PROCESS_DUP_HANDLE, PROCESS_QUERY_INFORMATION, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE,
    PROCESS_VM_OPERATION, PROCESS_VM_READ, PROCESS_VM_WRITE, TerminateProcess, WaitForSingleObject,
};

/// Numbers that the standard library gives no kind: address families and protocols that are not here.
pub fn is_unsupported(code: i32) -> bool {
    // WSAEPROTONOSUPPORT, WSAESOCKTNOSUPPORT, WSAEAFNOSUPPORT (Microsoft Learn, Windows Sockets error codes).
    matches!(code, 10043 | 10044 | 10047)
}

/// The same of what there is no more of.
pub fn is_exhausted(code: i32) -> bool {
    // ERROR_COMMITMENT_LIMIT; ERROR_NOT_ENOUGH_QUOTA, which a job's limit of processes gives (Microsoft Learn, System
    // error codes, JOBOBJECT_BASIC_LIMIT_INFORMATION).
    matches!(code, 1455 | 1816)
}

/// CPU time that this process has used, all threads together.
pub fn cpu_time() -> Duration {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: the pseudo-handle of this process needs no closing; the four pointers are to whole times that live
    // across the call.
    let told = unsafe { GetProcessTimes(GetCurrentProcess(), created, ended, kernel, user) };
    if told.is_err() {
        return Duration::ZERO;
    }
    let ticks = |time: &FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(100).saturating_mul(u32::try_from(ticks(kernel) + ticks(user)).unwrap_or(u32::MAX))
}

/// Nothing has to be left: a process here is in no session of the one that started it.
pub fn leave_session() -> io::Result<()> {
    Ok(())
}

/// Ignore Ctrl-C and Ctrl-Break.
pub fn turn_deaf() {
    // SAFETY: no handler is given, so nothing of ours is called.
    let _ = unsafe { SetConsoleCtrlHandler(None, true) };
}

/// Say this process's number on standard error, and let go of that.
pub fn say_pid_and_close_stderr() -> io::Result<()> {
    let mut error = io::stderr();
    error.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    drop(taken(STD_ERROR_HANDLE)?);
    Ok(())
}

/// From here on standard input is empty.
pub fn empty_input() -> io::Result<()> {
    let null = OwnedHandle::from(File::open("NUL")?);
    drop(taken(STD_INPUT_HANDLE)?);
    // SAFETY: the handle is open, and stays so for as long as the process lives: it is not closed below.
    unsafe { SetStdHandle(STD_INPUT_HANDLE, HANDLE(null.as_raw_handle())) }.map_err(as_io)?;
    std::mem::forget(null);
    Ok(())
}

/// A standard handle, taken from this process; none is left in its place.
fn taken(which: STD_HANDLE) -> io::Result<Option<OwnedHandle>> {
    // SAFETY: asks for a number.
    let handle = unsafe { GetStdHandle(which) }.map_err(as_io)?;
    // SAFETY: stores a number; null stands for none.
    unsafe { SetStdHandle(which, HANDLE::default()) }.map_err(as_io)?;
    // SAFETY: nothing else closes it: the standard library borrows what the slot holds, which is null now.
    Ok((!handle.is_invalid()).then(|| unsafe { OwnedHandle::from_raw_handle(handle.0) }))
}

/// Open an ICMP socket that leads to `address`. A way there is looked up; nothing is sent.
pub fn icmp_towards(address: Ipv4Addr) -> io::Result<()> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.connect(&SocketAddr::from((address, 0)).into())
}

/// Every process that is seen, but for this one and the two that are the system itself.
pub fn others() -> io::Result<Vec<i32>> {
    // SAFETY: no pointer; the handle is owned from here on.
    let snapshot = unsafe {
        OwnedHandle::from_raw_handle(CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0).map_err(as_io)?.0)
    };
    let snapshot = HANDLE(snapshot.as_raw_handle());
    let mut entry = PROCESSENTRY32W { dwSize: size_of::<PROCESSENTRY32W>() as u32, ..Default::default() };
    let mut processes = Vec::new();
    // SAFETY: the entry says its own size and lives across the call.
    let mut more = unsafe { Process32FirstW(snapshot, &raw mut entry) };
    while more.is_ok() {
        let own = [0, 4, std::process::id()].contains(&entry.th32ProcessID);
        processes.extend(i32::try_from(entry.th32ProcessID).ok().filter(|_| !own));
        // SAFETY: as above.
        more = unsafe { Process32NextW(snapshot, &raw mut entry) };
    }
    Ok(processes)
}

/// What of a process of one's own can be looked into outside a container, or else nothing is shown by a refusal.
pub const LEAST_OPEN: [&str; 1] = ["memory"];

/// Each way to read what another process knows or to act through it, and what came of it.
pub fn look_into(process: i32) -> Vec<(&'static str, io::Result<()>)> {
    let opened = |rights| opened(process, rights).map(drop);
    vec![
        // Its memory, and with it its variables.
        ("memory", opened(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ)),
        ("writing memory", opened(PROCESS_VM_OPERATION | PROCESS_VM_WRITE)),
        ("a thread", opened(PROCESS_CREATE_THREAD)),
        ("handles", opened(PROCESS_DUP_HANDLE)),
        ("debugging", debug(process)),
    ]
}

fn opened(process: i32, rights: PROCESS_ACCESS_RIGHTS) -> io::Result<OwnedHandle> {
    // SAFETY: no pointer.
    let handle = unsafe { OpenProcess(rights, false, process.cast_unsigned()) }.map_err(as_io)?;
    // SAFETY: just opened, and owned from here on.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) })
}

/// Become the debugger of a process, and let go of it: it stands still as long as its debugger takes none of its events.
fn debug(process: i32) -> io::Result<()> {
    // SAFETY: no pointer.
    unsafe { DebugActiveProcess(process.cast_unsigned()) }.map_err(as_io)?;
    // SAFETY: no pointer.
    unsafe { DebugActiveProcessStop(process.cast_unsigned()) }.map_err(as_io)
}

/// Open a folder so that every program started from here inherits it, as a careless caller does.
pub fn open_inheritable(folder: &Path) -> io::Result<OwnedHandle> {
    let folder = OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS.0).open(folder)?;
    let folder = OwnedHandle::from(folder);
    // SAFETY: the handle is open across the call.
    unsafe {
        SetHandleInformation(HANDLE(folder.as_raw_handle()), HANDLE_FLAG_INHERIT.0, HANDLE_FLAG_INHERIT)
    }
    .map_err(as_io)?;
    Ok(folder)
}

/// Other names of the absolute `path`: without the system's own reading of it, as a device, and by way of the
/// share that every machine has of itself. No name leads on from an inherited handle.
pub fn aliases(path: &Path, _: &Path, _: &OwnedHandle, _: &Path) -> Vec<PathBuf> {
    let mut parts = path.components();
    let (Some(Component::Prefix(prefix)), below) = (parts.next(), parts.as_path()) else { return Vec::new() };
    let (Prefix::Disk(letter) | Prefix::VerbatimDisk(letter)) = prefix.kind() else { return Vec::new() };
    let letter = char::from(letter);
    let named = |start: String| {
        let mut name = OsString::from(start);
        name.push(below);
        PathBuf::from(name)
    };
    vec![
        named(format!(r"\\?\{letter}:")),
        named(format!(r"\\.\{letter}:")),
        named(format!(r"\\localhost\{letter}$")),
    ]
}

/// End a process that holds `output` open, which is why its number is still its own.
pub fn end(process: i32) {
    if let Ok(handle) = opened(process, PROCESS_TERMINATE) {
        // SAFETY: the handle is open across the call.
        let _ = unsafe { TerminateProcess(HANDLE(handle.as_raw_handle()), 1) };
    }
}

/// Is there a process of this number?
pub fn is_there(process: i32) -> bool {
    opened(process, PROCESS_SYNCHRONIZE).is_ok_and(|handle| {
        // SAFETY: the handle is open across the call.
        unsafe { WaitForSingleObject(HANDLE(handle.as_raw_handle()), 0) == WAIT_TIMEOUT }
    })
}

/// Make a link to a folder: a symlink where this user may, else a junction, which everybody may.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    if std::os::windows::fs::symlink_dir(target, path).is_err() {
        let mut command = Command::new("cmd.exe");
        command.args(["/d", "/c", "mklink", "/J"]).arg(path).arg(target);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    }
    // Wine says that it has made either, and has not.
    if std::fs::symlink_metadata(path)?.is_symlink() {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}
