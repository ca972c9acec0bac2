//! AppContainer profiles: userenv's three functions, which Wine lacks. Rules and results: Microsoft Learn, userenv.h.

use std::ffi::c_void;
use std::path::PathBuf;

use serde_json::json;
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::ConvertSidToStringSidW;
use windows_sys::Win32::Security::{AllocateAndInitializeSid, PSID, SID_IDENTIFIER_AUTHORITY};
use windows_sys::core::{HRESULT, PCWSTR};

use super::state::{ledger, settings, sid_of};
use super::text;

const ALREADY_EXISTS: u32 = 0x8007_00b7;
const INVALID_ARGUMENT: u32 = 0x8007_0057;
const OUT_OF_MEMORY: u32 = 0x8007_000e;

fn profiles() -> PathBuf {
    PathBuf::from(settings().state).join("profiles")
}

/// A profile's file is named by its identifier and holds its name.
fn file(sid: &str) -> PathBuf {
    profiles().join(sid)
}

/// Is there a profile with this identifier?
pub fn exists(sid: &str) -> bool {
    file(sid).exists()
}

fn good(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte))
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn create(
    name: PCWSTR,
    display: PCWSTR,
    description: PCWSTR,
    capabilities: *const c_void,
    count: u32,
    out: *mut PSID,
) -> HRESULT {
    // SAFETY: the caller's texts are null or end in zeros.
    let [name, display, description] =
        [name, display, description].map(|given| unsafe { text(given) }.unwrap_or_default());
    let fits = |text: &str, most| (1..=most).contains(&text.encode_utf16().count());
    let sid = sid_of(&name);
    let answer = if let Some(hresult) = settings().profile {
        hresult
    } else if !(good(&name) && fits(&display, 512) && fits(&description, 2048))
        || out.is_null()
        || (count != 0 && capabilities.is_null())
    {
        INVALID_ARGUMENT
    } else if exists(&sid) {
        ALREADY_EXISTS
    } else {
        let made = std::fs::create_dir_all(profiles()).and_then(|()| std::fs::write(file(&sid), &name));
        // SAFETY: the caller's place, which is not null.
        if made.is_ok() && unsafe { give(&sid, out) } { 0 } else { OUT_OF_MEMORY }
    };
    ledger(
        json!({"call": "profile_create", "name": name, "capabilities": count, "hresult": format!("{answer:#010x}")}),
    );
    answer.cast_signed()
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn derive(name: PCWSTR, out: *mut PSID) -> HRESULT {
    // SAFETY: the caller's text is null or ends in a zero.
    let name = unsafe { text(name) }.unwrap_or_default();
    if !good(&name) || out.is_null() {
        return INVALID_ARGUMENT.cast_signed();
    }
    // SAFETY: the caller's place, which is not null.
    let answer = if unsafe { give(&sid_of(&name), out) } { 0 } else { OUT_OF_MEMORY };
    ledger(json!({"call": "profile_derive", "name": name}));
    answer.cast_signed()
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn delete(name: PCWSTR) -> HRESULT {
    // SAFETY: the caller's text is null or ends in a zero.
    let name = unsafe { text(name) }.unwrap_or_default();
    let there = std::fs::remove_file(file(&sid_of(&name))).is_ok();
    ledger(json!({"call": "profile_delete", "name": name, "there": there}));
    // What is not there counts as deleted.
    0
}

/// An identifier that FreeSid frees.
///
/// # Safety
/// `out` is a place.
unsafe fn give(sid: &str, out: *mut PSID) -> bool {
    let mut words = sid.trim_start_matches("S-1-15-").split('-').map(|word| word.parse().unwrap_or(0));
    let mut next = || words.next().unwrap_or(0);
    let authority = SID_IDENTIFIER_AUTHORITY { Value: [0, 0, 0, 0, 0, 15] };
    let [a, b, c, d, e, f, g, h] = std::array::from_fn(|_| next());
    // SAFETY: the authority is ours for the call, and the place the caller's.
    unsafe { AllocateAndInitializeSid(&authority, 8, a, b, c, d, e, f, g, h, out) != 0 }
}

/// An identifier as text.
pub fn sid_text(sid: PSID) -> Option<String> {
    let mut made = std::ptr::null_mut();
    // SAFETY: the caller's identifier, or null, which is refused; the text is copied, then freed as it must be.
    unsafe {
        if sid.is_null() || ConvertSidToStringSidW(sid, &mut made) == 0 {
            return None;
        }
        let copied = text(made);
        LocalFree(made.cast());
        copied
    }
}
