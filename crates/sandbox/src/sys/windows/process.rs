//! Starting a process: suspended, in a container, with an explicit program, command line, environment, folder and
//! handles. Nothing is left to what Windows would otherwise take from the caller.

use std::ffi::OsStr;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::path::Path;
use std::time::Duration;

use windows::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE};
use windows::Win32::Storage::FileSystem::{
    CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_SHARE_READ, FILE_SHARE_WRITE, OPEN_EXISTING,
};
use windows::Win32::System::Console::{
    CONSOLE_MODE, GetConsoleMode, GetStdHandle, STD_ERROR_HANDLE, STD_HANDLE, STD_INPUT_HANDLE,
    STD_OUTPUT_HANDLE,
};
use windows::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT, CreateProcessW,
    EXTENDED_STARTUPINFO_PRESENT, GetExitCodeProcess, PROCESS_INFORMATION, ResumeThread,
    STARTF_USESTDHANDLES, STARTUPINFOEXW, STARTUPINFOW, TerminateProcess,
};
use windows::core::w;

use super::attributes::{AttributeError, Attributes, Container};
use super::error::CallError;
use super::handle::{duplicate, own, raw, wait};
use super::wide::{InteriorNul, Wide};

/// How long a process that was told to end may take to be gone.
const ENDING: Duration = Duration::from_secs(5);

/// The exit status of a process that was ended before it ran.
const NEVER_RAN: u32 = 125;

/// All that a new process is given.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The program, by its full path; what the command line says first decides nothing.
    pub application: &'a Path,
    /// The command line as the program will see it, its own name first.
    pub command_line: &'a OsStr,
    /// The whole environment: `NAME=value` texts, each ended by a NUL, and one more NUL at the end.
    pub environment: &'a [u16],
    /// The working directory. Windows takes the drive's root in silence for one that cannot be read.
    pub directory: &'a Path,
    /// Standard input, output and error, by handles that need not be inheritable.
    pub standard: [BorrowedHandle<'a>; 3],
    /// What it starts in.
    pub container: Container<'a>,
}

/// Why no process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A text that Windows would read as a shorter one.
    #[error("the {what} has {error}")]
    Text {
        /// Which.
        what: &'static str,
        /// What is wrong with it.
        error: InteriorNul,
    },
    /// The environment does not end as a block must.
    #[error("the environment block does not end with two NUL characters")]
    Environment,
    /// A standard handle could not be made ready.
    #[error("handing over a standard handle: {0}")]
    Handle(CallError),
    /// The container or the handle list was not taken.
    #[error("process attribute {0}")]
    Attribute(AttributeError),
    /// The process could not be made.
    #[error(transparent)]
    Create(CallError),
}

/// Makes the process, which does not run yet.
///
/// The process is told to make no window exactly when none of its standard handles is a console: with one, it shares
/// the caller's console, as it would without a sandbox.
pub fn start(start: &Start<'_>) -> Result<Suspended, StartError> {
    let text = |what, text: &OsStr| Wide::new(text).map_err(|error| StartError::Text { what, error });
    let application = text("program's path", start.application.as_os_str())?;
    let mut command_line = text("command line", start.command_line)?;
    let directory = text("working directory", start.directory.as_os_str())?;
    if !start.environment.ends_with(&[0, 0]) {
        return Err(StartError::Environment);
    }

    // Copies of our own, inheritable only while this function runs: the caller's handles stay as they are.
    let copies: Vec<OwnedHandle> = start
        .standard
        .iter()
        .map(|handle| duplicate(*handle, true))
        .collect::<Result<_, _>>()
        .map_err(StartError::Handle)?;
    let handles: Vec<BorrowedHandle<'_>> = copies.iter().map(AsHandle::as_handle).collect();
    let attributes = Attributes::new(start.container, &handles).map_err(StartError::Attribute)?;

    let information = STARTUPINFOEXW {
        StartupInfo: STARTUPINFOW {
            cb: size_of::<STARTUPINFOEXW>() as u32,
            dwFlags: STARTF_USESTDHANDLES,
            hStdInput: raw(handles[0]),
            hStdOutput: raw(handles[1]),
            hStdError: raw(handles[2]),
            ..Default::default()
        },
        lpAttributeList: attributes.list(),
    };
    let mut flags = EXTENDED_STARTUPINFO_PRESENT | CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT;
    if !start.standard.iter().any(|handle| is_console(*handle)) {
        flags |= CREATE_NO_WINDOW;
    }
    let mut made = PROCESS_INFORMATION::default();
    // SAFETY: every text ends with its NUL and outlives the call, the command line is ours to be written into, the
    // block ends with two NULs, the start-up information's size says that the attribute list follows it, and list,
    // values and handles live until the end of this function.
    unsafe {
        CreateProcessW(
            application.pointer(),
            Some(command_line.pointer_mut()),
            None,
            None,
            true,
            flags,
            Some(start.environment.as_ptr().cast()),
            directory.pointer(),
            &raw const information.StartupInfo,
            &raw mut made,
        )
    }
    .map_err(CallError::of("CreateProcessW"))
    .map_err(StartError::Create)?;
    Ok(Suspended {
        // SAFETY: just made, and known here alone.
        process: Some(unsafe { own(made.hProcess) }),
        // SAFETY: likewise.
        thread: unsafe { own(made.hThread) },
        id: made.dwProcessId,
    })
}

