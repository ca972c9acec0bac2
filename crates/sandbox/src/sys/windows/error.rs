//! What Windows answered to a call that failed: which call, and the code. It refuses to know what the code means.

use std::fmt;

/// A call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {code}")]
pub struct CallError {
    /// The function, by its own name.
    pub call: &'static str,
    /// What it answered.
    pub code: Code,
}

/// A code, in the form in which the call gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// From GetLastError, or returned as one.
    Win32(u32),
    /// A negative HRESULT, or one that was to be S_OK and came with nothing.
    Hresult(i32),
}

/// The part of an HRESULT that says that the rest is a Win32 code (winerror.h, FACILITY_WIN32 7 with the failure bit).
const FROM_WIN32: u32 = 0x8007_0000;

impl CallError {
    /// What GetLastError says now.
    pub(super) fn last(call: &'static str) -> CallError {
        CallError::win32(call, windows::core::HRESULT::from_thread().0 as u32 & 0xFFFF)
    }

    pub(super) fn win32(call: &'static str, code: u32) -> CallError {
        CallError { call, code: Code::Win32(code) }
    }

    pub(super) fn hresult(call: &'static str, code: i32) -> CallError {
        CallError { call, code: Code::Hresult(code) }
    }

    /// From what the crate `windows` made of GetLastError.
    pub(super) fn of(call: &'static str) -> impl FnOnce(windows::core::Error) -> CallError {
        move |error| match error.code().0 {
            code if code as u32 & 0xFFFF_0000 == FROM_WIN32 => CallError::win32(call, code as u32 & 0xFFFF),
            code => CallError::hresult(call, code),
        }
    }

    /// The Win32 code, also when it comes wrapped in an HRESULT.
    pub fn win32_code(&self) -> Option<u32> {
        match self.code {
            Code::Win32(code) => Some(code),
            Code::Hresult(code) if code as u32 & 0xFFFF_0000 == FROM_WIN32 => Some(code as u32 & 0xFFFF),
            Code::Hresult(_) => None,
        }
    }

    /// The code as an HRESULT.
    pub fn as_hresult(&self) -> i32 {
        match self.code {
            Code::Win32(0) => 0,
            Code::Win32(code) => (FROM_WIN32 | code & 0xFFFF) as i32,
            Code::Hresult(code) => code,
        }
    }
}

/// For callers that know the standard library's errors alone: the code stays, the call's name does not.
impl From<CallError> for std::io::Error {
    fn from(error: CallError) -> std::io::Error {
        match error.win32_code() {
            Some(code) => std::io::Error::from_raw_os_error(code.cast_signed()),
            None => std::io::Error::other(error),
        }
    }
}

/// What the crate `windows` made of GetLastError, as the standard library has it.
pub(super) fn as_io(error: windows::core::Error) -> std::io::Error {
    CallError::of("")(error).into()
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Win32(code) => write!(formatter, "error {code}"),
            Code::Hresult(code) => write!(formatter, "{:#010x}", *code as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_and_code_stay_fields_in_either_form() {
        let win32 = CallError::win32("CreateProcessW", 203);
        assert_eq!(win32.to_string(), "CreateProcessW: error 203");
        assert_eq!((win32.win32_code(), win32.as_hresult() as u32), (Some(203), 0x8007_00CB));
        let wrapped = CallError::hresult("Create", 0x8007_0032_u32 as i32);
        assert_eq!(wrapped.to_string(), "Create: 0x80070032");
        assert_eq!(wrapped.win32_code(), Some(50));
        let denied = std::io::Error::from(CallError::hresult("Create", 0x8007_0005_u32 as i32));
        assert_eq!((denied.kind(), denied.raw_os_error()), (std::io::ErrorKind::PermissionDenied, Some(5)));
        let other = CallError::hresult("Create", 0x8000_4001_u32 as i32);
        assert_eq!((other.win32_code(), other.as_hresult() as u32), (None, 0x8000_4001));
    }
}
