//! Functions that not every Windows has: looked for by name, in System32 only. It refuses to know their types.

use std::ffi::CStr;

use windows::Win32::Foundation::HMODULE;
use windows::Win32::System::LibraryLoader::{GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW};
use windows::core::{PCSTR, PCWSTR};

use super::error::CallError;

/// A library of System32. It is never freed: what was found in it stays valid for the life of the process.
#[derive(Clone, Copy)]
pub(super) struct Library(HMODULE);

/// A function whose type is the caller's to say.
pub(super) type Function = unsafe extern "system" fn() -> isize;

/// A function that this Windows does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this Windows has no {name} ({error})")]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// What the search answered.
    pub error: CallError,
}

impl Library {
    /// Opens a library of System32 or an API set, and never one from beside the program, the current folder or PATH.
    pub(super) fn open(name: PCWSTR) -> Result<Library, CallError> {
        // SAFETY: `name` is a NUL-ended literal of the caller's; the module is never freed.
        let module = unsafe { LoadLibraryExW(name, None, LOAD_LIBRARY_SEARCH_SYSTEM32) };
        module.map(Library).map_err(CallError::of("LoadLibraryExW"))
    }

    /// A function by its name.
    pub(super) fn function(self, name: &'static CStr) -> Result<Function, Missing> {
        // SAFETY: the module is loaded for good, `name` ends with its NUL.
        let found = unsafe { GetProcAddress(self.0, PCSTR(name.as_ptr().cast())) };
        found.ok_or_else(|| Missing {
            name: name.to_str().unwrap_or("function"),
            error: CallError::last("GetProcAddress"),
        })
    }

    /// A function of a library, both by name.
    pub(super) fn find(library: PCWSTR, name: &'static CStr) -> Result<Function, Missing> {
        match Library::open(library) {
            Ok(library) => library.function(name),
            Err(error) => Err(Missing { name: name.to_str().unwrap_or("function"), error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows::core::w;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_named() {
        Library::find(w!("kernel32.dll"), c"CreateProcessW").expect("every Windows has it");
        let error = Library::find(w!("kernel32.dll"), c"CreateNothingAtAllW").expect_err("nothing has it");
        // ERROR_PROC_NOT_FOUND
        assert_eq!((error.name, error.error.win32_code()), ("CreateNothingAtAllW", Some(127)));
        let error = Library::find(w!("no-such-library-anywhere.dll"), c"Create").expect_err("no library");
        // ERROR_MOD_NOT_FOUND
        assert_eq!((error.error.call, error.error.win32_code()), ("LoadLibraryExW", Some(126)));
    }
}