/// A process that has not run yet. Dropping it ends it and waits until it is gone.
pub struct Suspended {
    process: Option<OwnedHandle>,
    thread: OwnedHandle,
    id: u32,
}

/// Why a process was ended instead of resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// Windows refused.
    #[error(transparent)]
    Call(CallError),
    /// It was not suspended exactly once: it had run before its time, or something else holds it.
    #[error("ResumeThread: the process was suspended {0} times where once was expected")]
    Count(u32),
}

impl Suspended {
    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Lets it run. When that fails it is ended and never runs.
    pub fn resume(mut self) -> Result<Process, ResumeError> {
        // SAFETY: the thread's handle is open and owned here.
        let before = unsafe { ResumeThread(raw(self.thread.as_handle())) };
        match before {
            u32::MAX => Err(ResumeError::Call(CallError::last("ResumeThread"))),
            // Taken out, so that dropping `self` does not end it.
            1 => match self.process.take() {
                Some(handle) => Ok(Process { handle, id: self.id }),
                None => Err(ResumeError::Count(0)),
            },
            count => Err(ResumeError::Count(count)),
        }
    }
}

impl AsHandle for Suspended {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        // Only `resume` takes the process out, and it consumes `self`.
        self.process.as_ref().unwrap_or(&self.thread).as_handle()
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            // Nothing can be done about a failure here: the job that it may be in ends it when that is closed.
            let _ = terminate(process.as_handle(), NEVER_RAN);
            let _ = wait(process.as_handle(), Some(ENDING));
        }
    }
}

/// A process that runs. Dropping it does not end it: the job does.
pub struct Process {
    handle: OwnedHandle,
    id: u32,
}

impl Process {
    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its exit status, when it ends within the time; without one it is waited for.
    pub fn wait(&self, within: Option<Duration>) -> Result<Option<u32>, CallError> {
        if !wait(self.handle.as_handle(), within)? {
            return Ok(None);
        }
        let mut status = 0_u32;
        // SAFETY: the process's handle is open and owned here, the result lives on this stack.
        unsafe { GetExitCodeProcess(raw(self.handle.as_handle()), &raw mut status) }
            .map_err(CallError::of("GetExitCodeProcess"))?;
        Ok(Some(status))
    }

    /// Ends it; its children live on.
    pub fn terminate(&self, status: u32) -> Result<(), CallError> {
        terminate(self.handle.as_handle(), status)
    }
}

impl AsHandle for Process {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

fn terminate(process: BorrowedHandle<'_>, status: u32) -> Result<(), CallError> {
    // SAFETY: the process's handle is borrowed for the call.
    unsafe { TerminateProcess(raw(process), status) }.map_err(CallError::of("TerminateProcess"))
}

/// Whether the handle is a console's.
pub fn is_console(handle: BorrowedHandle<'_>) -> bool {
    let mut mode = CONSOLE_MODE::default();
    // SAFETY: the handle is borrowed for the call, the result lives on this stack.
    unsafe { GetConsoleMode(raw(handle), &raw mut mode) }.is_ok()
}

/// Copies of this process's standard handles; where it has none, the null device takes the place, opened here because
/// a container may not open it.
pub fn standard_handles() -> Result<[OwnedHandle; 3], CallError> {
    Ok([
        standard(STD_INPUT_HANDLE, GENERIC_READ.0)?,
        standard(STD_OUTPUT_HANDLE, GENERIC_WRITE.0)?,
        standard(STD_ERROR_HANDLE, GENERIC_WRITE.0)?,
    ])
}

fn standard(which: STD_HANDLE, access: u32) -> Result<OwnedHandle, CallError> {
    // SAFETY: takes a number; what it gives is the process's own and stays so.
    let handle = unsafe { GetStdHandle(which) }.unwrap_or(INVALID_HANDLE_VALUE);
    if handle.0.is_null() || handle == INVALID_HANDLE_VALUE {
        return null_device(access);
    }
    // SAFETY: a standard handle stays open as long as nobody in this process closes it, which nothing here does.
    let borrowed = unsafe { BorrowedHandle::borrow_raw(handle.0) };
    // A handle that has been closed behind the process's back counts as none.
    duplicate(borrowed, false).or_else(|_| null_device(access))
}

/// The null device, for reading.
pub fn null_input() -> Result<OwnedHandle, CallError> {
    null_device(GENERIC_READ.0)
}

/// The null device, for writing.
pub fn null_output() -> Result<OwnedHandle, CallError> {
    null_device(GENERIC_WRITE.0)
}

fn null_device(access: u32) -> Result<OwnedHandle, CallError> {
    // SAFETY: the name is a literal with its NUL, nothing else is passed in.
    let handle: HANDLE = unsafe {
        CreateFileW(
            w!(r"\\.\NUL"),
            access,
            FILE_SHARE_READ | FILE_SHARE_WRITE,
            None,
            OPEN_EXISTING,
            FILE_ATTRIBUTE_NORMAL,
            None,
        )
    }
    .map_err(CallError::of("CreateFileW"))?;
    // SAFETY: just opened, and known here alone.
    Ok(unsafe { own(handle) })
}

#[cfg(test)]
mod tests;
