//! Attribute lists and process creation: the attributes that Wine does not know are checked, kept from it, and honoured
//! when a process is made with them.

use std::ffi::c_void;
use std::path::PathBuf;

use serde_json::json;
use windows_sys::Win32::Foundation::{
    CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle, ERROR_BAD_LENGTH, ERROR_ENVVAR_NOT_FOUND,
    ERROR_FILE_NOT_FOUND, ERROR_GEN_FAILURE, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER,
    ERROR_OBJECT_NAME_EXISTS, GetHandleInformation, GetLastError, HANDLE, HANDLE_FLAG_INHERIT,
};
use windows_sys::Win32::Security::{SECURITY_ATTRIBUTES, SECURITY_CAPABILITIES};
use windows_sys::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT, CreateProcessW,
    DeleteProcThreadAttributeList, EXTENDED_STARTUPINFO_PRESENT, GetCurrentProcess, GetProcessId,
    LPPROC_THREAD_ATTRIBUTE_LIST, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
    PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES, PROCESS_INFORMATION, ResumeThread, STARTUPINFOEXW,
    STARTUPINFOW, TerminateProcess, UpdateProcThreadAttribute,
};
use windows_sys::core::{BOOL, PCWSTR, PWSTR};

use super::state::{self, Attributes, Child, Identity, ledger, settings, with};
use super::{appcontainer, fail, text};

/// PROC_THREAD_ATTRIBUTE_SECURITY_ENVIRONMENT: microsoft/mxc, secenv.rs.
const SECURITY_ENVIRONMENT: usize = 35 | 0x0002_0000;

