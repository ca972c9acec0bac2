//! What happens in a job object, told by Windows as it happens: starts, ends, and limits that were reached.

use std::os::windows::io::{AsHandle as _, OwnedHandle};
use std::time::Duration;

use windows::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows::Win32::System::IO::{CreateIoCompletionPort, GetQueuedCompletionStatus, OVERLAPPED};
use windows::Win32::System::JobObjects::{
    JOBOBJECT_ASSOCIATE_COMPLETION_PORT, JobObjectAssociateCompletionPortInformation,
};
use windows::Win32::System::SystemServices::{
    JOB_OBJECT_MSG_ABNORMAL_EXIT_PROCESS, JOB_OBJECT_MSG_ACTIVE_PROCESS_LIMIT,
    JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO, JOB_OBJECT_MSG_EXIT_PROCESS, JOB_OBJECT_MSG_JOB_MEMORY_LIMIT,
    JOB_OBJECT_MSG_NEW_PROCESS,
};

use super::super::error::CallError;
use super::super::handle::{milliseconds, own, raw};
use super::Job;

/// Something that happened, with the process's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process is in the job now.
    Started(u32),
    /// A process has ended.
    Ended(u32),
    /// A process has crashed.
    Crashed(u32),
    /// No process is left.
    Empty,
    /// One process more than the limit was refused.
    ProcessLimit,
    /// A process asked for more memory than the limit leaves.
    MemoryLimit(u32),
    /// Something else, by its number (winnt.h, JOB_OBJECT_MSG_*).
    Other(u32),
}

/// Events of one job object, in order. Windows does not promise to deliver every one: counters decide, events explain.
pub struct Events(OwnedHandle);

impl Job {
    /// Events from now on. Ask before a process is assigned.
    pub fn events(&self) -> Result<Events, CallError> {
        // SAFETY: no file is passed in, only the request for a new port.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, None, 0, 1) }
            .map_err(CallError::of("CreateIoCompletionPort"))?;
        // SAFETY: just made, and known here alone.
        let port = unsafe { own(port) };
        let association = JOBOBJECT_ASSOCIATE_COMPLETION_PORT {
            CompletionKey: std::ptr::null_mut(),
            CompletionPort: HANDLE(raw(port.as_handle()).0),
        };
        self.set(JobObjectAssociateCompletionPortInformation, &association)?;
        Ok(Events(port))
    }
}

impl Events {
    /// The next one, when there is one within the time.
    pub fn next(&self, within: Option<Duration>) -> Result<Option<Event>, CallError> {
        let (mut message, mut key) = (0_u32, 0_usize);
        let mut overlapped: *mut OVERLAPPED = std::ptr::null_mut();
        // SAFETY: the port is open, the results live on this stack.
        let got = unsafe {
            GetQueuedCompletionStatus(
                raw(self.0.as_handle()),
                &raw mut message,
                &raw mut key,
                &raw mut overlapped,
                milliseconds(within),
            )
        };
        match got.map_err(CallError::of("GetQueuedCompletionStatus")) {
            // In a job's message the pointer is no pointer: it is the process's id.
            Ok(()) => Ok(Some(event(message, overlapped.addr() as u32))),
            Err(error) if error.win32_code() == Some(WAIT_TIMEOUT.0) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn event(message: u32, process: u32) -> Event {
    match message {
        JOB_OBJECT_MSG_NEW_PROCESS => Event::Started(process),
        JOB_OBJECT_MSG_EXIT_PROCESS => Event::Ended(process),
        JOB_OBJECT_MSG_ABNORMAL_EXIT_PROCESS => Event::Crashed(process),
        JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO => Event::Empty,
        JOB_OBJECT_MSG_ACTIVE_PROCESS_LIMIT => Event::ProcessLimit,
        JOB_OBJECT_MSG_JOB_MEMORY_LIMIT => Event::MemoryLimit(process),
        other => Event::Other(other),
    }
}
