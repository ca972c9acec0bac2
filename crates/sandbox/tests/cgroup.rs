//! Real cgroups on this machine, as root and as `nobody`: limits held, joined, measured, removed, swept.
//! Fails where the kernel has no usable cgroup: it skips nothing.
#![cfg(target_os = "linux")]
// The allowances for tests in clippy.toml do not reach the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use oz0_sandbox::backend::linux::cgroup::{
    self, CgroupError, CgroupRefusal, DelegationError, Group, Place, Version,
};
use oz0_sandbox::limits::{Kind, Limit, Limits, parse_cpu, parse_memory};
use rustix::process::geteuid;

const NOBODY: u32 = 65534;

fn limits() -> Limits {
    Limits::fitted(Kind::Command, 8 << 30)
}

fn memory(text: &str) -> Limits {
    Limits { memory: parse_memory(text).unwrap(), ..limits() }
}

/// Starts python, puts it into the group, and only then lets it run `program`.
fn started_in(group: &Group, program: &str) -> Child {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", &format!("import sys\nsys.stdin.readline()\n{program}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    group.add(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    child
}

fn output_in(group: &Group, program: &str) -> (ExitStatus, String) {
    let output = started_in(group, program).wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

fn folders_of(group: &Group) -> Vec<PathBuf> {
    group.views().into_iter().map(|(path, _)| path).collect()
}

fn hits(group: &Group) -> Vec<Limit> {
    group.usage().hit(group.limits()).iter().map(|hit| hit.limit).collect()
}

/// Runs this very test again as `nobody`, in a folder that it may read, with cgroup folders handed to it for
/// as long as it runs. One at a time on this machine: the folders are the same for all.
fn again_as_nobody(test: &str) {
    let alone = File::create(std::env::temp_dir().join("oz0-delegated-to-nobody.lock")).unwrap();
    alone.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("cgroup-test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    // It waits until root has handed the folders over and, on version 2, moved it in.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read go && exec \"$0\" --exact \"$1\" --nocapture --test-threads=1"])
        .arg(&program)
        .arg(test)
        .current_dir("/")
        .env_clear()
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    print!("{said}");
}

fn am_root() -> bool {
    geteuid().is_root()
}

/// C082: a kill for memory is told from a crash, with limit and peak.
fn memory_is_held() {
    let place = Place::find().unwrap();
    let hungry = "x = bytearray(256 * 2**20)\nprint(len(x))";

    let control = place.create("test", &memory("1G")).unwrap();
    assert_eq!(output_in(&control, hungry).1, "268435456");
    assert_eq!(hits(&control), []);
    assert!(control.usage().memory_peak.unwrap() > 256 << 20);

    let group = place.create("test", &memory("64M")).unwrap();
    let (status, said) = output_in(&group, hungry);
    assert_eq!((status.signal(), said.as_str()), (Some(9), ""));
    let usage = group.usage();
    assert_eq!((usage.memory_kills, usage.memory_limit), (1, Some(64 << 20)));
    assert!(usage.memory_peak.unwrap() <= 64 << 20 && usage.memory_peak.unwrap() > 48 << 20);
    let hit = &usage.hit(group.limits())[0];
    assert_eq!((hit.value.as_str(), hit.flag()), ("64M", "--memory"));
    group.remove().unwrap();
}

#[test]
fn c082_memory_is_held_as_root() {
    memory_is_held();
}

#[test]
fn c082_memory_is_held_as_nobody() {
    if am_root() {
        return again_as_nobody("c082_memory_is_held_as_nobody");
    }
    memory_is_held();
}

/// C082: the main command exits 0; the kill of what it started is reported all the same.
#[test]
fn c082_a_grandchilds_kill_is_reported_when_the_main_command_exits_0() {
    let place = Place::find().unwrap();
    let group = place.create("test", &memory("64M")).unwrap();
    let program = "import os\npid = os.fork()\nif pid == 0:\n    x = bytearray(256 * 2**20)\n    os._exit(0)\n\
                   print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let (status, said) = output_in(&group, program);
    assert_eq!((status.code(), said.as_str()), (Some(0), "-9"));
    assert_eq!(hits(&group), [Limit::Memory]);
}

/// File cache fills a limit and gives way: nothing was killed, nothing is reported.
#[test]
fn reaching_the_limit_with_file_cache_is_no_hit() {
    let place = Place::find().unwrap();
    let group = place.create("test", &memory("32M")).unwrap();
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    // Written through at each step: what is not on the disk yet cannot give way, and version 1 does not make a
    // writer wait for a slow disk.
    let program = format!(
        "import os\nwith open({:?}, 'wb', buffering=0) as f:\n    for _ in range(96):\n        f.write(bytes(2**20))\n        \
         os.fdatasync(f)\nprint('written')",
        file.path()
    );
    assert_eq!(output_in(&group, &program).1, "written");
    assert!(group.usage().memory_limit_reached, "the control: the limit was reached");
    assert_eq!(hits(&group), []);
}

fn tasks_are_held() {
    let place = Place::find().unwrap();
    let forks = "import os, time\nstarted = 0\nfor _ in range(20):\n    try:\n        pid = os.fork()\n    \
                 except BlockingIOError:\n        continue\n    if pid == 0:\n        time.sleep(60)\n        \
                 os._exit(0)\n    started += 1\n    children = globals().setdefault('children', [])\n    \
                 children.append(pid)\nprint(started)\nfor pid in children:\n    os.kill(pid, 9)\n    os.waitpid(pid, 0)";

    let control = place.create("test", &Limits { processes: 64, ..limits() }).unwrap();
    assert_eq!(output_in(&control, forks).1, "20");
    assert_eq!(hits(&control), []);

    let group = place.create("test", &Limits { processes: 8, ..limits() }).unwrap();
    assert_eq!(output_in(&group, forks).1, "7", "python itself is one of the eight");
    let usage = group.usage();
    assert_eq!(usage.processes_refused, 13);
    assert!(usage.processes_peak.is_none_or(|peak| peak == 8));
    assert_eq!(hits(&group), [Limit::Processes]);
}

#[test]
fn tasks_are_held_as_root() {
    tasks_are_held();
}

#[test]
fn tasks_are_held_as_nobody() {
    if am_root() {
        return again_as_nobody("tasks_are_held_as_nobody");
    }
    tasks_are_held();
}

/// The seconds of CPU that a busy loop gets in a second of the clock.
fn cpu_in_a_second(group: &Group) -> f64 {
    let busy = "import time\nbefore = time.process_time()\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time() - before)";
    output_in(group, busy).1.parse().unwrap()
}

#[test]
fn cpu_is_held_to_its_cap() {
    let place = Place::find().unwrap();
    let capped = Limits { cpu: parse_cpu("0.1").unwrap(), ..limits() };
    let group = place.create("test", &capped).unwrap();
    let used = cpu_in_a_second(&group);
    assert!(used < 0.25, "{used}");
    assert_eq!(hits(&group), [Limit::Cpu]);

    // The control, a few times: other work on this machine takes CPU too.
    let free = place.create("test", &limits()).unwrap();
    let most = (0..5).map(|_| cpu_in_a_second(&free)).fold(0.0, f64::max);
    assert!(most > 0.3 && most > used * 1.5, "{most} and {used} capped");
    assert!(!hits(&free).contains(&Limit::Cpu));
}

/// A child in a new user namespace joins through descriptors that were opened outside.
fn joins_from_a_new_user_namespace() {
    let place = Place::find().unwrap();
    let group = place.create("test", &limits()).unwrap();
    let inherited: Vec<OwnedFd> = group
        .joins()
        .iter()
        .map(|join| {
            let copy = rustix::io::dup(join).unwrap();
            rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
            copy
        })
        .collect();
    let numbers: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let program = format!(
        "import os, sys\nfor fd in {numbers:?}: os.write(fd, b'0')\n\
         print(os.readlink('/proc/self/ns/user'), flush=True)\nsys.stdin.readline()"
    );
    let mut child = Command::new("/usr/bin/unshare")
        .args(["--user", "/usr/bin/python3", "-c", &program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(inherited);
    let mut namespace = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut namespace).unwrap();
    let own = fs::read_link("/proc/self/ns/user").unwrap();
    assert_ne!(namespace.trim(), own.to_str().unwrap(), "the control: it is another namespace");
    assert_eq!(group.members().unwrap(), [i32::try_from(child.id()).unwrap()]);
    let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
    assert_eq!(cgroups.matches(group.name()).count(), group.joins().len(), "{cgroups}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    group.remove().unwrap();
}

#[test]
fn a_child_in_a_new_user_namespace_joins_as_root() {
    joins_from_a_new_user_namespace();
}

#[test]
fn a_child_in_a_new_user_namespace_joins_as_nobody() {
    if am_root() {
        return again_as_nobody("a_child_in_a_new_user_namespace_joins_as_nobody");
    }
    joins_from_a_new_user_namespace();
}

/// C079: nothing is left after a run, removed or dropped.
#[test]
fn c079_remove_and_drop_leave_nothing() {
    let place = Place::find().unwrap();
    let (removed, dropped) =
        (place.create("test", &limits()).unwrap(), place.create("test", &limits()).unwrap());
    let folders = [folders_of(&removed), folders_of(&dropped)].concat();
    assert!(folders.iter().all(|folder| folder.join("cgroup.procs").exists()));
    // Killed a moment ago: still in the kernel when the removal starts.
    let mut child = started_in(&removed, "import time\ntime.sleep(60)");
    child.kill().unwrap();
    removed.remove().unwrap();
    child.wait().unwrap();
    drop(dropped);
    assert!(folders.iter().all(|folder| !folder.exists()));
}

/// A removal that cannot succeed says which processes are in the way, within a bounded time.
#[test]
fn a_busy_group_is_named_with_its_members() {
    let place = Place::find().unwrap();
    let group = place.create("test", &limits()).unwrap();
    let folders = folders_of(&group);
    let mut child = started_in(&group, "import time\ntime.sleep(60)");
    let start = Instant::now();
    let error = group.remove().unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5));
    let pid = i32::try_from(child.id()).unwrap();
    assert!(matches!(error, CgroupError::Busy { ref members, .. } if *members == [pid]), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    for folder in folders.iter().rev() {
        fs::remove_dir(folder).unwrap();
    }
}

/// Not a test of its own: the process that C079's test kills. It makes a group, names it and waits.
const VICTIM: &str = "OZ0_TEST_MAKES_A_GROUP_AND_WAITS";

/// C079: after kill -9 of the maker the next sweep removes what it left, and never a live run's.
#[test]
fn c079_the_sweep_removes_dead_runs_and_keeps_live_ones() {
    let place = Place::find().unwrap();
    let group = place.create("test", &limits()).unwrap();
    if std::env::var_os(VICTIM).is_some() {
        println!("\nmade {}", group.name());
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "c079_the_sweep_removes_dead_runs_and_keeps_live_ones", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let name = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().strip_prefix("made ").map(str::to_owned))
        .unwrap();
    let left: Vec<PathBuf> = place.paths().iter().map(|path| path.join(&name)).collect();
    let exist = || left.iter().filter(|path| path.exists()).count();

    place.sweep(usize::MAX);
    assert_eq!(exist(), left.len(), "its maker lives");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(exist(), left.len(), "the control: kill -9 leaves the folders");
    assert_eq!(place.sweep(0).removed, 0);
    // Another test's sweep may have come first; after this one they are gone either way.
    let swept = place.sweep(usize::MAX);
    assert_eq!(exist(), 0);
    assert!(swept.live >= 1 && folders_of(&group).iter().all(|folder| folder.exists()), "{swept:?}");
    group.remove().unwrap();
}

/// C079: over a thousand runs the count of folders stays what it was.
#[test]
fn c079_a_thousand_groups_leave_no_more_folders() {
    let place = Place::find().unwrap();
    let mine = || {
        let name = format!("thousand.{}.", std::process::id());
        let of = |path: &std::path::Path| {
            let entries = fs::read_dir(path).unwrap();
            entries
                .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&name))
                .count()
        };
        place.paths().into_iter().map(of).sum::<usize>()
    };
    for _ in 0..1000 {
        place.create("thousand", &limits()).unwrap().remove().unwrap();
    }
    assert_eq!(mine(), 0);
    let held = place.create("thousand", &limits()).unwrap();
    assert_eq!(mine(), held.views().len(), "the control: one that lives is counted");
}

