//! A database for one test: gone when it is dropped.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oz0::store::Place;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

pub(crate) struct Database {
    folder: TempDir,
    server: Option<Child>,
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
        let mut database = Database { folder, server: None };
        database.start();
        database
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.server.is_some()
    }

    /// Only a Unix socket, in its own folder.
    fn start(&mut self) {
        let folder = self.folder.path();
        let server = command("postgres")
            .arg("-D")
            .arg(folder.join("data"))
            .arg("-k")
            .arg(folder)
            .args(["-c", "listen_addresses=", "-c", "max_connections=60"])
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let began = Instant::now();
        loop {
            let ready =
                command("pg_isready").arg("-h").arg(folder).arg("-q").current_dir("/").status().unwrap();
            if ready.success() {
                return;
            }
            let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(60), "PostgreSQL did not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
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
            // INT is PostgreSQL's fast shutdown: its own processes end with it.
            let _ = kill_process(Pid::from_child(server), Signal::INT);
            drop(server.wait());
        }
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
