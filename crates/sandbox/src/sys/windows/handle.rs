//! Handles: owned ones close themselves once (std's own types), copies, and waiting for one or several.

use std::os::windows::io::{AsRawHandle as _, BorrowedHandle, FromRawHandle as _, OwnedHandle};
use std::time::Duration;

use windows::Win32::Foundation::{
    DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, HLOCAL, LocalFree, WAIT_EVENT, WAIT_FAILED,
    WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows::Win32::System::Threading::{
    GetCurrentProcess, INFINITE, WaitForMultipleObjects, WaitForSingleObject,
};

use super::error::CallError;

/// The raw form for a call; the borrow keeps the handle open during it.
pub(super) fn raw(handle: BorrowedHandle<'_>) -> HANDLE {
    HANDLE(handle.as_raw_handle())
}

/// Takes a handle that a call has just given.
///
/// # Safety
/// The handle is open, closes with CloseHandle and has no other owner.
pub(super) unsafe fn own(handle: HANDLE) -> OwnedHandle {
    // SAFETY: the caller's promise.
    unsafe { OwnedHandle::from_raw_handle(handle.0) }
}

/// A second handle to the same object; an inheritable one goes over to a child whose handle list names it.
pub fn duplicate(handle: BorrowedHandle<'_>, inheritable: bool) -> Result<OwnedHandle, CallError> {
    // SAFETY: takes and gives nothing; the pseudo handle needs no closing.
    let own_process = unsafe { GetCurrentProcess() };
    let mut copy = HANDLE::default();
    // SAFETY: `handle` is borrowed for the call, `copy` lives on this stack.
    unsafe {
        DuplicateHandle(
            own_process,
            raw(handle),
            own_process,
            &raw mut copy,
            0,
            inheritable,
            DUPLICATE_SAME_ACCESS,
        )
    }
    .map_err(CallError::of("DuplicateHandle"))?;
    // SAFETY: just made, and known here alone.
    Ok(unsafe { own(copy) })
}

/// Whether the object was signalled within the time; without one it waits for good.
pub fn wait(handle: BorrowedHandle<'_>, within: Option<Duration>) -> Result<bool, CallError> {
    // SAFETY: the handle is borrowed for the call.
    match unsafe { WaitForSingleObject(raw(handle), milliseconds(within)) } {
        WAIT_OBJECT_0 => Ok(true),
        WAIT_TIMEOUT => Ok(false),
        other => Err(unexpected("WaitForSingleObject", other)),
    }
}

/// Which of the objects was signalled first, by its place; none within the time is `None`. At most 64 can be waited
/// for (MAXIMUM_WAIT_OBJECTS).
pub fn wait_any(
    handles: &[BorrowedHandle<'_>],
    within: Option<Duration>,
) -> Result<Option<usize>, CallError> {
    let raws: Vec<HANDLE> = handles.iter().map(|handle| raw(*handle)).collect();
    // SAFETY: every handle is borrowed for the call, and the slice carries its length.
    match unsafe { WaitForMultipleObjects(&raws, false, milliseconds(within)) } {
        WAIT_TIMEOUT => Ok(None),
        WAIT_EVENT(place) if (place as usize) < raws.len() => Ok(Some(place as usize)),
        other => Err(unexpected("WaitForMultipleObjects", other)),
    }
}

/// WAIT_FAILED has a code; anything else (an abandoned mutex) is told as it is.
fn unexpected(call: &'static str, event: WAIT_EVENT) -> CallError {
    if event == WAIT_FAILED { CallError::last(call) } else { CallError::win32(call, event.0) }
}

/// Rounded up, so that a short time is not none; INFINITE is kept for "for good".
pub(super) fn milliseconds(within: Option<Duration>) -> u32 {
    let Some(within) = within else { return INFINITE };
    u32::try_from(within.as_nanos().div_ceil(1_000_000)).map_or(INFINITE - 1, |time| time.min(INFINITE - 1))
}

/// Memory that a call made and LocalFree takes back.
pub(super) struct Local(pub(super) *mut std::ffi::c_void);

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: the call that made it says LocalFree; freed here alone. Null is allowed.
        unsafe { LocalFree(Some(HLOCAL(self.0))) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::windows::io::AsHandle as _;
    use windows::Win32::Foundation::{GetHandleInformation, HANDLE_FLAG_INHERIT};
    use windows::Win32::System::Threading::{CreateEventW, SetEvent};
    use windows::core::PCWSTR;

    pub(crate) fn event() -> OwnedHandle {
        // SAFETY: nothing is passed in.
        let event = unsafe { CreateEventW(None, true, false, PCWSTR::null()) }.expect("an event");
        // SAFETY: just made, and known here alone.
        unsafe { OwnedHandle::from_raw_handle(event.0) }
    }

    fn set(event: &OwnedHandle) {
        // SAFETY: the event is borrowed for the call.
        unsafe { SetEvent(raw(event.as_handle())) }.expect("set");
    }

    #[test]
    fn a_copy_is_the_same_object_and_inherited_only_when_asked() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        for inheritable in [false, true] {
            let copy = duplicate(writer.as_handle(), inheritable).expect("a copy");
            let mut flags = 0;
            // SAFETY: the copy is open, `flags` lives on this stack.
            unsafe { GetHandleInformation(raw(copy.as_handle()), &raw mut flags) }.expect("flags");
            assert_eq!(flags & HANDLE_FLAG_INHERIT.0 != 0, inheritable);
            std::fs::File::from(copy).write_all(b"x").expect("written");
        }
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).expect("read");
        assert_eq!(read, "xx", "the pipe ended, so both copies were closed");
    }

    #[test]
    fn waiting_tells_which_and_gives_up_in_time() {
        let (first, second) = (event(), event());
        let both = [first.as_handle(), second.as_handle()];
        let brief = Some(Duration::from_millis(5));
        assert_eq!(wait_any(&both, brief), Ok(None));
        assert_eq!(wait(first.as_handle(), brief), Ok(false));
        set(&second);
        assert_eq!(wait_any(&both, None), Ok(Some(1)));
        assert_eq!(wait(second.as_handle(), None), Ok(true));
    }

    #[test]
    fn a_short_time_is_not_none_and_a_long_one_not_for_good() {
        assert_eq!(milliseconds(Some(Duration::ZERO)), 0);
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
        assert_eq!(milliseconds(Some(Duration::from_secs(u64::MAX))), INFINITE - 1);
        assert_eq!(milliseconds(None), INFINITE);
    }
}
