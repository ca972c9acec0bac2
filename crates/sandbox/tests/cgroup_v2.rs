//! Where a caller's cgroups go on a machine with version 2 alone, for each way in which systemd, a container or
//! root arranges the tree. They need root and such a machine, so each is run by name there:
//! `cargo test -p oz0-sandbox --test cgroup_v2 -- --ignored --test-threads=1`.
#![cfg(target_os = "linux")]
// The allowances for tests in clippy.toml do not reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oz0_sandbox::backend::linux::cgroup::{Place, Version};
use oz0_sandbox::limits::{Kind, Limits};

const TOP: &str = "/sys/fs/cgroup";
const NOBODY: u32 = 65534;
/// Says to this program that it is the one to be looked at, inside the cgroup that a test prepared.
const INSIDE: &str = "OZ0_TEST_INSIDE";

/// A cgroup below the top, removed with all below it at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        fs::write(format!("{TOP}/cgroup.subtree_control"), "+memory +pids +cpu").unwrap();
        let path = Path::new(TOP).join(name);
        fs::create_dir(&path).unwrap();
        Tree(path)
    }

    fn child(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    fn owned_by_nobody(path: &Path) {
        for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            chown(path.join(file), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fn remove(path: &Path) {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            let _ = fs::remove_dir(path);
        }
        remove(&self.0);
    }
}

/// What a process in the cgroup `path` finds, as that user: `found PLACE` or `refused CODE`.
fn found_in(path: &Path, uid: u32, test: &str, wrapped_in: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("cgroup-test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read go && exec \"$@\"", "sh"])
        .args(wrapped_in)
        .arg(&program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .uid(uid)
        .gid(uid)
        .spawn()
        .unwrap();
    fs::write(path.join("cgroup.procs"), child.id().to_string()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix("answer: "));
    line.unwrap_or_else(|| panic!("no answer in {said}")).to_owned()
}

/// The looked-at side: finds, and makes a group with every limit and a member.
fn answers_inside() -> bool {
    if std::env::var_os(INSIDE).is_none() {
        return false;
    }
    match Place::find() {
        Err(refusal) => println!("\nanswer: refused {}", refusal.code()),
        Ok(place) => {
            assert_eq!(place.version(), Version::V2);
            let group = place.create("inside", &Limits::of(Kind::Command)).unwrap();
            let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
            group.add(child.id()).unwrap();
            assert_eq!(group.members().unwrap(), [i32::try_from(child.id()).unwrap()]);
            child.kill().unwrap();
            child.wait().unwrap();
            group.remove().unwrap();
            println!("\nanswer: found {}", place.paths()[0].display());
        }
    }
    true
}

fn limited(path: &Path) {
    fs::write(path.join("memory.max"), "2G").unwrap();
}

#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn root_without_a_limit_around_it_uses_the_top() {
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-session");
    let here = "root_without_a_limit_around_it_uses_the_top";
    assert_eq!(found_in(&tree.0, 0, here, &[]), format!("found {TOP}/oz0"));
}

#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn root_stays_below_the_limit_around_it() {
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-slice");
    limited(&tree.0);
    let own = tree.child("service");
    let found = found_in(&own, 0, "root_stays_below_the_limit_around_it", &[]);
    assert_eq!(found, format!("found {}/oz0", tree.0.display()));
}

#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn a_limited_service_without_delegate_is_refused_and_one_with_it_is_not() {
    const HERE: &str = "a_limited_service_without_delegate_is_refused_and_one_with_it_is_not";
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-service");
    limited(&tree.0);
    assert_eq!(found_in(&tree.0, 0, HERE, &[]), "refused cgroup-holds-processes");
    // What systemd writes for Delegate=yes.
    rustix::fs::setxattr(&tree.0, "trusted.delegate", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(found_in(&tree.0, 0, HERE, &[]), format!("found {}/oz0", tree.0.display()));
    assert!(tree.0.join("oz0-node").is_dir(), "its processes moved to the leaf");
}

#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn a_container_arranges_the_top_of_its_own_namespace() {
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-container");
    limited(&tree.0);
    let remount = "umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"";
    let wrap = ["unshare", "--cgroup", "--mount", "/bin/sh", "-c", remount, "sh"];
    let found = found_in(&tree.0, 0, "a_container_arranges_the_top_of_its_own_namespace", &wrap);
    assert_eq!(found, format!("found {TOP}/oz0"));
    assert!(tree.0.join("oz0").is_dir(), "the top it saw was its own");
}

/// `systemd-run --user --scope -p Delegate=yes`: the scope is the user's and holds the user's processes.
#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn a_user_in_a_scope_of_its_own_moves_to_the_leaf() {
    const HERE: &str = "a_user_in_a_scope_of_its_own_moves_to_the_leaf";
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-scope");
    assert_eq!(found_in(&tree.0, NOBODY, HERE, &[]), "refused cgroup-not-delegated");
    Tree::owned_by_nobody(&tree.0);
    assert_eq!(found_in(&tree.0, NOBODY, HERE, &[]), format!("found {}/oz0", tree.0.display()));
    assert!(tree.0.join("oz0-node").is_dir());
}

/// `systemd-run --user --scope -p MemoryMax=…`: the limit that the user set around the node holds for runs.
#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn a_user_stays_below_a_limit_of_its_own() {
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-own-limit");
    Tree::owned_by_nobody(&tree.0);
    fs::write(tree.0.join("cgroup.subtree_control"), "+memory +pids +cpu").unwrap();
    let scope = tree.child("limited.scope");
    Tree::owned_by_nobody(&scope);
    limited(&scope);
    let found = found_in(&scope, NOBODY, "a_user_stays_below_a_limit_of_its_own", &[]);
    assert_eq!(found, format!("found {}/oz0", scope.display()));
}

/// A terminal of a desktop: scope, slice and user service are the user's; only the scope holds processes.
#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn a_user_below_a_slice_of_its_own_moves_nothing() {
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-user-service");
    Tree::owned_by_nobody(&tree.0);
    let scope = tree.child("terminal.scope");
    Tree::owned_by_nobody(&scope);
    let found = found_in(&scope, NOBODY, "a_user_below_a_slice_of_its_own_moves_nothing", &[]);
    assert_eq!(found, format!("found {}/oz0", tree.0.display()));
    assert!(!scope.join("oz0-node").exists());
}

#[test]
#[ignore = "needs root and a machine with cgroup v2 alone"]
fn a_user_whose_part_lacks_cpu_is_refused() {
    if answers_inside() {
        return;
    }
    let tree = Tree::new("t-no-cpu");
    fs::write(tree.0.join("cgroup.subtree_control"), "+memory +pids").unwrap();
    let scope = tree.child("scope");
    Tree::owned_by_nobody(&scope);
    let found = found_in(&scope, NOBODY, "a_user_whose_part_lacks_cpu_is_refused", &[]);
    assert_eq!(found, "refused cgroup-not-delegated");
}