/// How an attribute list begins, on Windows and in Wine.
#[repr(C)]
struct Head {
    mask: u32,
    places: u32,
    taken: u32,
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn update(
    list: LPPROC_THREAD_ATTRIBUTE_LIST,
    flags: u32,
    attribute: usize,
    value: *const c_void,
    size: usize,
    previous: *mut c_void,
    returned: *const usize,
) -> BOOL {
    let settings = settings();
    let (name, injected, right_size) = match attribute {
        SECURITY_ENVIRONMENT => ("security_environment", settings.attribute, size_of::<HANDLE>()),
        _ if attribute == PROC_THREAD_ATTRIBUTE_SECURITY_CAPABILITIES as usize => {
            ("security_capabilities", settings.relay_attribute, size_of::<SECURITY_CAPABILITIES>())
        }
        _ => {
            // SAFETY: the caller's own arguments.
            let done =
                unsafe { UpdateProcThreadAttribute(list, flags, attribute, value, size, previous, returned) };
            if done != 0 && attribute == PROC_THREAD_ATTRIBUTE_HANDLE_LIST as usize && !value.is_null() {
                // SAFETY: the list's handles, as many as the size says.
                let handles =
                    unsafe { std::slice::from_raw_parts(value.cast::<usize>(), size / size_of::<HANDLE>()) };
                with(|state| state.lists.entry(list as usize).or_default().handles = Some(handles.to_vec()));
            }
            let handles = size / size_of::<HANDLE>();
            ledger(
                json!({"call": "attribute", "name": format!("{attribute:#x}"), "handles": handles, "done": done != 0}),
            );
            return done;
        }
    };
    let refused = |error| {
        ledger(json!({"call": "attribute", "name": name, "error": error}));
        fail(error)
    };
    if let Some(error) = injected {
        return refused(error);
    }
    if list.is_null() || flags != 0 || value.is_null() {
        return refused(ERROR_INVALID_PARAMETER);
    }
    if size != right_size {
        return refused(ERROR_BAD_LENGTH);
    }
    let kept = with(|state| state.lists.get(&(list as usize)).cloned().unwrap_or_default());
    if kept.environment.is_some() || kept.profile.is_some() {
        return refused(ERROR_OBJECT_NAME_EXISTS);
    }
    // It takes one of the list's places, as on Windows, though Wine is not told of it: a list that was made too small
    // must fail here too.
    // SAFETY: the caller's list, which begins so.
    let head = unsafe { &mut *list.cast::<Head>() };
    if head.taken >= head.places {
        return refused(ERROR_GEN_FAILURE);
    }
    head.places -= 1;
    if attribute == SECURITY_ENVIRONMENT {
        // SAFETY: a handle's size was given.
        let environment = unsafe { *value.cast::<usize>() };
        with(|state| state.lists.entry(list as usize).or_default().environment = Some(environment));
        ledger(json!({"call": "attribute", "name": name, "error": 0, "handle": environment}));
    } else {
        // SAFETY: the structure's size was given.
        let capabilities = unsafe { &*value.cast::<SECURITY_CAPABILITIES>() };
        let sid = appcontainer::sid_text(capabilities.AppContainerSid);
        ledger(
            json!({"call": "attribute", "name": name, "error": 0, "sid": sid, "capabilities": capabilities.CapabilityCount}),
        );
        with(|state| state.lists.entry(list as usize).or_default().profile = sid);
    }
    1
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn delete(list: LPPROC_THREAD_ATTRIBUTE_LIST) {
    with(|state| state.lists.remove(&(list as usize)));
    // SAFETY: the caller's own argument.
    unsafe { DeleteProcThreadAttributeList(list) }
}

/// # Safety
/// As of the function that it stands in for.
#[allow(clippy::too_many_arguments, reason = "Windows' own")]
pub unsafe extern "system" fn create(
    application: PCWSTR,
    command_line: PWSTR,
    process_security: *const SECURITY_ATTRIBUTES,
    thread_security: *const SECURITY_ATTRIBUTES,
    inherit: BOOL,
    flags: u32,
    environment: *const c_void,
    directory: PCWSTR,
    startup: *const STARTUPINFOW,
    made: *mut PROCESS_INFORMATION,
) -> BOOL {
    let list = if flags & EXTENDED_STARTUPINFO_PRESENT != 0 && !startup.is_null() {
        // SAFETY: the flag says that the longer structure is there.
        unsafe { (*startup.cast::<STARTUPINFOEXW>()).lpAttributeList as usize }
    } else {
        0
    };
    let kept = with(|state| state.lists.get(&list).cloned()).unwrap_or_default();
    let unicode = flags & CREATE_UNICODE_ENVIRONMENT != 0;
    // SAFETY: the caller's block, which ends in two zeros; without the flag it has bytes and is not read.
    let mut block =
        if environment.is_null() || !unicode { None } else { Some(unsafe { units(environment.cast()) }) };
    let mut line = json!({
        "call": "launch",
        "container": if kept.environment.is_some() { "environment" } else if kept.profile.is_some() { "profile" } else { "none" },
        "suspended": flags & CREATE_SUSPENDED != 0, "unicode": unicode, "no_window": flags & CREATE_NO_WINDOW != 0,
        "inherit": inherit != 0, "handles": kept.handles.as_ref().map(Vec::len),
        // SAFETY: the caller's texts end in zeros.
        "application": unsafe { text(application) }, "command_line": unsafe { text(command_line) },
        // SAFETY: as above.
        "directory": unsafe { text(directory) },
        "variables": block.as_deref().map(names),
    });
    if let Err(error) = judge(&kept, inherit != 0, block.as_deref()) {
        line["error"] = error.into();
        ledger(line);
        return fail(error);
    }
    if let (Some(environment), Some(block)) = (kept.environment, block.as_mut()) {
        own_temporary_folder(environment, block);
    }
    let given = block.as_ref().map_or(environment, |block| block.as_ptr().cast());
    // SAFETY: the caller's arguments, but for the block, which is ours and lives until the call is over.
    let done = unsafe {
        CreateProcessW(
            application,
            command_line,
            process_security,
            thread_security,
            inherit,
            flags,
            given,
            directory,
            startup,
            made,
        )
    };
    if done == 0 {
        // SAFETY: it reads this thread's last error.
        let error = unsafe { GetLastError() };
        line["error"] = error.into();
        ledger(line);
        return fail(error);
    }
    // SAFETY: the call has filled it.
    let made = unsafe { &*made };
    line["error"] = 0.into();
    line["child"] = made.dwProcessId.into();
    ledger(line);
    contain(&kept, made, flags & CREATE_SUSPENDED != 0);
    done
}

/// Would Windows start it?
fn judge(kept: &Attributes, inherit: bool, block: Option<&[u16]>) -> Result<(), u32> {
    let settings = settings();
    for handle in kept.handles.iter().flatten() {
        let mut flags = 0;
        // SAFETY: a place of our own; a handle that is none gives an error.
        let known = unsafe { GetHandleInformation(*handle as HANDLE, &mut flags) } != 0;
        // Documented of PROC_THREAD_ATTRIBUTE_HANDLE_LIST: inheritable handles, and inheritance asked for.
        if !known || flags & HANDLE_FLAG_INHERIT == 0 || !inherit {
            return Err(ERROR_INVALID_PARAMETER);
        }
    }
    if let Some(environment) = kept.environment {
        if let Some(error) = settings.launch {
            return Err(error);
        }
        if !with(|state| state.environments.contains_key(&environment)) {
            return Err(ERROR_INVALID_HANDLE);
        }
        // microsoft/mxc, REQUIRED_CHILD_ENV_VARS, issues 1130 and 1158. Null is the caller's own, which has both.
        let names = block.map(names).unwrap_or_default();
        let lacks = |wanted: &str| !names.iter().any(|name| name.eq_ignore_ascii_case(wanted));
        if block.is_some() && (lacks("SYSTEMROOT") || lacks("LOCALAPPDATA")) {
            return Err(ERROR_ENVVAR_NOT_FOUND);
        }
    }
    if let Some(sid) = &kept.profile {
        if let Some(error) = settings.relay_launch {
            return Err(error);
        }
        if !appcontainer::exists(sid) {
            return Err(ERROR_FILE_NOT_FOUND);
        }
    }
    Ok(())
}

/// The process is contained from here on.
fn contain(kept: &Attributes, made: &PROCESS_INFORMATION, suspended: bool) {
    with(|state| {
        state.handles.insert(made.hProcess as usize, made.dwProcessId);
        state.handles.insert(made.hThread as usize, made.dwProcessId);
    });
    let inherited = with(|state| state.inside.clone());
    let (sid, capabilities) = match (kept.environment, &kept.profile) {
        (Some(environment), _) => with(|state| {
            let environment = state.environments.get(&environment);
            environment.map(|found| (found.sid.clone(), found.capabilities.clone())).unwrap_or_default()
        }),
        (None, Some(sid)) => (sid.clone(), Vec::new()),
        // What a contained process starts is contained as it is itself.
        (None, None) => match inherited {
            Some(own) => (own.sid, own.capabilities),
            None => return,
        },
    };
    state::contained(&Identity {
        pid: made.dwProcessId,
        started: state::started(made.hProcess),
        sid,
        capabilities,
        settings: with(|state| state.settings_file.clone()),
    });
    let mut process: HANDLE = std::ptr::null_mut();
    // SAFETY: both are handles of this process, and the place is our own.
    unsafe {
        let own = GetCurrentProcess();
        DuplicateHandle(own, made.hProcess, own, &mut process, 0, 0, DUPLICATE_SAME_ACCESS);
        if kept.environment.is_some() && settings().die_before_resume {
            TerminateProcess(process, 0xc000_0142);
        }
    }
    let child =
        Child { environment: kept.environment, process: process as usize, resumed: !suspended, job: None };
    with(|state| state.children.insert(made.dwProcessId, child));
}

/// Windows gives the child a TEMP of its own below the LOCALAPPDATA that it was given, and removes it with the
/// environment (microsoft/mxc issue 1204).
fn own_temporary_folder(environment: usize, block: &mut Vec<u16>) {
    let mut variables: Vec<String> = entries(block).collect();
    let Some(local) = variables.iter().find_map(|entry| value(entry, "LOCALAPPDATA")) else { return };
    let name =
        format!("sandbox.{{{environment:08x}-{:04x}-4000-8000-000000000000}}", std::process::id() & 0xffff);
    let package = PathBuf::from(local).join("P").join("Packages").join(name);
    let temporary = package.join("AC").join("Temp");
    if std::fs::create_dir_all(&temporary).is_err() {
        return;
    }
    with(|state| {
        if let Some(environment) = state.environments.get_mut(&environment) {
            environment.folders.push(package);
        }
    });
    variables.retain(|entry| value(entry, "TEMP").is_none() && value(entry, "TMP").is_none());
    variables.extend(["TEMP", "TMP"].map(|name| format!("{name}={}", temporary.display())));
    variables.sort_by_key(|entry| entry.to_uppercase());
    *block = variables.iter().flat_map(|entry| super::wide(entry)).chain([0]).collect();
}

fn value<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = entry.split_once('=')?;
    found.eq_ignore_ascii_case(name).then_some(value)
}

fn entries(block: &[u16]) -> impl Iterator<Item = String> {
    block.split(|unit| *unit == 0).filter(|entry| !entry.is_empty()).map(String::from_utf16_lossy)
}

fn names(block: &[u16]) -> Vec<String> {
    entries(block).map(|entry| entry.split('=').next().unwrap_or_default().to_owned()).collect()
}

/// # Safety
/// `block` points to UTF-16 that ends in two zeros.
unsafe fn units(block: *const u16) -> Vec<u16> {
    let mut length = 0;
    // SAFETY: by the caller's word every unit up to the two zeros can be read.
    while unsafe { *block.add(length) != 0 || *block.add(length + 1) != 0 } {
        length += 1;
    }
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(block, length + 2) }.to_vec()
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn resume(thread: HANDLE) -> u32 {
    let child = with(|state| state.handles.get(&(thread as usize)).copied());
    let contained = child.filter(|child| with(|state| state.children.contains_key(child)));
    let injected = settings().resume.filter(|_| contained.is_some());
    let previous = match injected {
        Some(error) => {
            fail(error);
            u32::MAX
        }
        // SAFETY: the caller's own argument.
        None => unsafe { ResumeThread(thread) },
    };
    if let Some(child) = contained {
        // SAFETY: it reads this thread's last error.
        let error = if previous == u32::MAX { unsafe { GetLastError() } } else { 0 };
        ledger(json!({"call": "resume", "child": child, "previous": previous, "error": error}));
        with(|state| state.children.get_mut(&child).map(|child| child.resumed |= previous != u32::MAX));
        fail(error);
    }
    previous
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn terminate(process: HANDLE, code: u32) -> BOOL {
    // SAFETY: the caller's handle; one that is none gives 0.
    let child = unsafe { GetProcessId(process) };
    // SAFETY: the caller's own arguments.
    let done = unsafe { TerminateProcess(process, code) };
    let known = with(|state| state.children.get(&child).map(|child| child.resumed));
    if let Some(resumed) = known {
        // SAFETY: it reads this thread's last error.
        let error = unsafe { GetLastError() };
        ledger(
            json!({"call": "terminate", "child": child, "code": code, "resumed": resumed, "done": done != 0}),
        );
        fail(error);
    }
    done
}

/// # Safety
/// As of the function that it stands in for.
pub unsafe extern "system" fn close(handle: HANDLE) -> BOOL {
    let key = handle as usize;
    let job = with(|state| {
        state.handles.remove(&key);
        state.tokens.remove(&key);
        state.jobs.retain(|(job, _), _| *job != key);
        let of_it = state.children.values_mut().filter(|child| child.job == Some(key));
        of_it.map(|child| child.job = None).count() > 0
    });
    if job {
        ledger(json!({"call": "close_job", "job": key}));
    }
    // SAFETY: the caller's own argument.
    unsafe { CloseHandle(handle) }
}
