//! Running a test again as an ordinary user: `nobody`, from root, with cgroup folders delegated meanwhile.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use oz0_sandbox::backend::linux::cgroup;

const NOBODY: u32 = 65534;

/// Tells the test, run again, where the node's binary is.
const BINARY: &str = "HOLES_NODE_BINARY";

/// Is this the test run again?
pub fn is_this() -> bool {
    rustix::process::geteuid().as_raw() == NOBODY
}

/// The node's binary, as this user can run it.
pub fn binary() -> PathBuf {
    std::env::var_os(BINARY).map_or_else(|| env!("CARGO_BIN_EXE_oz0-node").into(), PathBuf::from)
}

/// Run this very test again as `nobody`. One at a time on this machine: the delegated folders are the same for all.
pub fn again(test: &str) {
    let alone = File::create(std::env::temp_dir().join("oz0-delegated-to-nobody.lock")).unwrap();
    alone.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, node) = (folder.path().join("holes"), folder.path().join("oz0-node"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_oz0-node"), &node).unwrap();
    // It waits until root has handed the folders over and, on version 2, moved it in.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read go && exec \"$0\" --exact \"$1\" --nocapture --test-threads=1"])
        .arg(&program)
        .arg(test)
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env(BINARY, &node)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .gid(NOBODY)
        .uid(NOBODY)
        .spawn()
        .unwrap();
    let delegation = cgroup::delegate("nobody", Some(child.id())).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    // Folders that were there before are somebody else's to take back.
    if !delegation.made.is_empty() {
        assert_eq!(cgroup::undo("nobody").unwrap().len(), delegation.folders.len());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "as nobody:\n{out}\n{err}");
    println!("{out}");
}
