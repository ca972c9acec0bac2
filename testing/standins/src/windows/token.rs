//! Whose token it is and what it says: an AppContainer's for a process that was started with the attribute, unless the
//! test has set another answer. Everybody else's says that it is none.
#![allow(non_upper_case_globals, reason = "classes have Windows' names, in patterns too")]

use std::ffi::c_void;

use serde_json::json;
use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_INSUFFICIENT_BUFFER, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::ConvertStringSidToSidW;
use windows_sys::Win32::Security::{
    CopySid, GetLengthSid, GetTokenInformation, PSID, SID_AND_ATTRIBUTES, TOKEN_ACCESS_MASK,
    TOKEN_APPCONTAINER_INFORMATION, TOKEN_GROUPS, TOKEN_MANDATORY_LABEL, TokenAppContainerSid,
    TokenCapabilities, TokenIntegrityLevel, TokenIsAppContainer, TokenIsLessPrivilegedAppContainer,
};
use windows_sys::Win32::System::Threading::{GetProcessId, OpenProcessToken};
use windows_sys::core::BOOL;

use super::state::{Identity, answer, ledger, who, with};
use super::{fail, wide};
use crate::settings::Token;

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn open(process: HANDLE, access: TOKEN_ACCESS_MASK, token: *mut HANDLE) -> BOOL {
    // SAFETY: the caller's own arguments.
    let done = unsafe { OpenProcessToken(process, access, token) };
    if done != 0 {
        // SAFETY: the caller's handle, and the place that the call has filled.
        let (pid, token) = unsafe { (GetProcessId(process), *token) };
        if let Some(identity) = who(process, pid) {
            with(|state| state.tokens.insert(token as usize, identity));
        }
    }
    done
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn information(
    token: HANDLE,
    class: i32,
    place: *mut c_void,
    size: u32,
    needed: *mut u32,
) -> BOOL {
    // -4 is the process's own token, without being opened.
    let own = token as isize == -4;
    let identity =
        with(|state| if own { state.inside.clone() } else { state.tokens.get(&(token as usize)).cloned() });
    let said = answer();
    if identity.is_some() {
        ledger(
            json!({"call": "token", "class": class, "child": identity.as_ref().map(|identity| identity.pid)}),
        );
    }
    let contained: Option<&Identity> = identity.as_ref().filter(|_| said != Token::None);
    if contained.is_some() && said == Token::Refused {
        return fail(ERROR_ACCESS_DENIED);
    }
    let answer = match (class, contained) {
        (TokenIsAppContainer, Some(_)) => number(1),
        (TokenIsLessPrivilegedAppContainer, _) => {
            number(u32::from(contained.is_some() && said == Token::LessPrivileged))
        }
        (TokenCapabilities, Some(identity)) => groups(&identity.capabilities),
        (TokenCapabilities, None) => groups(&[]),
        (TokenAppContainerSid, Some(identity)) => Answer::new(size_of::<TOKEN_APPCONTAINER_INFORMATION>())
            .sid(std::mem::offset_of!(TOKEN_APPCONTAINER_INFORMATION, TokenAppContainer), &identity.sid),
        (TokenIntegrityLevel, Some(_)) => {
            let level = if said == Token::Medium { "S-1-16-8192" } else { "S-1-16-4096" };
            let mut label = Answer::new(size_of::<TOKEN_MANDATORY_LABEL>());
            // SE_GROUP_INTEGRITY, as in every label.
            label.put(std::mem::offset_of!(SID_AND_ATTRIBUTES, Attributes), 0x20);
            label.sid(0, level)
        }
        // SAFETY: the caller's own arguments.
        _ => return unsafe { GetTokenInformation(token, class, place, size, needed) },
    };
    // SAFETY: the caller's places, of the size that it says.
    unsafe { answer.give(place, size, needed) }
}

fn number(number: u32) -> Answer {
    let mut answer = Answer::new(4);
    answer.put(0, number);
    answer
}

fn groups(capabilities: &[String]) -> Answer {
    let head = std::mem::offset_of!(TOKEN_GROUPS, Groups);
    let each = size_of::<SID_AND_ATTRIBUTES>();
    let mut answer = Answer::new((head + each * capabilities.len()).max(size_of::<TOKEN_GROUPS>()));
    answer.put(0, u32::try_from(capabilities.len()).unwrap_or(0));
    for (index, name) in capabilities.iter().enumerate() {
        // SE_GROUP_ENABLED.
        answer.put(head + each * index + std::mem::offset_of!(SID_AND_ATTRIBUTES, Attributes), 4);
        answer = answer.sid(head + each * index, &capability_sid(name));
    }
    answer
}

/// The three that are well known; any other name gives some identifier of the kind that Windows derives.
fn capability_sid(name: &str) -> String {
    match name {
        "internetClient" => "S-1-15-3-1".to_owned(),
        "internetClientServer" => "S-1-15-3-2".to_owned(),
        "privateNetworkClientServer" => "S-1-15-3-3".to_owned(),
        _ => super::state::sid_of(name).replacen("S-1-15-2-", "S-1-15-3-1024-", 1),
    }
}

/// A structure with the identifiers that it points to behind it.
struct Answer {
    bytes: Vec<u8>,
    /// Where an address stands, and how far into the answer it leads.
    pointers: Vec<(usize, usize)>,
}

impl Answer {
    fn new(size: usize) -> Self {
        Answer { bytes: vec![0; size], pointers: Vec::new() }
    }

    fn put(&mut self, at: usize, number: u32) {
        self.bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }

    /// With an identifier's address at this place.
    fn sid(mut self, at: usize, text: &str) -> Self {
        let text = wide(text);
        let mut sid: PSID = std::ptr::null_mut();
        // SAFETY: the text ends in a zero; what is made is copied, then freed as it must be.
        unsafe {
            assert!(ConvertStringSidToSidW(text.as_ptr(), &mut sid) != 0, "an identifier of our own");
            let length = GetLengthSid(sid) as usize;
            let start = self.bytes.len().next_multiple_of(8);
            self.bytes.resize(start + length, 0);
            CopySid(GetLengthSid(sid), self.bytes[start..].as_mut_ptr().cast(), sid);
            self.pointers.push((at, start));
            LocalFree(sid);
        }
        self
    }

    /// # Safety
    /// `place` has `size` bytes; `needed` is null or a place.
    unsafe fn give(mut self, place: *mut c_void, size: u32, needed: *mut u32) -> BOOL {
        let length = self.bytes.len();
        if !needed.is_null() {
            // SAFETY: by the caller's word.
            unsafe { *needed = u32::try_from(length).unwrap_or(u32::MAX) };
        }
        if place.is_null() || (size as usize) < length {
            return fail(ERROR_INSUFFICIENT_BUFFER);
        }
        for (at, start) in &self.pointers {
            let address = place as usize + start;
            self.bytes[*at..at + size_of::<usize>()].copy_from_slice(&address.to_le_bytes());
        }
        // SAFETY: it has room for them, as was just looked at.
        unsafe { place.cast::<u8>().copy_from(self.bytes.as_ptr(), length) };
        1
    }
}
