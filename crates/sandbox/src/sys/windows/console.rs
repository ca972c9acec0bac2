//! What a console tells this process: Ctrl-C, Ctrl-Break, that its window closes. Told as an event that can be waited
//! for beside a process; nothing is done in the handler itself, which Windows runs on a thread of its own.

use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use windows::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};
use windows::Win32::System::Threading::{CreateEventW, ResetEvent, SetEvent};
use windows::core::{BOOL, PCWSTR};

use super::error::CallError;
use super::handle::{own, raw};

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C.
    C,
    /// Ctrl-Break.
    Break,
    /// The console's window closes; Windows ends the process soon, whatever it does.
    Close,
    /// The user logs off.
    LogOff,
    /// The machine shuts down.
    ShutDown,
}

/// What the handler knows: the event, and what was asked last (its number plus one, none as zero).
struct State {
    event: OwnedHandle,
    asked: AtomicU32,
}

static STATE: OnceLock<State> = OnceLock::new();

/// How long the handler keeps Windows from ending the process at once, when the window closes: the owner ends the
/// run's job meanwhile and exits. Windows waits 5 seconds at most (Microsoft Learn, HandlerRoutine).
const GRACE: Duration = Duration::from_secs(5);

/// Interrupts of this process; from the first one on they no longer end it by themselves.
#[derive(Clone, Copy)]
pub struct Interrupts(&'static State);

impl Interrupts {
    /// Listens. However often it is called, there is one handler.
    pub fn listen() -> Result<Interrupts, CallError> {
        if let Some(state) = STATE.get() {
            return Ok(Interrupts(state));
        }
        // SAFETY: nothing is passed in.
        let event = unsafe { CreateEventW(None, true, false, PCWSTR::null()) }
            .map_err(CallError::of("CreateEventW"))?;
        // SAFETY: just made, and known here alone.
        let event = unsafe { own(event) };
        let mut first = false;
        let state = STATE.get_or_init(|| {
            first = true;
            State { event, asked: AtomicU32::new(0) }
        });
        if first {
            // SAFETY: the routine is a function of this program's, which never goes.
            unsafe { SetConsoleCtrlHandler(Some(handle), true) }
                .map_err(CallError::of("SetConsoleCtrlHandler"))?;
        }
        Ok(Interrupts(state))
    }

    /// What was asked last and has not been taken.
    pub fn taken(&self) -> Option<Interrupt> {
        // The event first: one that comes in between then wakes once for nothing, rather than never.
        // SAFETY: the event is never closed.
        let _ = unsafe { ResetEvent(raw(self.0.event.as_handle())) };
        interrupt(self.0.asked.swap(0, Ordering::SeqCst).checked_sub(1)?)
    }
}

/// The event to wait for.
impl AsHandle for Interrupts {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.event.as_handle()
    }
}

unsafe extern "system" fn handle(kind: u32) -> BOOL {
    let (Some(state), Some(asked)) = (STATE.get(), interrupt(kind)) else { return BOOL(0) };
    state.asked.store(kind + 1, Ordering::SeqCst);
    // SAFETY: the event is never closed.
    let told = unsafe { SetEvent(raw(state.event.as_handle())) };
    if !matches!(asked, Interrupt::C | Interrupt::Break) {
        thread::sleep(GRACE);
    }
    BOOL::from(told.is_ok())
}

fn interrupt(kind: u32) -> Option<Interrupt> {
    match kind {
        CTRL_C_EVENT => Some(Interrupt::C),
        CTRL_BREAK_EVENT => Some(Interrupt::Break),
        CTRL_CLOSE_EVENT => Some(Interrupt::Close),
        CTRL_LOGOFF_EVENT => Some(Interrupt::LogOff),
        CTRL_SHUTDOWN_EVENT => Some(Interrupt::ShutDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::handle::wait;
    use super::*;

    #[test]
    fn an_interrupt_is_told_once() {
        let interrupts = Interrupts::listen().expect("a handler");
        let same = Interrupts::listen().expect("the same");
        assert_eq!(interrupts.taken(), None);
        assert_eq!(wait(interrupts.as_handle(), Some(Duration::ZERO)), Ok(false));
        // Windows calls the routine so. An event of a console itself cannot be made here: Wine refuses
        // GenerateConsoleCtrlEvent.
        for (kind, expected) in [(CTRL_C_EVENT, Interrupt::C), (CTRL_BREAK_EVENT, Interrupt::Break)] {
            // SAFETY: the routine takes any number.
            assert!(unsafe { handle(kind) }.as_bool());
            assert_eq!(wait(same.as_handle(), Some(Duration::ZERO)), Ok(true));
            assert_eq!(interrupts.taken(), Some(expected));
            assert_eq!(same.taken(), None);
            assert_eq!(wait(same.as_handle(), Some(Duration::ZERO)), Ok(false));
        }
        // SAFETY: likewise. One that nobody knows is left to the next handler.
        assert!(!unsafe { handle(77) }.as_bool());
        assert_eq!([2, 5, 6].map(interrupt), {
            use Interrupt::{Close, LogOff, ShutDown};
            [Some(Close), Some(LogOff), Some(ShutDown)]
        });
    }
}
