//! One confined launch by plain calls, as a process of its own, so that it reads its settings at its start.

use std::ffi::{CStr, c_void};
use std::io::Read as _;
use std::mem::zeroed;
use std::os::windows::io::{FromRawHandle as _, OwnedHandle};
use std::process::Command;
use std::ptr::{null, null_mut};

use serde_json::Value;
use windows_sys::Win32::Foundation::*;
use windows_sys::Win32::Networking::WinSock::*;
use windows_sys::Win32::Security::{EqualSid, GetTokenInformation, PSID, TOKEN_QUERY, TokenIsAppContainer};
use windows_sys::Win32::System::JobObjects::*;
use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};
use windows_sys::Win32::System::Pipes::CreatePipe;
use windows_sys::Win32::System::Threading::*;

use super::{SMALLEST, VARIABLES, WITH_A_PATH};

/// A test's own settings and ledger.
pub struct Program {
    folder: tempfile::TempDir,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub failed: Option<String>,
    pub output: String,
    pub code: Option<u32>,
}

impl Program {
    pub fn new(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let text = format!("{settings}\nledger={}\nstate={}\n", path("ledger"), path("state"));
        std::fs::write(folder.path().join("settings"), text).unwrap();
        Program { folder }
    }

    pub fn ledger(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("ledger")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn launch(&self, act: &str) -> Outcome {
        self.launch_with(act, VARIABLES)
    }

    pub fn launch_with(&self, act: &str, variables: &str) -> Outcome {
        let said = self.start(act, variables);
        let (failed, rest) = said.split_once('|').unwrap();
        let (code, output) = rest.split_once('|').unwrap();
        Outcome {
            failed: (!failed.is_empty()).then(|| failed.to_owned()),
            output: output.to_owned(),
            code: code.parse().ok(),
        }
    }

    pub fn run(&self, act: &str) -> String {
        self.start(act, "")
    }

    fn start(&self, act: &str, variables: &str) -> String {
        let answer = self.folder.path().join("answer");
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "act", "--ignored", "--nocapture"])
            .env("STANDIN", self.folder.path().join("settings"))
            .env("BY_HAND", act)
            .env("BY_HAND_VARIABLES", variables.replace('\0', "\n"))
            .env("BY_HAND_ANSWER", &answer)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        std::fs::read_to_string(answer).unwrap()
    }
}

