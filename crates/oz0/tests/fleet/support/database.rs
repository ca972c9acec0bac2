//! A database for one test: gone when it is dropped.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use oz0::store::Place;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

pub(crate) struct Database {
    folder: TempDir,
    server: Option<Mutex<Child>>,
}

impl Database {
    pub(crate) fn sqlite() -> Database {
        Database { folder: tempfile::tempdir().unwrap(), server: None }
    }

    pub(crate) fn postgres() -> Database {
        let folder = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.path().join("data");
        let made = command("initdb")
            .args(["--no-sync", "--auth=trust", "--username=oz0", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .current_dir("/")
            .stdout(Stdio::null())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = Some(Mutex::new(start(folder.path())));
        Database { folder, server }
    }

    /// As if the power of the database's machine had gone, and come back.
    pub(crate) fn crash(&self) {
        let Some(server) = &self.server else { return };
        let mut server = server.lock().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        *server = start(self.folder.path());
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.server.is_some()
    }

    pub(crate) fn url(&self) -> Option<String> {
        let socket = self.folder.path().to_str().unwrap();
        self.server.is_some().then(|| format!("postgres://oz0@localhost/postgres?host={socket}"))
    }

    pub(crate) fn place(&self) -> Place {
        self.url().map_or_else(|| Place::Directory(self.data()), Place::Url)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("oz0")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let server = server.get_mut().unwrap_or_else(PoisonError::into_inner);
            // INT is PostgreSQL's fast shutdown: its own processes end with it.
            let _ = kill_process(Pid::from_child(server), Signal::INT);
            drop(server.wait());
        }
    }
}

/// The server, once it answers: only at a Unix socket, in its own folder.
fn start(folder: &Path) -> Child {
    let spawn = || {
        command("postgres")
            .arg("-D")
            .arg(folder.join("data"))
            .arg("-k")
            .arg(folder)
            .args(["-c", "listen_addresses=", "-c", "max_connections=60"])
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap()
    };
    let mut server = spawn();
    let began = Instant::now();
    loop {
        let ready = command("pg_isready").arg("-h").arg(folder).arg("-q").current_dir("/").status().unwrap();
        // After a crash the processes of the one before may still be ending: it does not start beside them.
        if server.try_wait().unwrap().is_some() {
            server = spawn();
        } else if ready.success() {
            return server;
        }
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(began.elapsed() < Duration::from_secs(60), "PostgreSQL did not start: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One of PostgreSQL's programs, as an ordinary user.
fn command(name: &str) -> Command {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is installed (Debian's package postgresql)")
        .map(|entry| entry.unwrap().path().join("bin").join(name))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    let mut command = Command::new(found.pop().expect("PostgreSQL's server is installed"));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command
}
