//! What a new process is given beyond its arguments: the container it starts in, and the handles it inherits. It
//! refuses to know what runs there.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::windows::io::BorrowedHandle;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Security::SECURITY_CAPABILITIES;
use windows::Win32::System::Threading::{
    DeleteProcThreadAttributeList, InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST,
    PROC_THREAD_ATTRIBUTE_HANDLE_LIST, PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES,
    UpdateProcThreadAttribute,
};

use super::error::CallError;
use super::handle::raw;
use super::processmodel::SecurityEnvironment;
use super::sid::Sid;

/// PROC_THREAD_ATTRIBUTE_SECURITY_ENVIRONMENT: number 35 with PROC_THREAD_ATTRIBUTE_INPUT 0x20000 (microsoft/mxc,
/// secenv.rs).
const SECURITY_ENVIRONMENT: usize = 35 | 0x0002_0000;

/// What a process starts in. They are alternatives, never layers.
#[derive(Clone, Copy)]
pub enum Container<'a> {
    /// Nothing: the caller's own permissions.
    None,
    /// A process security environment.
    SecurityEnvironment(&'a SecurityEnvironment),
    /// An AppContainer profile, by its identifier, with no capabilities at all.
    Profile(&'a Sid),
}

/// The part that could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// The list itself.
    List,
    /// The process security environment.
    SecurityEnvironment,
    /// The handles that go over.
    HandleList,
    /// The AppContainer.
    SecurityCapabilities,
}

/// An attribute that Windows did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{attribute:?}: {error}")]
pub struct AttributeError {
    /// Which.
    pub attribute: Attribute,
    /// What Windows answered.
    pub error: CallError,
}

/// The list for CreateProcessW. Windows keeps the addresses of the values until the list is deleted: each lies on the
/// heap, is owned here and goes after the list.
pub struct Attributes<'a> {
    list: LPPROC_THREAD_ATTRIBUTE_LIST,
    /// Never touched after they have been set; dropped after the list.
    _values: Values,
    /// The memory of the list itself.
    _memory: Box<[usize]>,
    /// The environment, the identifier and the handles are borrowed until the list is deleted.
    _borrowed: PhantomData<(Container<'a>, BorrowedHandle<'a>)>,
}

struct Values {
    environment: Option<Box<*mut c_void>>,
    capabilities: Option<Box<SECURITY_CAPABILITIES>>,
    handles: Box<[HANDLE]>,
}

impl<'a> Attributes<'a> {
    /// Handles are given over only by this list; they must be inheritable. An empty list hands over nothing.
    pub fn new(
        container: Container<'a>,
        handles: &[BorrowedHandle<'a>],
    ) -> Result<Attributes<'a>, AttributeError> {
        let values = Values {
            environment: match container {
                Container::SecurityEnvironment(environment) => Some(Box::new(environment.raw())),
                _ => None,
            },
            capabilities: match container {
                Container::Profile(sid) => Some(Box::new(SECURITY_CAPABILITIES {
                    AppContainerSid: sid.pointer(),
                    ..Default::default()
                })),
                _ => None,
            },
            handles: handles.iter().map(|handle| raw(*handle)).collect(),
        };
        let count = [values.environment.is_some(), values.capabilities.is_some(), !values.handles.is_empty()];
        let count = count.into_iter().filter(|present| *present).count() as u32;
        let (list, memory) =
            initialise(count).map_err(|error| AttributeError { attribute: Attribute::List, error })?;
        // From here on the list is deleted, whatever happens.
        let attributes = Attributes { list, _values: values, _memory: memory, _borrowed: PhantomData };
        let values = &attributes._values;
        if let Some(environment) = &values.environment {
            // The value is the variable that holds the handle, by its address, and its size the handle's.
            attributes.set(
                Attribute::SecurityEnvironment,
                SECURITY_ENVIRONMENT,
                &raw const **environment,
                1,
            )?;
        }
        if let Some(capabilities) = &values.capabilities {
            let attribute = PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES as usize;
            attributes.set(Attribute::SecurityCapabilities, attribute, &raw const **capabilities, 1)?;
        }
        if !values.handles.is_empty() {
            let attribute = PROC_THREAD_ATTRIBUTE_HANDLE_LIST as usize;
            attributes.set(
                Attribute::HandleList,
                attribute,
                values.handles.as_ptr(),
                values.handles.len(),
            )?;
        }
        Ok(attributes)
    }