/// In the process of its own.
pub fn act() {
    let act = std::env::var("BY_HAND").expect("started by a test");
    let said = match act.as_str() {
        "profile" => profile(),
        "unix" => unix(),
        _ => {
            let variables = std::env::var("BY_HAND_VARIABLES").unwrap().replace('\n', "\0");
            let (failed, output, code) = match launch(&act, &variables) {
                Ok((output, code)) => (String::new(), output, code.to_string()),
                Err(failed) => (failed, String::new(), String::new()),
            };
            format!("{failed}|{code}|{output}")
        }
    };
    std::fs::write(std::env::var("BY_HAND_ANSWER").unwrap(), said).unwrap();
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn last(what: &str) -> String {
    // SAFETY: it reads this thread's last error.
    format!("{what} {}", unsafe { GetLastError() })
}

/// The address of an export, or what the system answered.
fn export(library: &str, name: &CStr) -> Result<usize, String> {
    // SAFETY: names that end in zeros.
    unsafe {
        let module = LoadLibraryExW(wide(library).as_ptr(), null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32);
        GetProcAddress(module, name.as_ptr().cast()).map(|found| found as usize).ok_or_else(|| last("export"))
    }
}

macro_rules! function {
    ($library:literal, $name:literal, $type:ty) => {
        std::mem::transmute::<usize, $type>(export($library, $name)?)
    };
}

type Create = unsafe extern "system" fn(*const c_void, u32, u32, *mut HANDLE) -> i32;
type Close = unsafe extern "system" fn(HANDLE);

fn launch(act: &str, variables: &str) -> Result<(String, u32), String> {
    // SAFETY: every place is a local that outlives the call, handles are closed once, as their types say.
    unsafe {
        let asked: unsafe extern "system" fn(*const u8) -> i32 =
            function!("kernelbase.dll", c"IsApiSetImplemented", unsafe extern "system" fn(*const u8) -> i32);
        if asked(c"api-win-appmodel-processmodel~securityenvironment".as_ptr().cast()) == 0 {
            return Err("api_set 0".to_owned());
        }
        let create = function!("processmodel.dll", c"CreateProcessSecurityEnvironment", Create);
        let close = std::mem::transmute::<usize, Close>(own_export(c"CloseProcessSecurityEnvironment"));
        let version = std::mem::transmute::<usize, unsafe extern "system" fn(u32, *mut u8, *mut u32) -> i32>(
            own_export(c"IsProcessSecurityEnvironmentVersionSupported"),
        );
        let support = std::mem::transmute::<usize, unsafe extern "system" fn(*mut u64) -> i32>(own_export(
            c"QueryProcessSecurityEnvironmentSupport",
        ));
        let (mut known, mut minor, mut flags) = (0, 0, 0);
        version(1, &mut known, &mut minor);
        support(&mut flags);
        assert_eq!((known, minor, flags), (1, 0, 3));

        let specification: &[u8] = if act == "twice" { &WITH_A_PATH } else { &SMALLEST };
        let mut environment = null_mut();
        let mut answer =
            create(specification.as_ptr().cast(), specification.len() as u32, 0, &mut environment);
        if answer < 0 && act == "twice" {
            answer = create(specification.as_ptr().cast(), specification.len() as u32, 0, &mut environment);
        }
        if answer < 0 {
            return Err(format!("create {answer:#010x}"));
        }
        if environment.is_null() {
            return Err("create null".to_owned());
        }
        if act == "closed" {
            close(environment);
        }

        let (mut read, mut write) = (null_mut(), null_mut());
        assert_ne!(CreatePipe(&mut read, &mut write, null(), 0), 0);
        if act != "handle" {
            SetHandleInformation(write, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
        }
        let job = CreateJobObjectW(null(), null());
        let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = zeroed();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let size = u32::try_from(size_of_val(&limits)).unwrap();
        assert_ne!(
            SetInformationJobObject(job, JobObjectExtendedLimitInformation, (&raw const limits).cast(), size),
            0
        );

        let mut attributes = vec![0_usize; 64];
        let list: LPPROC_THREAD_ATTRIBUTE_LIST = attributes.as_mut_ptr().cast();
        let mut size = attributes.len() * 8;
        let places = if matches!(act, "handle") { 2 } else { 1 };
        assert_ne!(InitializeProcThreadAttributeList(list, places, 0, &mut size), 0);
        let wrong = if act == "size" { 4 } else { 8 };
        if act == "places" {
            assert_ne!(
                UpdateProcThreadAttribute(list, 0, 0x20002, (&raw const write).cast(), 8, null_mut(), null()),
                0
            );
        }
        if UpdateProcThreadAttribute(
            list,
            0,
            0x20023,
            (&raw const environment).cast(),
            wrong,
            null_mut(),
            null(),
        ) == 0
        {
            return Err(last("attribute"));
        }
        if act == "handle" {
            UpdateProcThreadAttribute(list, 0, 0x20002, (&raw const write).cast(), 8, null_mut(), null());
        }
        let mut startup: STARTUPINFOEXW = zeroed();
        startup.StartupInfo.cb = 112;
        startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        startup.StartupInfo.hStdOutput = write;
        startup.lpAttributeList = list;
        let mut made: PROCESS_INFORMATION = zeroed();
        let said = if act == "temp" { "%TEMP%" } else { "%GREETING%" };
        let mut command = wide(&format!("cmd.exe /d /c echo {said}& exit 7"));
        let block: Vec<u16> = variables.encode_utf16().chain([0]).collect();
        let how =
            CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | CREATE_NO_WINDOW | EXTENDED_STARTUPINFO_PRESENT;
        if CreateProcessW(
            null(),
            command.as_mut_ptr(),
            null(),
            null(),
            1,
            how,
            block.as_ptr().cast(),
            wide("C:\\").as_ptr(),
            &startup.StartupInfo,
            &mut made,
        ) == 0
        {
            return Err(last("launch"));
        }
        if act == "leave" {
            // It ends with the job, which ends with this process.
            assert_ne!(AssignProcessToJobObject(job, made.hProcess), 0);
            return Ok((String::new(), 0));
        }
        let failed = |what: &str| {
            let said = last(what);
            TerminateProcess(made.hProcess, 1);
            Err(said)
        };
        DeleteProcThreadAttributeList(list);
        let mut token = null_mut();
        assert_ne!(OpenProcessToken(made.hProcess, TOKEN_QUERY, &mut token), 0);
        let (mut contained, mut size) = (0_u32, 0);
        if GetTokenInformation(token, TokenIsAppContainer, (&raw mut contained).cast(), 4, &mut size) == 0 {
            return failed("token refused");
        }
        CloseHandle(token);
        if contained == 0 {
            SetLastError(0);
            return failed("token");
        }
        if AssignProcessToJobObject(job, made.hProcess) == 0 {
            return failed("assign");
        }
        CloseHandle(write);
        if ResumeThread(made.hThread) == u32::MAX {
            return failed("resume");
        }
        let mut output = String::new();
        let _ = std::fs::File::from(OwnedHandle::from_raw_handle(read.cast())).read_to_string(&mut output);
        WaitForSingleObject(made.hProcess, 10_000);
        let mut code = 0;
        GetExitCodeProcess(made.hProcess, &mut code);
        CloseHandle(made.hThread);
        CloseHandle(made.hProcess);
        close(environment);
        Ok((output, code))
    }
}

/// An export of a library that is loaded already: looked up without a line in the ledger.
fn own_export(name: &CStr) -> usize {
    export_of_loaded(name).expect("exported")
}

fn export_of_loaded(name: &CStr) -> Option<usize> {
    use windows_sys::Win32::System::LibraryLoader::GetModuleHandleA;
    // SAFETY: names that end in zeros.
    unsafe {
        let module = GetModuleHandleA(c"processmodel.dll".as_ptr().cast());
        GetProcAddress(module, name.as_ptr().cast()).map(|found| found as usize)
    }
}

fn profile() -> String {
    fn all() -> Result<String, String> {
        type Make = unsafe extern "system" fn(
            *const u16,
            *const u16,
            *const u16,
            *const c_void,
            u32,
            *mut PSID,
        ) -> i32;
        type Derive = unsafe extern "system" fn(*const u16, *mut PSID) -> i32;
        type Delete = unsafe extern "system" fn(*const u16) -> i32;
        // SAFETY: the functions have these types.
        let (make, derive, delete) = unsafe {
            (
                function!("userenv.dll", c"CreateAppContainerProfile", Make),
                function!("userenv.dll", c"DeriveAppContainerSidFromAppContainerName", Derive),
                function!("userenv.dll", c"DeleteAppContainerProfile", Delete),
            )
        };
        let (name, words) = (wide("oz0.egress-relay"), wide("words"));
        let (mut first, mut second) = (null_mut(), null_mut());
        // SAFETY: texts that end in zeros and places that outlive the calls.
        unsafe {
            let made = make(name.as_ptr(), words.as_ptr(), words.as_ptr(), null(), 0, &mut first);
            let again = make(name.as_ptr(), words.as_ptr(), words.as_ptr(), null(), 0, &mut second);
            derive(name.as_ptr(), &mut second);
            let same = if !first.is_null() && EqualSid(first, second) != 0 { "same" } else { "other" };
            let gone = (delete(name.as_ptr()), delete(name.as_ptr()));
            let bad = make(wide("a/b").as_ptr(), words.as_ptr(), words.as_ptr(), null(), 0, &mut second);
            Ok(format!("{made:#010x} {again:#010x} {same} {:#010x} {:#010x} {bad:#010x}", gone.0, gone.1))
        }
    }
    all().unwrap_or_else(|failed| failed)
}

fn unix() -> String {
    let folder = tempfile::tempdir().unwrap();
    let address = |path: &str| {
        let mut address: SOCKADDR_UN = SOCKADDR_UN { sun_family: AF_UNIX, sun_path: [0; 108] };
        for (place, byte) in address.sun_path.iter_mut().zip(path.bytes()) {
            *place = byte as _;
        }
        address
    };
    let size = i32::try_from(size_of::<SOCKADDR_UN>()).unwrap();
    let path = folder.path().join("s").display().to_string();
    // SAFETY: addresses and places that outlive the calls.
    unsafe {
        let mut data: WSADATA = zeroed();
        WSAStartup(0x202, &mut data);
        let new = || WSASocketW(AF_UNIX.into(), SOCK_STREAM, 0, null(), 0, 0);
        let (listener, here) = (new(), address(&path));
        assert_eq!(bind(listener, (&raw const here).cast(), size), 0, "{}", WSAGetLastError());
        assert_eq!(listen(listener, 1), 0);
        let client = new();
        assert_eq!(connect(client, (&raw const here).cast(), size), 0);
        let (mut from, mut from_size) = (address(""), size);
        let server = accept(listener, (&raw mut from).cast(), &mut from_size);
        assert_eq!(from.sun_family, AF_UNIX);
        assert_eq!(send(client, b"ping".as_ptr(), 4, 0), 4);
        let mut said = [0_u8; 4];
        assert_eq!(recv(server, said.as_mut_ptr(), 4, 0), 4);
        let refused = |done: i32| {
            assert_eq!(done, SOCKET_ERROR);
            WSAGetLastError()
        };
        let taken = refused(bind(new(), (&raw const here).cast(), size));
        let nobody = address(&folder.path().join("nobody").display().to_string());
        let nobody = refused(connect(new(), (&raw const nobody).cast(), size));
        let long = address(&format!("C:\\{}", "x".repeat(105)));
        let long = refused(bind(new(), (&raw const long).cast(), size));
        assert_eq!(WSASocketW(AF_UNIX.into(), SOCK_DGRAM, 0, null(), 0, 0), INVALID_SOCKET);
        let kind = WSAGetLastError();
        format!("{} {taken} {nobody} {long} {kind}", std::str::from_utf8(&said).unwrap())
    }
}
