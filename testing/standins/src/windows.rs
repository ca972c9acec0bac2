//! The Windows half: how the stand-in gets in front of the program's calls, one file a subject.

mod appcontainer;
mod environment;
mod job;
mod launch;
mod library;
mod redirect;
mod state;
mod token;
mod unix_socket;

use std::ffi::c_void;

use windows_sys::Win32::Foundation::{HMODULE, SetLastError};
use windows_sys::Win32::System::SystemServices::{DLL_PROCESS_ATTACH, DLL_PROCESS_DETACH};
use windows_sys::core::BOOL;

#[unsafe(no_mangle)]
extern "system" fn DllMain(_module: HMODULE, reason: u32, _reserved: *mut c_void) -> BOOL {
    match reason {
        DLL_PROCESS_ATTACH => {
            state::begin();
            redirect::install();
        }
        DLL_PROCESS_DETACH => state::end(),
        _ => {}
    }
    1
}

/// A call that fails as Win32 calls do.
fn fail(error: u32) -> BOOL {
    // SAFETY: it only sets this thread's last error.
    unsafe { SetLastError(error) };
    0
}

/// # Safety
/// `text` is null or points to UTF-16 that ends in a zero.
unsafe fn text(text: *const u16) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the caller's word the units up to the first zero can be read.
    let length = (0..).take_while(|index| unsafe { *text.add(*index) } != 0).count();
    // SAFETY: as above; `length` units were just read.
    Some(String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(text, length) }))
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}
