//! A machine as one test wants it: the stand-ins' settings, a work folder, the node started on it, and the ledger.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// One machine.
pub struct Machine {
    pub folder: tempfile::TempDir,
}

impl Machine {
    /// With these settings, `key=value` lines; see `testing/standins/src/settings.rs`.
    pub fn new(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine { folder };
        for name in ["work", "local"] {
            fs::create_dir(machine.path(name)).unwrap();
        }
        let ledger = machine.path("ledger").display().to_string();
        let state = machine.path("state").display().to_string();
        let text = format!("{settings}\nledger={ledger}\nstate={state}\n");
        fs::write(machine.path("settings"), text).unwrap();
        machine
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// The node, not yet started, as a user would start it: with a variable of the node's own that nothing inside
    /// may see.
    pub fn node(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.work()).stdin(Stdio::null());
        command.env("STANDIN", self.path("settings")).env("LOCALAPPDATA", self.path("local"));
        command.env("OZ0_DATA_DIR", self.path("data"));
        command.env("OZ0_SANDBOX_PSEC_PREVIEW", "1").env("OZ0_SOMETHING", "of the node");
        command
    }

    pub fn run(&self, options: &[&str], command: &[&str]) -> Output {
        self.node(&[&["sandbox", "run"], options, &["--"], command].concat()).output().unwrap()
    }

    /// `sandbox check`, with a data directory of its own that is not there yet.
    pub fn check(&self, arguments: &[&str]) -> Output {
        let data = self.path("data").display().to_string();
        self.node(&[&["sandbox", "check", "--data-dir", &data], arguments].concat()).output().unwrap()
    }

    /// A script in the work folder that goes on until it is ended, and shows that it does; and one that starts it and
    /// leaves it behind.
    pub fn scripts(&self) {
        let again = "@echo off\r\n:again\r\necho x>>alive\r\nping -n 2 127.0.0.1 >said\r\ngoto again\r\n";
        fs::write(self.work().join("go-on.bat"), again).unwrap();
        let leave =
            "@echo off\r\nstart /b cmd /d /c go-on.bat\r\nping -n 3 127.0.0.1 >waited\r\necho done\r\n";
        fs::write(self.work().join("leave.bat"), leave).unwrap();
    }

    /// Does the script go on? It shows so once a second.
    pub fn goes_on(&self) -> bool {
        let shown = || fs::metadata(self.work().join("alive")).map_or(0, |found| found.len());
        let before = shown();
        std::thread::sleep(Duration::from_secs(4));
        shown() > before
    }

    /// Every call that the stand-ins saw.
    pub fn ledger(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("ledger")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Those of one kind.
    pub fn calls(&self, call: &str) -> Vec<Value> {
        self.ledger().into_iter().filter(|line| line["call"] == call).collect()
    }

    /// Nothing was let go on, and nothing is left: the first thing to hold after every refusal.
    pub fn nothing_ran(&self) {
        let resumed = self.calls("resume").into_iter().filter(|line| line["error"] == 0).count();
        assert_eq!(resumed, 0, "something was resumed: {:#?}", self.ledger());
        let free =
            self.calls("launch").into_iter().filter(|line| line["suspended"] == false && line["error"] == 0);
        let free: Vec<Value> = free.collect();
        assert!(free.is_empty(), "something was started that did not wait: {free:#?}");
        self.nothing_leaked();
    }

    /// Every environment that was made is closed once, after all in it had ended, and no child is left.
    pub fn nothing_leaked(&self) {
        let ended: Vec<Value> = self.calls("end").iter().map(|line| line["pid"].clone()).collect();
        for made in self.calls("create") {
            assert!(ended.contains(&made["pid"]), "it was killed, or has not ended: {made:#?}");
        }
        self.nothing_leaked_but_by_the_killed();
    }

    /// The same where some that made environments were killed on purpose: Windows closes for them.
    pub fn nothing_leaked_but_by_the_killed(&self) {
        let ledger = self.ledger();
        let ended = |line: &Value| ledger.iter().any(|end| end["call"] == "end" && end["pid"] == line["pid"]);
        let made: Vec<&Value> = ledger
            .iter()
            .filter(|line| line["call"] == "create" && line["handle"] != 0 && ended(line))
            .collect();
        for made in made {
            let closed: Vec<&Value> = ledger
                .iter()
                .filter(|line| {
                    line["call"] == "close" && line["handle"] == made["handle"] && line["pid"] == made["pid"]
                })
                .collect();
            assert_eq!(closed.len(), 1, "closed once: {made:#?} {closed:#?}");
            assert_eq!(closed[0]["alive"], 0, "closed while something ran in it: {closed:#?}");
            assert_eq!(closed[0]["open"], true);
        }
        // What a contained process leaves is the job's to end; what the node leaves is left.
        for end in ledger.iter().filter(|line| line["call"] == "end" && line["inside"] == false) {
            for what in ["environments", "lists", "alive", "suspended", "tokens"] {
                assert_eq!(end[what], 0, "left at the end: {end:#?}");
            }
        }
    }
}

/// The program, by a path with a drive: what cargo knows it by is one of the system that built it.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let path = format!("Z:{}", env!("CARGO_BIN_EXE_oz0-node").replace('/', "\\"));
        fs::canonicalize(&path).map(|_| PathBuf::from(path)).unwrap()
    })
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\r\n", "\n")
}

/// Waits until it is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
