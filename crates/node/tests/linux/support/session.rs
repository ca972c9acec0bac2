//! What all tests share, though each may run in a process of its own: the binary where every user can start it,
//! and the cgroup folder that root hands to `nobody`.
//!
//! A lock file counts who is at it: each process holds a shared lock from its first test to its end. Whoever then
//! gets the exclusive lock is the last, and takes back what was made. A process that is killed leaves that to the
//! next one. The sandbox's own tests take the same lock.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::user::User;

const BUILT: &str = env!("CARGO_BIN_EXE_oz0-node");

struct Session {
    lock: File,
    binary: PathBuf,
    /// Version 2: the file through which a process gets into the delegated folder.
    entry: Option<PathBuf>,
}

static SESSION: OnceLock<Session> = OnceLock::new();

/// What was set up, for the processes that come later: the binary, whether the suite itself made the delegation
/// (so that its last process takes it back), the way into it, and its folders.
fn state() -> PathBuf {
    std::env::temp_dir().join("oz0-suite-state")
}

fn copies() -> PathBuf {
    std::env::temp_dir().join("oz0-suite-binary")
}

/// Before a test: once a process.
pub fn begin(user: User) {
    SESSION.get_or_init(|| {
        if user == User::Caller {
            let lock = tempfile::tempfile().unwrap();
            return Session { lock, binary: BUILT.into(), entry: None };
        }
        let path = std::env::temp_dir().join("oz0-delegated-to-nobody.lock");
        let lock = File::options().create(true).truncate(false).write(true).open(path).unwrap();
        loop {
            // Shared when all is there already, so that tests go on side by side.
            lock.lock_shared().unwrap();
            if let Some((binary, entry)) = ready() {
                return Session { lock, binary, entry };
            }
            lock.unlock().unwrap();
            lock.lock().unwrap();
            if ready().is_none() {
                set_up();
            }
            // Between the two locks another process may be the last one and clear away: look again.
            lock.unlock().unwrap();
        }
    });
}

/// The binary and the way in, when everything that was set up is still there.
fn ready() -> Option<(PathBuf, Option<PathBuf>)> {
    let state: serde_json::Value = serde_json::from_slice(&fs::read(state()).ok()?).ok()?;
    let path = |value: &serde_json::Value| value.as_str().map(PathBuf::from);
    let folders = state["folders"].as_array()?;
    let whole = folders.iter().all(|folder| path(folder).is_some_and(|folder| folder.exists()));
    let binary = path(&state["binary"]).filter(|binary| whole && *binary == for_everyone(false))?;
    binary.exists().then(|| (binary, path(&state["entry"])))
}

/// After all tests of this process.
pub fn end() {
    let Some(session) = SESSION.get().filter(|_| rustix::process::getuid().is_root()) else { return };
    session.lock.unlock().unwrap();
    match session.lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return,
        Err(TryLockError::Error(error)) => panic!("the suite's lock: {error}"),
    }
    let made =
        fs::read(state()).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    if made.is_some_and(|state| state["made"] == true) {
        let done = Command::new(&session.binary)
            .args(["sandbox", "delegate", "--user", "nobody", "--undo"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let _ = fs::remove_file(state());
    let _ = fs::remove_dir_all(copies());
    session.lock.unlock().unwrap();
}

pub fn binary() -> &'static Path {
    &SESSION.get().unwrap().binary
}

pub fn entry() -> Option<&'static Path> {
    SESSION.get().unwrap().entry.as_deref()
}

/// The binary, or a copy of it where its folder is closed to others (root's home for one).
fn for_everyone(make: bool) -> PathBuf {
    let built = Path::new(BUILT);
    let open = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o001 != 0;
    if built.ancestors().skip(1).all(open) {
        return built.into();
    }
    let metadata = fs::metadata(built).unwrap();
    let folder = copies().join(format!("{}-{}", metadata.ino(), metadata.mtime()));
    let copy = folder.join("oz0-node");
    if make && !copy.exists() {
        let _ = fs::remove_dir_all(copies());
        fs::create_dir_all(&folder).unwrap();
        let unfinished = folder.join("unfinished");
        fs::copy(built, &unfinished).unwrap();
        for folder in [&copies(), &folder, &unfinished] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::rename(&unfinished, &copy).unwrap();
    }
    copy
}

/// The binary for everyone, and a cgroup for `nobody`.
fn set_up() {
    let binary = for_everyone(true);
    let done =
        Command::new(&binary).args(["sandbox", "delegate", "--user", "nobody", "--json"]).output().unwrap();
    assert!(done.status.success(), "no cgroup for nobody: {done:?}");
    let done: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let first = done["folders"][0].as_str().unwrap();
    let before =
        fs::read(state()).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let made = done["made"].as_array().is_some_and(|made| !made.is_empty());
    let state_now = serde_json::json!({
        "binary": binary,
        "folders": done["folders"],
        // Made by an earlier process that was killed is made by the suite as well.
        "made": made || before.is_some_and(|before| before["made"] == true),
        "entry": done["enter"].is_string().then(|| Path::new(first).join("oz0-node/cgroup.procs")),
    });
    fs::write(state(), state_now.to_string()).unwrap();
}