/// Limits around the node hold for its runs: root's place lies below them, and on version 1, where the kernel
/// refuses a child a larger cap on CPU, a run's cap is lowered to the one around it.
#[test]
fn root_stays_below_the_limits_around_it() {
    const NAME: &str = "root_stays_below_the_limits_around_it";
    const INSIDE: &str = "OZ0_TEST_BELOW_LIMITS";
    if std::env::var_os(INSIDE).is_some() {
        let place = Place::find().unwrap();
        let group = place.create("test", &Limits { cpu: parse_cpu("4").unwrap(), ..limits() }).unwrap();
        println!("\nanswer: {:?} cpu {}", place.paths(), group.limits().cpu);
        return;
    }
    let outer = Place::find().unwrap();
    if outer.version() == Version::V2 {
        // One tree, whose limits nest by themselves: tests/cgroup_v2.rs looks at where the place lies.
        assert_eq!(outer.paths().len(), 1);
        return;
    }
    let around = outer.create("around", &Limits { cpu: parse_cpu("0.5").unwrap(), ..limits() }).unwrap();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read go && exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(INSIDE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    around.add(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let below: Vec<PathBuf> = folders_of(&around).iter().map(|folder| folder.join("oz0")).collect();
    assert!(said.contains(&format!("answer: {below:?} cpu 0.5")), "{said}");
    for folder in below {
        fs::remove_dir(folder).unwrap();
    }
    around.remove().unwrap();
}

#[test]
fn without_a_delegated_folder_nobody_is_refused_with_the_fix() {
    const NAME: &str = "without_a_delegated_folder_nobody_is_refused_with_the_fix";
    if am_root() {
        // A number that no user has and to whom nothing is ever handed.
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("cgroup-test");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let output = Command::new(&program).args(["--exact", NAME]).uid(65533).gid(65533).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let refusal = Place::find().unwrap_err();
    assert_eq!(refusal.code(), "cgroup-not-delegated");
    let uid = geteuid().as_raw();
    assert!(matches!(refusal, CgroupRefusal::NotDelegated { uid: of, .. } if of == uid));
    assert!(refusal.fix().contains("Delegate=yes") || refusal.fix().contains(&format!("--user {uid}")));
    assert_eq!(cgroup::delegate("nobody", None), Err(DelegationError::NotRoot));
}

/// The user owns what is handed over and nothing around it; doing it twice changes nothing; undo removes it.
#[test]
fn delegation_is_idempotent_and_undone() {
    // A number that no user has: other tests hand folders to nobody.
    const NUMBER: u32 = 65532;
    let user = NUMBER.to_string();
    let first = cgroup::delegate(&user, None).unwrap();
    assert_eq!((first.uid, &first.made), (NUMBER, &first.folders));
    assert_eq!(cgroup::delegate(&user, None).unwrap().made, Vec::<PathBuf>::new());
    let stranger = cgroup::delegate(&user, Some(1));
    assert_eq!(stranger, Err(DelegationError::NotTheirs { pid: 1, uid: NUMBER }));
    for folder in &first.folders {
        let owner =
            |path: &std::path::Path| std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).unwrap());
        assert_eq!((owner(folder), owner(folder.parent().unwrap())), (NUMBER, 0));
    }
    assert_eq!(cgroup::undo(&user).unwrap().len(), first.folders.len());
    assert!(first.folders.iter().all(|folder| !folder.exists()));
    assert_eq!(cgroup::undo(&user).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn names_are_plain_words() {
    let place = Place::find().unwrap();
    for name in ["", "..", "a/b", "a.b", "cgroup.procs", "a b", &"a".repeat(65)] {
        assert_eq!(place.create(name, &limits()).unwrap_err(), CgroupError::Name(name.to_owned()));
    }
    assert!(place.create("self-test", &limits()).is_ok());
}

#[test]
fn what_is_shown_inside_is_the_runs_own_folder() {
    let place = Place::find().unwrap();
    place.prove(&limits()).unwrap();
    let group = place.create("test", &memory("256M")).unwrap();
    for (path, name) in group.views() {
        assert!(path.ends_with(group.name()));
        let version_2 = group.version() == Version::V2;
        assert_eq!(name.as_os_str().is_empty(), version_2, "{name:?}");
    }
    let (memory, _) = &group.views()[0];
    let file = if group.version() == Version::V2 { "memory.max" } else { "memory.limit_in_bytes" };
    assert_eq!(fs::read_to_string(memory.join(file)).unwrap().trim(), "268435456");
}

#[test]
fn a_group_is_frozen_on_version_2_and_says_so_on_version_1() {
    let place = Place::find().unwrap();
    let group = place.create("test", &limits()).unwrap();
    if group.version() == Version::V1 {
        assert_eq!(group.freeze(), Err(CgroupError::NoFreezer));
        assert_eq!(group.thaw(), Err(CgroupError::NoFreezer));
        return;
    }
    let child = started_in(&group, "print('ran')");
    group.freeze().unwrap();
    group.thaw().unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
}

/// The price of a group, for the figures in the docs: printed, and bounded only against gross mistakes.
fn costs(who: &str) {
    let place = Place::find().unwrap();
    let (mut found, mut made, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..200 {
        let start = Instant::now();
        Place::find().unwrap();
        found.push(start.elapsed());
        let start = Instant::now();
        let group = place.create("cost", &limits()).unwrap();
        made.push(start.elapsed());
        let start = Instant::now();
        group.remove().unwrap();
        removed.push(start.elapsed());
    }
    for times in [&mut found, &mut made, &mut removed] {
        times.sort();
    }
    println!(
        "\ncgroup as {who}: find {:?}, create {:?}, remove {:?} (median of 200)",
        found[100], made[100], removed[100]
    );
    assert!(made[100] < Duration::from_millis(20) && removed[100] < Duration::from_millis(20));
}

#[test]
fn the_price_as_root() {
    costs("root");
}

#[test]
fn the_price_as_nobody() {
    if am_root() {
        return again_as_nobody("the_price_as_nobody");
    }
    costs("nobody");
}