    fn set<T>(
        &self,
        attribute: Attribute,
        number: usize,
        values: *const T,
        count: usize,
    ) -> Result<(), AttributeError> {
        // SAFETY: the list is initialised with a place for this one; `values` points to `count` values on the heap,
        // which are owned beside the list and dropped after it is deleted.
        unsafe {
            UpdateProcThreadAttribute(
                self.list,
                0,
                number,
                Some(values.cast()),
                size_of::<T>() * count,
                None,
                None,
            )
        }
        .map_err(CallError::of("UpdateProcThreadAttribute"))
        .map_err(|error| AttributeError { attribute, error })
    }

    /// For CreateProcessW; valid as long as this is.
    pub(super) fn list(&self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        self.list
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised once and deleted here alone; its memory and its values still live.
        unsafe { DeleteProcThreadAttributeList(self.list) };
    }
}

/// A list with places for `count` attributes, at least one.
fn initialise(count: u32) -> Result<(LPPROC_THREAD_ATTRIBUTE_LIST, Box<[usize]>), CallError> {
    const CALL: &str = "InitializeProcThreadAttributeList";
    let count = count.max(1);
    let mut size = 0_usize;
    // SAFETY: asked without memory it only writes the size, and fails, as it is meant to.
    let asked = unsafe { InitializeProcThreadAttributeList(None, count, None, &raw mut size) };
    if size == 0 {
        return Err(asked.map_err(CallError::of(CALL)).err().unwrap_or(CallError::win32(CALL, 0)));
    }
    let mut memory = vec![0_usize; size.div_ceil(size_of::<usize>())].into_boxed_slice();
    let list = LPPROC_THREAD_ATTRIBUTE_LIST(memory.as_mut_ptr().cast());
    // SAFETY: `memory` has at least `size` bytes, is owned by the caller and is not moved on the heap.
    unsafe { InitializeProcThreadAttributeList(Some(list), count, None, &raw mut size) }
        .map_err(CallError::of(CALL))?;
    Ok((list, memory))
}

#[cfg(test)]
mod tests {
    use super::super::processmodel::ProcessModel;
    use super::super::{handle, lab};
    use super::*;
    use std::os::windows::io::AsHandle as _;

    #[test]
    fn numbers_are_those_of_the_contract() {
        assert_eq!(SECURITY_ENVIRONMENT, 0x2_0023);
        assert_eq!(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, 0x2_0002);
        assert_eq!(PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES, 0x2_0009);
        assert_eq!((size_of::<SECURITY_CAPABILITIES>(), size_of::<HANDLE>()), (24, 8));
    }

    #[test]
    fn handles_are_taken_and_an_empty_list_is_one() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let copy = handle::duplicate(reader.as_handle(), true).expect("a copy");
        Attributes::new(Container::None, &[copy.as_handle()]).expect("a handle list");
        Attributes::new(Container::None, &[]).expect("an empty list");
    }

    #[test]
    fn an_app_container_is_taken_or_refused_by_its_name() {
        let sid = Sid::parse("S-1-15-2-1-2-3-4-5-6-7").expect("valid");
        match (Attributes::new(Container::Profile(&sid), &[]), lab::is_wine()) {
            // Wine has no AppContainers, unless a stand-in takes the attribute from it.
            (Err(error), true) => {
                assert_eq!(error.attribute, Attribute::SecurityCapabilities);
                assert_eq!(error.error, CallError::win32("UpdateProcThreadAttribute", 50));
            }
            (result, _) => drop(result.expect("taken")),
        }
    }

    #[test]
    fn an_environment_is_taken_where_one_can_be_made() {
        let Ok(model) = ProcessModel::load() else {
            assert!(!lab::has_stand_in(), "the stand-in has the API set");
            return;
        };
        // The least that a specification can be: version 1.0 and nothing more (microsoft/mxc,
        // ProcessSecurityEnvironment.fbs).
        let minimal = [0x10, 0, 0, 0, b'P', b'S', b'E', b'C', 6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0];
        let environment = model.create(&minimal).expect("an environment");
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let copy = handle::duplicate(writer.as_handle(), true).expect("a copy");
        Attributes::new(Container::SecurityEnvironment(&environment), &[copy.as_handle()]).expect("taken");
    }
}
