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

/// Says that the suite made the delegation, so that its last process takes it back.
fn marker() -> PathBuf {
    std::env::temp_dir().join("oz0-suite-delegated")
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
            lock.lock().unwrap();
            let binary = for_everyone();
            let (folders, entry) = delegate(&binary);
            lock.unlock().unwrap();
            lock.lock_shared().unwrap();
            // Between the two locks another process may have been the last one and have cleared away.
            if binary.exists() && folders.iter().all(|folder| folder.exists()) {
                return Session { lock, binary, entry };
            }
        }
    });
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
    if marker().exists() {
        let done = Command::new(&session.binary)
            .args(["sandbox", "delegate", "--user", "nobody", "--undo"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        fs::remove_file(marker()).unwrap();
    }
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
fn for_everyone() -> PathBuf {
    let built = Path::new(BUILT);
    let open = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o001 != 0;
    if built.ancestors().skip(1).all(open) {
        return built.into();
    }
    let metadata = fs::metadata(built).unwrap();
    let folder = copies().join(format!("{}-{}", metadata.ino(), metadata.mtime()));
    let copy = folder.join("oz0-node");
    if !copy.exists() {
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

/// A cgroup for `nobody`; gives the folders, and on version 2 the way in.
fn delegate(binary: &Path) -> (Vec<PathBuf>, Option<PathBuf>) {
    let done =
        Command::new(binary).args(["sandbox", "delegate", "--user", "nobody", "--json"]).output().unwrap();
    assert!(done.status.success(), "no cgroup for nobody: {done:?}");
    let done: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let paths = |name: &str| -> Vec<PathBuf> {
        done[name].as_array().unwrap().iter().map(|path| path.as_str().unwrap().into()).collect()
    };
    if !paths("made").is_empty() {
        fs::write(marker(), "").unwrap();
    }
    let folders = paths("folders");
    let entry = done["enter"].is_string().then(|| folders[0].join("oz0-node/cgroup.procs"));
    (folders, entry)
}
