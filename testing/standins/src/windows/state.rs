//! What the stand-in knows in one process: the test's settings, what is open, and the ledger.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windows_sys::Win32::Foundation::{CloseHandle, FILETIME, HANDLE, WAIT_TIMEOUT};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentProcessId, GetProcessTimes, WaitForSingleObject,
};

use crate::settings::{self, Settings, Token};

/// Who a contained process is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// When it started, so that a later process with its number is not taken for it.
    pub started: u64,
    pub sid: String,
    pub capabilities: Vec<String>,
    /// Where the test's settings lie.
    pub settings: Option<String>,
}

/// A security environment that is open.
#[derive(Debug, Default)]
pub struct Environment {
    pub sid: String,
    pub capabilities: Vec<String>,
    /// TEMP folders made for what runs in it.
    pub folders: Vec<PathBuf>,
}

/// What an attribute list was given.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    pub environment: Option<usize>,
    pub profile: Option<String>,
    pub handles: Option<Vec<usize>>,
}

/// A contained process that was started.
#[derive(Debug)]
pub struct Child {
    pub environment: Option<usize>,
    /// A handle of our own.
    pub process: usize,
    pub resumed: bool,
    pub job: Option<usize>,
}

#[derive(Default)]
pub struct State {
    pub settings: Settings,
    pub settings_file: Option<String>,
    /// Who this process is, when it is contained itself.
    pub inside: Option<Identity>,
    /// Attempts to make an environment with paths.
    pub attempts: usize,
    pub next: usize,
    pub environments: BTreeMap<usize, Environment>,
    pub lists: BTreeMap<usize, Attributes>,
    pub children: BTreeMap<u32, Child>,
    /// The program's handles: of processes and threads, each with its process.
    pub handles: BTreeMap<usize, u32>,
    /// Tokens, each with whose it is when that is a contained process.
    pub tokens: BTreeMap<usize, Identity>,
    /// What was set of a job, by handle and class.
    pub jobs: BTreeMap<(usize, i32), Vec<u8>>,
    /// AF_UNIX sockets, each with the file it is bound to.
    pub sockets: BTreeMap<usize, Option<String>>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// One look at the state.
pub fn with<T>(look: impl FnOnce(&mut State) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<State>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    look(guard.get_or_insert_default())
}

pub fn settings() -> Settings {
    with(|state| state.settings.clone())
}

/// Where records of contained processes lie: one place, which a process inside finds without being told.
fn record(pid: u32) -> PathBuf {
    PathBuf::from(format!(r"C:\standin\inside\{pid}"))
}

/// At the program's start: who it is, and what the test has set.
pub fn begin() {
    // SAFETY: a handle that needs no closing.
    let started = started(unsafe { GetCurrentProcess() });
    let inside = read_record(std::process::id()).filter(|identity| identity.started == started);
    let file = std::env::var(settings::VARIABLE).ok().filter(|file| !file.is_empty());
    let file = file.or_else(|| inside.as_ref().and_then(|identity| identity.settings.clone()));
    let settings = file.as_ref().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
        text.and_then(|text| Settings::parse(&text)).unwrap_or_else(|why| {
            // A test must not go on in another Windows than it has set.
            eprintln!("stand-in: {file}: {why}");
            std::process::abort()
        })
    });
    with(|state| {
        state.settings = settings.unwrap_or_default();
        state.settings_file = file;
        state.inside = inside;
    });
}

/// At its end: what was left.
pub fn end() {
    // Other threads are gone; one may have been holding the state.
    let Ok(mut guard) = STATE.try_lock() else { return };
    let Some(state) = guard.as_mut() else { return };
    let waiting = state.children.values().filter(|child| !child.resumed && alive(child.process)).count();
    let alive = state.children.values().filter(|child| alive(child.process)).count();
    write(
        &state.settings,
        serde_json::json!({
            "call": "end", "inside": state.inside.is_some(), "environments": state.environments.len(), "lists": state.lists.len(),
            "alive": alive, "suspended": waiting, "handles": state.handles.len(), "tokens": state.tokens.len(),
        }),
    );
    for pid in state.children.keys() {
        let _ = std::fs::remove_file(record(*pid));
    }
}

/// One line of the ledger.
pub fn ledger(line: Value) {
    let settings = settings();
    write(&settings, line);
}

fn write(settings: &Settings, mut line: Value) {
    let Some(path) = &settings.ledger else { return };
    line["pid"] = std::process::id().into();
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| {
        // Wine looks for the end and then writes: two processes at once would write over each other.
        file.lock()?;
        file.write_all(format!("{line}\n").as_bytes())
    });
    if let Err(error) = written {
        eprintln!("stand-in: {path}: {error}");
        std::process::abort();
    }
}

/// A contained process is known from here on, to itself too.
pub fn contained(identity: &Identity) {
    let path = record(identity.pid);
    let written = std::fs::create_dir_all(path.parent().unwrap_or(&path))
        .and_then(|()| std::fs::write(&path, serde_json::json!(identity).to_string()));
    if let Err(error) = written {
        eprintln!("stand-in: {}: {error}", path.display());
        std::process::abort();
    }
}

fn read_record(pid: u32) -> Option<Identity> {
    serde_json::from_slice(&std::fs::read(record(pid)).ok()?).ok()
}

/// Who a process is, when it is contained: this one, or one that this or another process started.
pub fn who(process: HANDLE, pid: u32) -> Option<Identity> {
    // SAFETY: it takes nothing.
    if pid == unsafe { GetCurrentProcessId() } {
        return with(|state| state.inside.clone());
    }
    read_record(pid).filter(|identity| identity.started == started(process))
}

/// When a process started.
pub fn started(process: HANDLE) -> u64 {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: four places of our own; a handle that is none gives an error, and zero.
    if unsafe { GetProcessTimes(process, created, ended, kernel, user) } == 0 {
        return 0;
    }
    u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime)
}

/// Is it still running?
pub fn alive(process: usize) -> bool {
    // SAFETY: a handle of our own, which stays open as long as its record.
    unsafe { WaitForSingleObject(process as HANDLE, 0) == WAIT_TIMEOUT }
}

/// An identifier that no other environment has.
pub fn fresh_sid(kind: &str) -> String {
    let seed = with(|state| {
        state.next += 1;
        state.next
    });
    // SAFETY: a handle that needs no closing.
    let started = started(unsafe { GetCurrentProcess() });
    sid_of(&format!("{kind} {seed} {} {started}", std::process::id()))
}

/// An AppContainer's identifier by a name: not the one that Windows makes of it, and as steady.
pub fn sid_of(name: &str) -> String {
    let words = (0..7).map(|index| {
        let hash = name
            .bytes()
            .chain([index])
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("-{}", hash | 1)
    });
    format!("S-1-15-2{}", words.collect::<String>())
}

/// What a test has set that tokens say.
pub fn answer() -> Token {
    with(|state| state.settings.token)
}

/// Forget a child whose environment is closed.
pub fn forget(pid: u32) {
    if let Some(child) = with(|state| state.children.remove(&pid)) {
        // SAFETY: our own handle, closed once.
        unsafe { CloseHandle(child.process as HANDLE) };
        let _ = std::fs::remove_file(record(pid));
    }
}
