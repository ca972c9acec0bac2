//! AppContainer profiles of this user's: made, found by name, removed. Nothing needs an administrator. It refuses to
//! know what a profile is for.
//!
//! The functions are found at run time: Windows has had them since Windows 8, Wine has not.

use std::ffi::c_void;

use windows::Win32::Security::{FreeSid, PSID};
use windows::core::{PCWSTR, w};

use super::error::CallError;
use super::library::{Function, Library, Missing};
use super::sid::Sid;
use super::wide::{InteriorNul, Wide};

/// Signatures: userenv.h.
type Create = unsafe extern "system" fn(PCWSTR, PCWSTR, PCWSTR, *const c_void, u32, *mut PSID) -> i32;
type Derive = unsafe extern "system" fn(PCWSTR, *mut PSID) -> i32;
type Delete = unsafe extern "system" fn(PCWSTR) -> i32;

/// HRESULT_FROM_WIN32(ERROR_ALREADY_EXISTS) (winerror.h)
const EXISTS: i32 = 0x8007_00B7_u32 as i32;
/// HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND), and of ERROR_NOT_FOUND (winerror.h): no such profile.
const ABSENT: [i32; 2] = [0x8007_0002_u32 as i32, 0x8007_0490_u32 as i32];

/// Why there is no profile, or still one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// This Windows has no AppContainers.
    #[error(transparent)]
    Missing(Missing),
    /// Windows would read a shorter text.
    #[error("the profile's texts have {0}")]
    Text(InteriorNul),
    /// Windows refused.
    #[error(transparent)]
    Call(CallError),
}

impl From<InteriorNul> for ProfileError {
    fn from(error: InteriorNul) -> ProfileError {
        ProfileError::Text(error)
    }
}

/// Makes the profile, with no capabilities, or finds the one that is there.
pub fn create(name: &str, display: &str, description: &str) -> Result<Sid, ProfileError> {
    const CALL: &str = "CreateAppContainerProfile";
    let found = function(c"CreateAppContainerProfile")?;
    // SAFETY: the signature of userenv.h.
    let create = unsafe { std::mem::transmute::<Function, Create>(found) };
    let [wide, display, description] = [Wide::new(name)?, Wide::new(display)?, Wide::new(description)?];
    let mut made = PSID::default();
    // SAFETY: every text ends with its NUL and outlives the call; no capabilities, by null and zero.
    let answer = unsafe {
        create(wide.pointer(), display.pointer(), description.pointer(), std::ptr::null(), 0, &raw mut made)
    };
    if answer == EXISTS { derive(name) } else { taken(CALL, answer, made) }
}

/// The identifier of the profile of that name, which is the same on every machine; the profile need not be there.
pub fn derive(name: &str) -> Result<Sid, ProfileError> {
    const CALL: &str = "DeriveAppContainerSidFromAppContainerName";
    let found = function(c"DeriveAppContainerSidFromAppContainerName")?;
    // SAFETY: the signature of userenv.h.
    let derive = unsafe { std::mem::transmute::<Function, Derive>(found) };
    let wide = Wide::new(name)?;
    let mut made = PSID::default();
    // SAFETY: the name ends with its NUL and outlives the call, the result lives on this stack.
    let answer = unsafe { derive(wide.pointer(), &raw mut made) };
    taken(CALL, answer, made)
}

/// Removes the profile, its folder and its registry keys; one that is not there is removed already.
pub fn delete(name: &str) -> Result<(), ProfileError> {
    let found = function(c"DeleteAppContainerProfile")?;
    // SAFETY: the signature of userenv.h.
    let delete = unsafe { std::mem::transmute::<Function, Delete>(found) };
    let wide = Wide::new(name)?;
    // SAFETY: the name ends with its NUL and outlives the call.
    let answer = unsafe { delete(wide.pointer()) };
    if answer >= 0 || ABSENT.contains(&answer) {
        return Ok(());
    }
    Err(ProfileError::Call(CallError::hresult("DeleteAppContainerProfile", answer)))
}

fn function(name: &'static std::ffi::CStr) -> Result<Function, ProfileError> {
    Library::find(w!("userenv.dll"), name).map_err(ProfileError::Missing)
}

fn taken(call: &'static str, answer: i32, made: PSID) -> Result<Sid, ProfileError> {
    let made = Made(made);
    if answer < 0 {
        return Err(ProfileError::Call(CallError::hresult(call, answer)));
    }
    // SAFETY: null, or the identifier that the call has made, freed when `made` goes.
    unsafe { Sid::copy(made.0) }.map_err(ProfileError::Call)
}

/// An identifier of userenv's.
struct Made(PSID);

impl Drop for Made {
    fn drop(&mut self) {
        if !self.0.is_invalid() {
            // SAFETY: userenv.h says FreeSid; freed here alone.
            unsafe { FreeSid(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lab;
    use super::*;

    const NAME: &str = "oz0.test-of-profiles";

    #[test]
    fn a_profile_is_made_found_and_removed_or_refused_by_the_functions_name() {
        match derive(NAME) {
            Ok(sid) => {
                assert!(sid.to_string().starts_with("S-1-15-2-"), "{sid}");
                assert_eq!(derive(NAME).as_ref(), Ok(&sid), "the same each time");
                assert_ne!(derive("oz0.another").as_ref(), Ok(&sid));
                assert_eq!(create(NAME, "test", "a test's").as_ref(), Ok(&sid));
                assert_eq!(create(NAME, "test", "a test's"), Ok(sid), "one that is there is found");
                assert_eq!(delete(NAME), Ok(()));
                assert_eq!(delete(NAME), Ok(()), "one that is not there is removed already");
            }
            // Wine has none of them.
            Err(ProfileError::Missing(missing)) if lab::is_wine() => {
                assert_eq!(missing.name, "DeriveAppContainerSidFromAppContainerName");
                for result in [create(NAME, "test", "a test's").map(drop), delete(NAME)] {
                    assert!(
                        matches!(result, Err(ProfileError::Missing(_) | ProfileError::Call(_))),
                        "{result:?}"
                    );
                }
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_text_that_would_be_cut_is_refused() {
        let refused = [derive("a\0b").map(drop), delete("a\0b")];
        for result in refused {
            assert!(matches!(result, Err(ProfileError::Text(_) | ProfileError::Missing(_))), "{result:?}");
        }
    }
}
