//! The plan of protected paths, mounted in a namespace as a launch does, holds against what gets round others.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use oz0_sandbox::protected::{Protected, Request, find};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("/usr/bin/git")
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// The outcomes of the acts in `protected_mounts.py`, as `user` in a workspace of that user.
fn outcomes(user: Option<u32>, change: impl FnOnce(&mut Protected)) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let work = root.join("w");
    for name in ["w/a/nested", "hidden", "lib", "w/.claude", "w/tools/husky"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["w", "w/a/nested", "lib"] {
        git(&root.join(name), &["init", "-q", "-b", "main"]);
    }
    git(&root.join("lib"), &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&work, &["submodule", "--quiet", "add", "../lib", "sub"]);
    symlink("tools/husky", work.join(".husky")).unwrap();

    let mut protected = find(&Request::new(&work)).unwrap();
    change(&mut protected);
    let plan = root.join("plan.json");
    fs::write(&plan, serde_json::to_string(&protected).unwrap()).unwrap();
    let script = root.join("mounts.py");
    fs::write(&script, include_str!("protected_mounts.py")).unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.arg(&script).arg(&work).arg(root.join("hidden")).arg(&plan).current_dir("/");
    if let Some(user) = user {
        give(&root, user);
        command.uid(user).gid(user);
    } else {
        chown(&root, None, None).unwrap();
    }
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Nothing of the list could be done, everything else could.
fn assert_held(outcomes: &BTreeMap<String, String>) {
    let expected = [
        ("write a hook", "EROFS"),
        ("write the configuration", "EROFS"),
        ("remove the configuration", "EBUSY"),
        ("move over the configuration", "EBUSY"),
        ("another name for the configuration", "EXDEV"),
        ("rename the hooks", "EBUSY"),
        ("rename .git", "EBUSY"),
        ("rename the nested folder", "EBUSY"),
        ("rename the nested root", "EBUSY"),
        ("rename the nested .git", "EBUSY"),
        ("write a nested hook", "EROFS"),
        ("write a nested configuration", "EROFS"),
        ("replace the gitfile", "EBUSY"),
        ("write the submodule's configuration", "EROFS"),
        ("rename the modules", "EBUSY"),
        ("write settings", "EROFS"),
        ("write through the link", "EROFS"),
        ("remove the link", "EBUSY"),
        ("rename the link", "EBUSY"),
        ("replace the link", "EBUSY"),
        ("rename the link's target", "EBUSY"),
        ("list through the link", "done"),
        ("read the configuration", "done"),
        ("commit", "done"),
        ("commit in the nested repository", "done"),
        ("commit in the submodule", "done"),
        ("change branch", "done"),
        ("rename across", "done"),
    ];
    let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    assert_eq!(*outcomes, BTreeMap::from(expected));
}

#[test]
fn c037_c128_the_plan_holds_as_the_caller() {
    assert_held(&outcomes(None, |_| {}));
}

#[test]
fn c037_c128_the_plan_holds_as_an_ordinary_user() {
    assert!(rustix::process::geteuid().is_root(), "this test changes to another user, which needs root");
    assert_held(&outcomes(Some(65534), |_| {}));
}

/// Each pin is needed: without it one of the acts goes through.
#[test]
fn every_pin_is_needed() {
    for (pin, act) in [
        ("a", "rename the nested folder"),
        ("a/nested", "rename the nested root"),
        ("a/nested/.git", "rename the nested .git"),
        (".git", "rename .git"),
        (".git/modules", "rename the modules"),
        (".husky", "remove the link"),
        ("tools", "rename the link's target"),
    ] {
        let outcomes = outcomes(None, |protected| {
            let work = protected.roots[0].clone();
            let pins = protected.pins.len();
            protected.pins.retain(|kept| kept.path != work.join(pin));
            assert_eq!(protected.pins.len(), pins - 1, "{pin} is pinned");
        });
        assert_eq!(outcomes[act], "done", "{act}");
    }
}
