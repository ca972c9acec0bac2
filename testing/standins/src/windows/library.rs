//! What is on this Windows: the set of functions, the library and its exports, as the test has set them.

use std::ffi::CStr;

use serde_json::json;
use windows_sys::Win32::Foundation::{ERROR_MOD_NOT_FOUND, ERROR_PROC_NOT_FOUND, FARPROC, HANDLE, HMODULE};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress, LoadLibraryExW};
use windows_sys::core::{BOOL, PCSTR, PCWSTR};

use super::state::{ledger, settings};
use super::{fail, redirect, text};

const API_SET: &[u8] = b"api-win-appmodel-processmodel~securityenvironment";

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn is_api_set_implemented(name: PCSTR) -> BOOL {
    // SAFETY: the caller's name ends in a zero.
    let asked = unsafe { CStr::from_ptr(name.cast()) };
    let here = asked.to_bytes() == API_SET && settings().psec;
    ledger(json!({"call": "api_set", "name": asked.to_string_lossy(), "here": here}));
    if here {
        return 1;
    }
    // Wine's own sets are its own affair.
    let module = c"kernelbase.dll".as_ptr();
    // SAFETY: the names end in zeros; the function has this type, and takes the caller's name.
    unsafe {
        match GetProcAddress(GetModuleHandleA(module.cast()), c"IsApiSetImplemented".as_ptr().cast()) {
            Some(theirs) if asked.to_bytes() != API_SET => std::mem::transmute::<
                unsafe extern "system" fn() -> isize,
                unsafe extern "system" fn(PCSTR) -> BOOL,
            >(theirs)(name),
            _ => 0,
        }
    }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn load_library(name: PCWSTR, file: HANDLE, flags: u32) -> HMODULE {
    // SAFETY: the caller's name ends in a zero.
    let asked = unsafe { text(name) }.unwrap_or_default();
    if asked.to_lowercase().contains("processmodel") {
        let here = settings().psec;
        ledger(json!({"call": "load_library", "name": asked, "flags": flags, "here": here}));
        if !here {
            fail(ERROR_MOD_NOT_FOUND);
            return std::ptr::null_mut();
        }
    }
    // SAFETY: the caller's own arguments.
    unsafe { LoadLibraryExW(name, file, flags) }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn get_proc_address(module: HMODULE, name: PCSTR) -> FARPROC {
    // Below 64 Ki it is a number.
    if name as usize > 0xffff {
        // SAFETY: then it is a name that ends in a zero.
        let asked = unsafe { CStr::from_ptr(name.cast()) };
        if settings().missing.iter().any(|missing| missing.as_bytes() == asked.to_bytes()) {
            fail(ERROR_PROC_NOT_FOUND);
            return None;
        }
        if let Some((_, ours)) = redirect::added().iter().find(|(name, _)| *name == asked) {
            // SAFETY: it is the address of a function.
            return unsafe { std::mem::transmute::<usize, FARPROC>(*ours) };
        }
    }
    // SAFETY: the caller's own arguments.
    let found = unsafe { GetProcAddress(module, name) }?;
    let address = redirect::ours(found as usize).unwrap_or(found as usize);
    // SAFETY: it is the address of a function.
    unsafe { std::mem::transmute::<usize, FARPROC>(address) }
}
