//! What is left behind: nothing, also of a thousand runs and of runs that were killed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, mark, processes_with, tests, wait_for};

tests![
    c031_a_run_that_does_nothing_changes_nothing,
    c079_nothing_is_left_after_an_interrupt,
    a_thousand_runs_leave_nothing,
    a_hundred_killed_runs_leave_nothing,
    a_refused_run_leaves_no_process,
];

/// Every name below a folder with type, mode, owner, size and times.
fn tree(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let m = fs::symlink_metadata(&path).unwrap();
            if m.is_dir() {
                folders.push(path.clone());
            }
            all.insert(format!(
                "{} {:o} {}:{} {} {}.{} {}",
                path.display(),
                m.mode(),
                m.uid(),
                m.gid(),
                m.len(),
                m.mtime(),
                m.mtime_nsec(),
                m.nlink()
            ));
        }
    }
    let m = fs::symlink_metadata(folder).unwrap();
    all.insert(format!(". {:o} {}.{}", m.mode(), m.mtime(), m.mtime_nsec()));
    all
}

fn c031_a_run_that_does_nothing_changes_nothing(place: &Place) {
    assert_eq!(place.sh("ls -A").ok(), "");
    assert_eq!(place.outside("ls -A").ok(), "");
    place.repository();
    place.outside("mkdir -p .claude sub && touch .envrc sub/file && ln -s one link && chmod 600 one && git init -q sub/r").ok();
    let before = tree(place.beside("").as_path());
    place.sh("true").ok();
    place.sh("cat one; git status >/dev/null 2>&1; exit 3").exits(3);
    // Git refreshes its index when asked for the status; all else must be the same to the nanosecond.
    let index = |line: &String| line.contains("/.git/index ") || line.contains("/.git ");
    let same = |before: &BTreeSet<String>| {
        let after = tree(place.beside("").as_path());
        let changed: Vec<&String> = before.symmetric_difference(&after).filter(|line| !index(line)).collect();
        assert!(changed.is_empty(), "{changed:#?}");
    };
    same(&before);
    let before = tree(place.beside("").as_path());
    let mark = mark();
    let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["sleep", &mark]));
    wait_for("the command", Duration::from_secs(10), || (processes_with(&mark).len() >= 3).then_some(()));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_for("its end", Duration::from_secs(2), || processes_with(&mark).is_empty().then_some(()));
    same(&before);
    place.outside("rm .envrc && git status").ok();
}

/// The folders of runs in every cgroup tree, of this user's.
fn groups(place: &Place) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let owner = fs::metadata(&path).map(|m| m.uid()).unwrap_or(u32::MAX);
            if entry.file_name().to_string_lossy().starts_with("run.") && owner == place.user.uid() {
                found.insert(path.clone());
            }
            folders.push(path);
        }
    }
    found
}

/// Those folders that no run of another test holds: the process that made one is part of its name.
fn dead_groups(place: &Place) -> Vec<PathBuf> {
    let alive = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split('.').nth(1).is_some_and(|pid| Path::new("/proc").join(pid).exists())
    };
    groups(place).into_iter().filter(|path| !alive(path)).collect()
}

fn mounts() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    text.lines().filter(|line| line.contains("oz0")).map(str::to_owned).collect()
}

fn temp_entries() -> BTreeSet<String> {
    let entries = fs::read_dir("/tmp").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // Folders of other tests come and go.
    names
        .filter(|name| !["oz0-suite-", "oz0-self-test-", ".tmp"].iter().any(|other| name.starts_with(other)))
        .collect()
}

fn c079_nothing_is_left_after_an_interrupt(place: &Place) {
    let mark = mark();
    let mut child = place.start(&mut place.sandbox(&["--memory=256M"], &["sleep", &mark]));
    let name = format!("run.{}.0", child.id());
    wait_for("the command", Duration::from_secs(10), || (processes_with(&mark).len() >= 3).then_some(()));
    let ours = || groups(place).into_iter().filter(|path| path.ends_with(&name)).count();
    assert!(ours() >= 1, "the run has no folder called {name}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(ours(), 0);
    // A killed node leaves its folder; the next start sweeps it.
    let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["sleep", &mark]));
    let name = format!("run.{}.0", child.id());
    wait_for("the command", Duration::from_secs(10), || (processes_with(&mark).len() >= 3).then_some(()));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_for("its end", Duration::from_secs(2), || processes_with(&mark).is_empty().then_some(()));
    let ours = || groups(place).into_iter().filter(|path| path.ends_with(&name)).count();
    // Any start sweeps it, also one of another test's.
    for _ in 0..20 {
        place.sh("sleep 0.05").ok();
        if ours() == 0 {
            return;
        }
    }
    panic!("{name} was not swept");
}

/// `count` runs, so many at a time.
fn in_parallel(count: u32, at_a_time: u32, act: impl Fn(u32) + Sync) {
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    act(number);
                }
            });
        }
    });
}

fn a_thousand_runs_leave_nothing(place: &Place) {
    let mark = mark();
    let temp = temp_entries();
    in_parallel(1000, 20, |number| {
        let script = format!("(sleep {mark} &) ; exit {}", number % 7);
        place.sh(&script).exits((number % 7) as i32);
    });
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
    assert!(dead_groups(place).is_empty(), "{:?}", dead_groups(place));
    assert_eq!(mounts(), [] as [String; 0]);
    let left: Vec<String> =
        temp_entries().difference(&temp).filter(|name| name.contains("oz0")).cloned().collect();
    assert_eq!(left, [] as [String; 0]);
}

/// The container is begun while the node still finds out what is wrong; its first process has the node's own words.
fn a_refused_run_leaves_no_process(place: &Place) {
    let mark = mark();
    std::os::unix::fs::symlink("/etc/hostname", place.work.join("leads-out")).unwrap();
    let absent = place.beside("absent").display().to_string();
    for options in [["--read", &absent], ["--links", "refuse"], ["--report", "/proc/none"]] {
        for _ in 0..10 {
            place.run(&options, &["sleep", &mark]).is_sandbox_refusal();
            assert_eq!(processes_with(&mark), [] as [u32; 0], "{options:?}");
        }
    }
    assert!(dead_groups(place).is_empty(), "{:?}", dead_groups(place));
}

fn a_hundred_killed_runs_leave_nothing(place: &Place) {
    let mark = mark();
    let temp = temp_entries();
    in_parallel(100, 8, |number| {
        let script = format!("(setsid sleep {mark} &); touch /tmp/x; sleep {mark}");
        let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["sh", "-c", &script]));
        // From before the first step of the launch to well into the run.
        std::thread::sleep(Duration::from_micros(u64::from(number) * 700));
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
    });
    wait_for("every process to end", Duration::from_secs(5), || {
        processes_with(&mark).is_empty().then_some(())
    });
    assert_eq!(mounts(), [] as [String; 0]);
    // Each start sweeps a bounded number of folders.
    for _ in 0..60 {
        if dead_groups(place).is_empty() {
            break;
        }
        place.sh("sleep 0.02").ok();
    }
    assert!(dead_groups(place).is_empty(), "{:?}", dead_groups(place));
    let left: Vec<String> =
        temp_entries().difference(&temp).filter(|name| name.contains("oz0")).cloned().collect();
    assert_eq!(left, [] as [String; 0]);
    assert_eq!(place.outside("ls -A").ok(), "");
}
