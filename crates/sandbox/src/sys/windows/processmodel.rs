//! The process security environment's functions (PSEC), found at run time. It refuses to know what a specification
//! says, which contract is wanted and what a code means.
//!
//! Signatures: Microsoft Learn, processmodel.h; no crate and no public SDK has them. The order of the steps and what
//! counts as failure: microsoft/mxc, src/backends/learning_mode/windows/src/secenv.rs.

use std::ffi::{CStr, c_void};

use windows::core::w;

use super::error::CallError;
use super::library::{Function, Library, Missing};

/// The API set that says whether this Windows has the feature (microsoft/mxc, secenv.rs).
const API_SET: &CStr = c"api-win-appmodel-processmodel~securityenvironment";

/// PROCESS_SECURITY_ENVIRONMENT_FLAG_NONE (Microsoft Learn, processmodel.h). The value of the other flag,
/// terminate-on-close, is not published, so the job object alone ends what runs.
const FLAG_NONE: u32 = 0;

/// E_UNEXPECTED (winerror.h), for S_OK that comes with no environment, as microsoft/mxc maps it.
const UNEXPECTED: i32 = 0x8000_FFFF_u32 as i32;

/// The environment's handle: opaque, for PSEC's own functions and the attribute alone, never for CloseHandle.
type RawEnvironment = *mut c_void;

type IsApiSetImplemented = unsafe extern "system" fn(*const i8) -> i32;
type Create = unsafe extern "system" fn(*const c_void, u32, u32, *mut RawEnvironment) -> i32;
type Close = unsafe extern "system" fn(RawEnvironment);
/// Declared with 64 bits by some sources and 32 by others: the buffer behind the pointer has 8 zeroed bytes, which a
/// little-endian machine reads alike for both.
type Query = unsafe extern "system" fn(*mut u64) -> i32;
/// The second parameter is a BOOLEAN: one byte.
type IsVersionSupported = unsafe extern "system" fn(u32, *mut u8, *mut u32) -> i32;

/// PSEC's functions on this machine. The library stays loaded for the life of the process.
#[derive(Clone, Copy)]
pub struct ProcessModel {
    create: Create,
    close: Close,
    query: Query,
    is_version_supported: Option<IsVersionSupported>,
}

/// Why this machine has no PSEC, in the order in which it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// This Windows cannot be asked for API sets: it is older than all that have PSEC.
    #[error(transparent)]
    Question(Missing),
    /// The API set is not implemented.
    #[error("this Windows has no API set api-win-appmodel-processmodel~securityenvironment")]
    ApiSet,
    /// The library is not in System32.
    #[error("processmodel.dll: {0}")]
    Library(CallError),
    /// The library has not all of the functions.
    #[error("processmodel.dll: {0}")]
    Export(Missing),
}

/// The contract of one major version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// Spoken, up to this minor version.
    Minor(u32),
    /// Not spoken.
    Unsupported,
    /// The library cannot be asked: 1.0 is all that it can be taken for (microsoft/mxc, secenv.rs).
    NotAsked,
}

impl ProcessModel {
    /// Finds the functions; changes nothing and needs no administrator.
    pub fn load() -> Result<ProcessModel, LoadError> {
        let ask = Library::find(w!("api-ms-win-core-apiquery-l2-1-0.dll"), c"IsApiSetImplemented")
            .map_err(LoadError::Question)?;
        // SAFETY: `BOOL IsApiSetImplemented(PCSTR)` (apiquery2.h).
        let ask = unsafe { std::mem::transmute::<Function, IsApiSetImplemented>(ask) };
        // SAFETY: the name ends with its NUL.
        if unsafe { ask(API_SET.as_ptr()) } == 0 {
            return Err(LoadError::ApiSet);
        }
        let library = Library::open(w!("processmodel.dll")).map_err(LoadError::Library)?;
        let export = |name| library.function(name).map_err(LoadError::Export);
        let create = export(c"CreateProcessSecurityEnvironment")?;
        let query = export(c"QueryProcessSecurityEnvironmentSupport")?;
        let close = export(c"CloseProcessSecurityEnvironment")?;
        let is_version_supported = library.function(c"IsProcessSecurityEnvironmentVersionSupported").ok();
        Ok(ProcessModel {
            // SAFETY: the signature of Microsoft Learn, processmodel.h.
            create: unsafe { std::mem::transmute::<Function, Create>(create) },
            // SAFETY: likewise.
            close: unsafe { std::mem::transmute::<Function, Close>(close) },
            // SAFETY: likewise; for the width see the type.
            query: unsafe { std::mem::transmute::<Function, Query>(query) },
            is_version_supported: is_version_supported.map(|function| {
                // SAFETY: the signature of Microsoft Learn, processmodel.h.
                unsafe { std::mem::transmute::<Function, IsVersionSupported>(function) }
            }),
        })
    }

    /// Which contract is spoken of this major version.
    pub fn contract(&self, major: u32) -> Result<Contract, CallError> {
        let Some(is_version_supported) = self.is_version_supported else { return Ok(Contract::NotAsked) };
        let (mut available, mut minor) = (0_u8, 0_u32);
        // SAFETY: both results live on this stack, in the widths of the declaration.
        let answer = unsafe { is_version_supported(major, &raw mut available, &raw mut minor) };
        if answer < 0 {
            return Err(CallError::hresult("IsProcessSecurityEnvironmentVersionSupported", answer));
        }
        Ok(if available == 0 { Contract::Unsupported } else { Contract::Minor(minor) })
    }

    /// Which optional features are reported, as bits.
    pub fn support(&self) -> Result<u64, CallError> {
        let mut bits = 0_u64;
        // SAFETY: eight zeroed bytes on this stack, enough for either width.
        let answer = unsafe { (self.query)(&raw mut bits) };
        if answer < 0 {
            return Err(CallError::hresult("QueryProcessSecurityEnvironmentSupport", answer));
        }
        Ok(bits)
    }

