//! What every test here needs: a place for one test, with a user, a working folder and a home; ways to start the
//! built binary in it; and what came of it. Knows nothing of what is tested.

pub mod session;
pub mod terminal;
pub mod user;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use user::User;

/// A test's name and what it does.
pub type Test = (&'static str, fn(&Place));

/// A module's list of tests for every user, and of those for root alone.
macro_rules! tests {
    ($($name:ident),* $(,)?) => { tests!($($name),*; as root:); };
    ($($name:ident),* $(,)?; as root: $($root:ident),* $(,)?) => {
        pub const TESTS: &[$crate::support::Test] = &[$((stringify!($name), $name)),*];
        pub const AS_ROOT: &[$crate::support::Test] = &[$((stringify!($root), $root)),*];
    };
}
pub(crate) use tests;

/// A folder of one test's own, the user's: in it `work` and `home`. Removed afterwards.
pub struct Place {
    pub user: User,
    folder: TempDir,
    pub work: PathBuf,
    pub home: PathBuf,
}

impl Place {
    pub fn of(user: User) -> Place {
        session::begin(user);
        let folder = tempfile::Builder::new().prefix("oz0-suite-").tempdir_in("/tmp").unwrap();
        user.own(folder.path());
        let place =
            Place { user, work: folder.path().join("work"), home: folder.path().join("home"), folder };
        place.make_folder("work");
        place.make_folder("home");
        place
    }

    /// A path in the test's folder, outside the working folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.beside(name);
        fs::create_dir_all(&path).unwrap();
        self.user.own(&path);
        path
    }

    /// A file of the user's; `name` is relative to the test's folder.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.beside(name);
        fs::write(&path, contents).unwrap();
        self.user.own(&path);
        path
    }

    /// A program of this machine, started by the user outside any sandbox.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.user.command(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// The binary under test.
    pub fn node(&self) -> Command {
        self.command(session::binary())
    }

    /// `sandbox run --work WORK OPTIONS -- COMMAND`, to be added to and started.
    pub fn sandbox<O: AsRef<OsStr>, C: AsRef<OsStr>>(&self, options: &[O], command: &[C]) -> Command {
        let mut run = self.node();
        run.args(["sandbox", "run", "--work"]).arg(&self.work).args(options).arg("--").args(command);
        run
    }

    /// A run of that command, to its end.
    pub fn run<O: AsRef<OsStr>, C: AsRef<OsStr>>(&self, options: &[O], command: &[C]) -> Outcome {
        finish(&mut self.sandbox(options, command))
    }

    /// A shell script, sandboxed.
    pub fn sh(&self, script: &str) -> Outcome {
        self.sh_with(&[] as &[&str], script)
    }

    pub fn sh_with<O: AsRef<OsStr>>(&self, options: &[O], script: &str) -> Outcome {
        self.run(options, &["sh", "-c", script])
    }

    /// A Python script, sandboxed.
    pub fn python(&self, script: &str) -> Outcome {
        self.run(&[] as &[&str], &["/usr/bin/python3", "-c", script])
    }

    /// A shell script, by the same user in the working folder, outside: the control.
    pub fn outside(&self, script: &str) -> Outcome {
        finish(self.command("sh").args(["-c", script]).current_dir(&self.work))
    }

    /// Start, with pipes for the output.
    pub fn start(&self, command: &mut Command) -> Started {
        Started(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// A git repository in the working folder, with one commit.
    pub fn repository(&self) {
        let script = "git init -q -b main . && git config user.email a@example.com && git config user.name A \
                      && echo one > one && git add one && git commit -q -m one";
        self.outside(script).ok();
    }
}

/// A program that a test has started; ended with the test, also when that fails.
pub struct Started(Option<Child>);

impl Started {
    /// Its output and status, when it has ended.
    pub fn wait_with_output(mut self) -> Outcome {
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl std::ops::Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl std::ops::DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What came of a program.
#[derive(Debug)]
pub struct Outcome {
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

pub fn finish(command: &mut Command) -> Outcome {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Outcome {
        Outcome {
            status: output.status.code(),
            signal: output.status.signal(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Outcome {
    /// It succeeded; gives what it printed.
    #[track_caller]
    pub fn ok(&self) -> String {
        self.exits(0)
    }

    /// It ended with this status; gives what it printed.
    #[track_caller]
    pub fn exits(&self, status: i32) -> String {
        assert_eq!(self.status, Some(status), "{}", self.all());
        self.text()
    }

    /// It failed, however.
    #[track_caller]
    pub fn fails(&self) -> &Outcome {
        assert!(self.status.is_some_and(|status| status != 0), "it did not fail: {}", self.all());
        self
    }

    /// One of `words` stands in its output or its errors.
    #[track_caller]
    pub fn says_one_of(&self, words: &[&str]) -> &Outcome {
        let all = self.all();
        assert!(words.iter().any(|word| all.contains(word)), "none of {words:?} in: {all}");
        self
    }

    #[track_caller]
    pub fn says(&self, word: &str) -> &Outcome {
        self.says_one_of(&[word])
    }

    #[track_caller]
    pub fn says_not(&self, word: &str) -> &Outcome {
        let all = self.all();
        assert!(!all.contains(word), "{word:?} in: {all}");
        self
    }

    /// The kernel or the sandbox refused: access denied, read-only or not permitted; never merely "not found".
    #[track_caller]
    pub fn is_refused(&self) -> &Outcome {
        self.fails().says_one_of(&["Permission denied", "Read-only file system", "Operation not permitted"])
    }

    /// The refusal of the sandbox itself: 125, one line with its reason, and perhaps one with the fix.
    #[track_caller]
    pub fn is_sandbox_refusal(&self) -> &Outcome {
        self.exits(125);
        let lines: Vec<&str> = self.stderr.lines().collect();
        let ours = lines.iter().all(|line| line.starts_with("oz0-node: "));
        assert!(ours && (1..=2).contains(&lines.len()), "{}", self.all());
        assert!(self.stdout.is_empty(), "{}", self.all());
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }

    pub fn all(&self) -> String {
        format!("status {:?}, signal {:?}, {}\n{}", self.status, self.signal, self.text(), self.stderr)
    }

    /// The report that `--json` puts last.
    #[track_caller]
    pub fn report(&self) -> serde_json::Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.all()))
    }
}

/// Wait until `question` answers, at most `limit`.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut question: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes of this machine whose command line has `mark` as one of its words.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        })
        .collect()
}

/// A word that no other process on this machine has in its command line.
pub fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // A whole number of seconds that sleep takes: pid and number, with a digit that says whose it is.
    format!("9{:07}{:02}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
