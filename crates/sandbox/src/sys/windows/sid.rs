//! Security identifiers: owned copies, so that nothing hangs on memory of Windows'. It refuses to know accounts.

use std::ffi::c_void;
use std::fmt;

use windows::Win32::Security::Authorization::{ConvertSidToStringSidW, ConvertStringSidToSidW};
use windows::Win32::Security::{CopySid, GetLengthSid, IsValidSid, PSID};
use windows::core::PWSTR;

use super::error::CallError;
use super::handle::Local;
use super::wide::Wide;

/// A security identifier.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid(Box<[u32]>);

/// ERROR_INVALID_SID (winerror.h).
const INVALID_SID: u32 = 1337;

impl Sid {
    /// From its text, `S-1-…`, never an alias such as `WD`.
    pub fn parse(text: &str) -> Result<Sid, CallError> {
        const CALL: &str = "ConvertStringSidToSidW";
        let refused = CallError::win32(CALL, INVALID_SID);
        if !text.starts_with("S-1-") {
            return Err(refused);
        }
        let wide = Wide::new(text).map_err(|_| refused)?;
        let mut made = PSID::default();
        // SAFETY: `wide` ends with its NUL and outlives the call, `made` lives on this stack.
        unsafe { ConvertStringSidToSidW(wide.pointer(), &raw mut made) }.map_err(CallError::of(CALL))?;
        let memory = Local(made.0);
        // SAFETY: the call has just made a valid identifier there, freed when `memory` goes.
        unsafe { Sid::copy(PSID(memory.0)) }
    }

    /// Everyone (winnt.h, SECURITY_WORLD_SID_AUTHORITY).
    pub fn everyone() -> Sid {
        Sid::well_known(1, &[0])
    }

    /// ALL APPLICATION PACKAGES: every AppContainer (winnt.h, SECURITY_APP_PACKAGE_AUTHORITY 15,
    /// SECURITY_APP_PACKAGE_BASE_RID 2, SECURITY_BUILTIN_PACKAGE_ANY_PACKAGE 1).
    pub fn all_application_packages() -> Sid {
        Sid::well_known(15, &[2, 1])
    }

    /// ALL RESTRICTED APPLICATION PACKAGES: less-privileged ones too (winnt.h,
    /// SECURITY_BUILTIN_PACKAGE_ANY_RESTRICTED_PACKAGE 2).
    pub fn all_restricted_application_packages() -> Sid {
        Sid::well_known(15, &[2, 2])
    }

    /// The layout of a SID (winnt.h): revision 1, count, authority as six bytes, most significant first, then the
    /// parts.
    fn well_known(authority: u8, parts: &[u32]) -> Sid {
        let head = u32::from_le_bytes([1, parts.len() as u8, 0, 0]);
        let tail = u32::from_le_bytes([0, 0, 0, authority]);
        Sid([&[head, tail], parts].concat().into())
    }

    /// A copy of an identifier of Windows'.
    ///
    /// # Safety
    /// The pointer leads to memory that is readable as far as the identifier's own head says, or is null.
    pub(super) unsafe fn copy(from: PSID) -> Result<Sid, CallError> {
        // SAFETY: the caller's promise; IsValidSid reads the head and takes null for invalid.
        if from.is_invalid() || !unsafe { IsValidSid(from) }.as_bool() {
            return Err(CallError::win32("IsValidSid", INVALID_SID));
        }
        // SAFETY: valid, as just asked.
        let length = unsafe { GetLengthSid(from) };
        let mut words = vec![0_u32; (length as usize).div_ceil(4)];
        // SAFETY: `words` has at least `length` bytes, aligned for an identifier's parts.
        unsafe { CopySid(length, PSID(words.as_mut_ptr().cast()), from) }
            .map_err(CallError::of("CopySid"))?;
        Ok(Sid(words.into()))
    }

    /// For calls that only read it; valid as long as this is.
    pub(super) fn pointer(&self) -> PSID {
        PSID(self.0.as_ptr().cast::<c_void>().cast_mut())
    }

    /// The last part, which is the level in an integrity label.
    pub(super) fn last_part(&self) -> Option<u32> {
        self.0.get(2..).and_then(<[u32]>::last).copied()
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut made = PWSTR::null();
        // SAFETY: the identifier is ours and only read, `made` lives on this stack.
        unsafe { ConvertSidToStringSidW(self.pointer(), &raw mut made) }.map_err(|_| fmt::Error)?;
        let memory = Local(made.0.cast());
        // SAFETY: the call has just made a NUL-ended text there, freed when `memory` goes.
        let text = unsafe { PWSTR(memory.0.cast()).to_string() }.map_err(|_| fmt::Error)?;
        formatter.write_str(&text)
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (sid, text) in [
            (Sid::everyone(), "S-1-1-0"),
            (Sid::all_application_packages(), "S-1-15-2-1"),
            (Sid::all_restricted_application_packages(), "S-1-15-2-2"),
        ] {
            assert_eq!(sid.to_string(), text);
            assert_eq!(Sid::parse(text), Ok(sid));
        }
        let long = "S-1-15-2-1-2-3-4-5-6-4294967295";
        assert_eq!(Sid::parse(long).map(|sid| sid.to_string()).as_deref(), Ok(long));
        assert_eq!(Sid::parse(long).expect("valid").last_part(), Some(u32::MAX));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "S-1", "WD", "S-1-1-0\0", "S-1-5-x"] {
            assert_eq!(
                Sid::parse(text).map_err(|error| error.win32_code()),
                Err(Some(INVALID_SID)),
                "{text:?}"
            );
        }
        // SAFETY: null is allowed.
        assert!(unsafe { Sid::copy(PSID::default()) }.is_err());
    }
}