    /// Makes an environment from a specification's bytes.
    pub fn create(&self, specification: &[u8]) -> Result<SecurityEnvironment, CallError> {
        const CALL: &str = "CreateProcessSecurityEnvironment";
        // ERROR_INVALID_PARAMETER as an HRESULT (winerror.h), for what has no length that the call could take.
        let size = u32::try_from(specification.len())
            .map_err(|_| CallError::hresult(CALL, 0x8007_0057_u32 as i32))?;
        let mut raw: RawEnvironment = std::ptr::null_mut();
        // SAFETY: the bytes are borrowed for the call with their length, the result lives on this stack.
        let answer = unsafe { (self.create)(specification.as_ptr().cast(), size, FLAG_NONE, &raw mut raw) };
        // Owned before the answer is looked at: a handle that comes with a failure is closed too.
        let environment = (!raw.is_null()).then(|| SecurityEnvironment { raw, close: self.close });
        match environment {
            _ if answer < 0 => Err(CallError::hresult(CALL, answer)),
            None => Err(CallError::hresult(CALL, UNEXPECTED)),
            Some(environment) => Ok(environment),
        }
    }
}

/// A process security environment; closed once, when it is dropped. It must outlive every process in it: it holds the
/// network's filters and the files' policy (microsoft/mxc, docs/process-container/networking.md).
pub struct SecurityEnvironment {
    raw: RawEnvironment,
    close: Close,
}

// SAFETY: the handle is a name for an object of the system's, not tied to the thread that made it.
unsafe impl Send for SecurityEnvironment {}
// SAFETY: a shared reference gives out the handle's value alone, to an attribute list that only reads it.
unsafe impl Sync for SecurityEnvironment {}

impl SecurityEnvironment {
    /// For the attribute alone; valid as long as this is.
    pub(super) fn raw(&self) -> RawEnvironment {
        self.raw
    }
}

impl Drop for SecurityEnvironment {
    fn drop(&mut self) {
        // SAFETY: not null, made by the same library, and closed here alone.
        unsafe { (self.close)(self.raw) };
    }
}

#[cfg(test)]
#[allow(
    clippy::missing_const_for_thread_local,
    reason = "they are const; the lint does not see it for this target"
)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// What the functions below answer: an HRESULT and a handle; and what has been closed.
        static ANSWER: Cell<(i32, usize)> = const { Cell::new((0, 0)) };
        static CLOSED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    unsafe extern "system" fn create(_: *const c_void, _: u32, flags: u32, out: *mut RawEnvironment) -> i32 {
        assert_eq!(flags, 0);
        let (answer, handle) = ANSWER.get();
        // SAFETY: the caller under test passes the address of its result.
        unsafe { *out = handle as RawEnvironment };
        answer
    }

    unsafe extern "system" fn close(handle: RawEnvironment) {
        CLOSED.set((handle as usize, CLOSED.get().1 + 1));
    }

    unsafe extern "system" fn query_32_bits(out: *mut u64) -> i32 {
        // SAFETY: the caller under test passes eight bytes; a declaration with 32 bits writes four of them.
        unsafe { out.cast::<u32>().write(0xF) };
        0
    }

    unsafe extern "system" fn version(major: u32, available: *mut u8, minor: *mut u32) -> i32 {
        if major == 9 {
            return UNEXPECTED;
        }
        // SAFETY: the caller under test passes the addresses of its results.
        unsafe { *available = u8::from(major == 1) };
        // SAFETY: likewise.
        unsafe { *minor = 1 };
        0
    }

    const FAKE: ProcessModel =
        ProcessModel { create, close, query: query_32_bits, is_version_supported: Some(version) };

    #[test]
    fn an_environment_is_closed_exactly_once_also_when_it_comes_with_a_failure() {
        for (answer, handle, expected, closed) in [
            (0, 0x10, Ok(()), (0x10, 1)),
            (1, 0x14, Ok(()), (0x14, 1)),
            (0, 0, Err(UNEXPECTED), (0, 0)),
            (0x8000_4001_u32 as i32, 0, Err(0x8000_4001_u32 as i32), (0, 0)),
            (0x8007_0032_u32 as i32, 0x18, Err(0x8007_0032_u32 as i32), (0x18, 1)),
        ] {
            ANSWER.set((answer, handle));
            CLOSED.set((0, 0));
            let made = FAKE.create(b"spec");
            if expected.is_ok() {
                assert_eq!(CLOSED.get(), (0, 0), "open while it is held");
            }
            assert_eq!(made.map(drop).map_err(|error| error.as_hresult()), expected);
            assert_eq!(CLOSED.get(), closed);
        }
    }

    #[test]
    fn flags_of_either_width_and_versions_are_read() {
        assert_eq!(FAKE.support(), Ok(0xF));
        assert_eq!(FAKE.contract(1), Ok(Contract::Minor(1)));
        assert_eq!(FAKE.contract(2), Ok(Contract::Unsupported));
        assert_eq!(FAKE.contract(9).map_err(|error| error.as_hresult()), Err(UNEXPECTED));
        let older = ProcessModel { is_version_supported: None, ..FAKE };
        assert_eq!(older.contract(1), Ok(Contract::NotAsked));
    }

    #[test]
    fn a_machine_without_the_feature_says_at_which_step() {
        match ProcessModel::load() {
            Ok(found) => {
                assert_ne!(found.contract(1), Ok(Contract::Unsupported), "it speaks some contract 1")
            }
            Err(error) => assert_eq!(error, LoadError::ApiSet, "{error}"),
        }
    }
}
