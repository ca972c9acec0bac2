//! Job objects: limits that Wine takes and forgets, or does not know, are remembered by handle, so that what was set
//! reads back. None is enforced but kill on close and the breakaway flags, which Wine has.

use std::ffi::c_void;

use serde_json::json;
use windows_sys::Win32::Foundation::{GetLastError, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JobObjectBasicAccountingInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::GetProcessId;
use windows_sys::core::BOOL;

use super::fail;
use super::state::{ledger, settings, with};

/// Class and size of what is remembered: extended limits, user interface, CPU rate, network rate.
const REMEMBERED: [(i32, u32); 4] = [(9, 144), (4, 4), (15, 8), (32, 16)];
/// Of these, what Wine 8 refuses.
const UNKNOWN_TO_WINE: [i32; 2] = [15, 32];

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn assign(job: HANDLE, process: HANDLE) -> BOOL {
    // SAFETY: the caller's handle; one that is none gives 0.
    let child = unsafe { GetProcessId(process) };
    let injected = settings().assign.filter(|_| with(|state| state.children.contains_key(&child)));
    // SAFETY: the caller's own arguments.
    let done = if let Some(error) = injected {
        fail(error)
    } else {
        unsafe { AssignProcessToJobObject(job, process) }
    };
    // SAFETY: it reads this thread's last error.
    let error = if done != 0 { 0 } else { unsafe { GetLastError() } };
    if done != 0 {
        with(|state| {
            if let Some(child) = state.children.get_mut(&child) {
                child.job = Some(job as usize);
            }
        });
    }
    ledger(json!({"call": "assign", "job": job as usize, "child": child, "error": error}));
    if done == 0 { fail(error) } else { done }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn terminate(job: HANDLE, code: u32) -> BOOL {
    ledger(json!({"call": "terminate_job", "job": job as usize, "code": code}));
    // SAFETY: the caller's own arguments.
    unsafe { TerminateJobObject(job, code) }
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn set(job: HANDLE, class: i32, value: *const c_void, size: u32) -> BOOL {
    let keep = !value.is_null() && REMEMBERED.contains(&(class, size));
    if !(keep && UNKNOWN_TO_WINE.contains(&class)) {
        // SAFETY: the caller's own arguments.
        let done = unsafe { SetInformationJobObject(job, class, value, size) };
        if done == 0 {
            return 0;
        }
    }
    if keep {
        // SAFETY: the caller's value, of the size that it says.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size as usize) }.to_vec();
        let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        ledger(json!({"call": "job_limits", "job": job as usize, "class": class, "bytes": hexadecimal}));
        with(|state| state.jobs.insert((job as usize, class), bytes));
    }
    1
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn query(
    job: HANDLE,
    class: i32,
    value: *mut c_void,
    size: u32,
    returned: *mut u32,
) -> BOOL {
    let kept = with(|state| state.jobs.get(&(job as usize, class)).cloned());
    match kept {
        Some(bytes) if !value.is_null() && size as usize == bytes.len() => {
            // SAFETY: the caller's place has the size that it says, and `returned` is null or its own.
            unsafe {
                value.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len());
                if !returned.is_null() {
                    *returned = size;
                }
            }
            1
        }
        // SAFETY: the caller's own arguments.
        _ => unsafe { QueryInformationJobObject(job, class, value, size, returned) },
    }
}

/// Is anything running in it? A job whose handle was closed has killed what was in it.
pub fn has_processes(job: usize) -> bool {
    let mut counted = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
    // SAFETY: a place of our own with its size; a handle that is none gives an error.
    let done = unsafe {
        QueryInformationJobObject(
            job as HANDLE,
            JobObjectBasicAccountingInformation,
            (&raw mut counted).cast(),
            u32::try_from(size_of_val(&counted)).unwrap_or(0),
            std::ptr::null_mut(),
        )
    };
    done != 0 && counted.ActiveProcesses > 0
}
