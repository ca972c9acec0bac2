//! The functions that processmodel.dll exports. Names and signatures: Microsoft Learn, processmodel.h.
#![allow(non_snake_case, reason = "the names are Windows'")]

use std::ffi::c_void;

use serde_json::json;
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::core::HRESULT;

use super::job;
use super::state::{self, Environment, fresh_sid, ledger, with};
use crate::specification::{Specification, hresult};

fn code(hresult: u32) -> HRESULT {
    hresult.cast_signed()
}

/// # Safety
/// `specification` points to `size` bytes and `out` to a handle's place.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn CreateProcessSecurityEnvironment(
    specification: *const c_void,
    size: u32,
    flags: u32,
    out: *mut HANDLE,
) -> HRESULT {
    if specification.is_null() || out.is_null() || size == 0 {
        ledger(json!({"call": "create", "hresult": "0x80070057", "why": "an argument is null"}));
        return code(hresult::INVALID_ARGUMENT);
    }
    // SAFETY: the caller's bytes, which it holds for the call.
    let bytes = unsafe { std::slice::from_raw_parts(specification.cast::<u8>(), size as usize) };
    let settings = state::settings();
    let read = Specification::read(bytes, settings.contract);
    // Only a path can be cold.
    let first = read.as_ref().is_ok_and(Specification::has_paths)
        && with(|state| {
            state.attempts += 1;
            state.attempts == 1
        });
    let injected = settings.create.or(settings.create_once.filter(|_| first));
    let answer = match (&read, injected) {
        (_, Some(hresult)) => Err((hresult, "the test has set it")),
        (Err(refused), None) => Err((refused.hresult, refused.why)),
        (Ok(_), None) => Ok(()),
    };
    let mut handle = 0;
    if let (Ok(()), Ok(read), false) = (answer, &read, settings.create_null) {
        let sid = fresh_sid("environment");
        handle = with(|state| {
            let handle = 0x5053_0000 + state.next * 4;
            let capabilities = read.capability_names().map(str::to_owned).collect();
            state.environments.insert(handle, Environment { sid, capabilities, folders: Vec::new() });
            handle
        });
    }
    if answer.is_ok() {
        // SAFETY: the caller's place.
        unsafe { *out = handle as HANDLE };
    }
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (hresult, why) = answer.err().unwrap_or((0, ""));
    ledger(json!({
        "call": "create", "hresult": format!("{hresult:#010x}"), "why": why, "flags": flags, "handle": handle,
        "bytes": hexadecimal, "specification": read.ok(),
    }));
    code(hresult)
}

/// # Safety
/// None: the handle is looked up, not followed.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn CloseProcessSecurityEnvironment(handle: HANDLE) {
    let handle = handle as usize;
    let children: Vec<(u32, bool)> = with(|state| {
        let of_it = state.children.iter().filter(|(_, child)| child.environment == Some(handle));
        of_it
            .map(|(pid, child)| {
                (*pid, state::alive(child.process) || child.job.is_some_and(job::has_processes))
            })
            .collect()
    });
    let closed = with(|state| state.environments.remove(&handle));
    let alive = children.iter().filter(|(_, alive)| *alive).count();
    ledger(json!({"call": "close", "handle": handle, "open": closed.is_some(), "alive": alive}));
    for (pid, _) in children {
        state::forget(pid);
    }
    for folder in closed.iter().flat_map(|environment| &environment.folders) {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// # Safety
/// `flags` is null or points to eight bytes.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn QueryProcessSecurityEnvironmentSupport(flags: *mut u64) -> HRESULT {
    let settings = state::settings();
    ledger(json!({"call": "support"}));
    if flags.is_null() {
        return code(hresult::INVALID_ARGUMENT);
    }
    if let Some(hresult) = settings.query {
        return code(hresult);
    }
    // SAFETY: the caller's place, which is not null.
    unsafe { *flags = settings.contract.features };
    0
}

/// # Safety
/// `available` and `minor` are null or point to places of theirs.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn IsProcessSecurityEnvironmentVersionSupported(
    major: u32,
    available: *mut u8,
    minor: *mut u32,
) -> HRESULT {
    let settings = state::settings();
    ledger(json!({"call": "version", "major": major}));
    if available.is_null() || minor.is_null() {
        return code(hresult::INVALID_ARGUMENT);
    }
    if let Some(hresult) = settings.query {
        return code(hresult);
    }
    let known = major == u32::from(settings.contract.major);
    // SAFETY: the caller's places, which are not null. A BOOLEAN is one byte.
    unsafe {
        *available = u8::from(known);
        *minor = if known { settings.contract.minor.into() } else { 0 };
    }
    0
}

/// Nobody should call it: what it does is not published.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn CancelProcessSecurityEnvironmentTerminateOnClose(handle: HANDLE) -> HRESULT {
    ledger(json!({"call": "cancel_terminate_on_close", "handle": handle as usize}));
    0
}
