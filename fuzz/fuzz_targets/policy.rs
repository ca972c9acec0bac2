//! What is typed and what is handed to another process, up to the plan: limits, variables, a policy's JSON, and the
//! plan for a machine that stays the same. No bytes panic, what is read prints as itself, and no plan opens for
//! writing what the policy does not name, or shows the node's data directory.
#![no_main]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use oz0_egress::Allowlist;
use oz0_sandbox::backend::linux::plan::{Plan, Step, plan};
use oz0_sandbox::backend::linux::survey::{EtcEntry, FailureKind, Kind, Mount, Place, Root, Survey};
use oz0_sandbox::environ::{Environment, NODE_PREFIX};
use oz0_sandbox::limits::{self, Kind as Job, Limits};
use oz0_sandbox::links::Links;
use oz0_sandbox::policy::{Access, Caller, GitAccess, Network, Policy, absolute};
use oz0_sandbox::protected::{Entry, Kind as EntryKind, Pin, PinKind, Protected};

const WORK: &str = "/home/u/work";
const DATA: &str = "/home/u/.local/share/oz0-node";
/// Another name of the home folder.
const ALIAS: &str = "/srv/alias";

fuzz_target!(|bytes: &[u8]| {
    json(bytes);
    let policy = typed(bytes);
    let survey = survey(&policy);
    let Ok(plan) = plan(&policy, &survey, &protected()) else { return };
    check(&plan, &policy, &survey);
});

/// A policy as another process would hand it over.
fn json(bytes: &[u8]) {
    let Ok(policy) = serde_json::from_slice::<Policy>(bytes) else { return };
    let _ = policy.validate();
    let text = serde_json::to_string(&policy).expect("a policy is JSON");
    let again: Policy = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(serde_json::to_string(&again).expect("a policy is JSON"), text);
}

/// A policy as it is typed: an option's letter and its value a line.
fn typed(bytes: &[u8]) -> Policy {
    let mut policy = Policy {
        work: WORK.into(),
        read: vec![],
        write: vec![],
        protect: vec![],
        sockets: vec![],
        git: GitAccess::default(),
        network: Network::Proxy { allow: Allowlist::default(), forward: vec![] },
        limits: Limits::of(Job::Command),
        environment: Environment::default(),
        links: Links::Report,
        caller: Caller::default(),
        data_directory: DATA.into(),
        node_binary: "/usr/bin/oz0-node".into(),
        command: vec!["true".into()],
    };
    for line in bytes.split(|byte| *byte == b'\n').take(16) {
        let Some((option, value)) = line.split_first() else { continue };
        let path = || absolute(Path::new(WORK), Path::new(OsStr::from_bytes(value)));
        let text = std::str::from_utf8(value).unwrap_or_default();
        match option {
            b'd' => policy.work = path(),
            b'r' => policy.read.push(path()),
            b'w' => policy.write.push(path()),
            b's' => policy.sockets.push(path()),
            b'e' => variable(&mut policy.environment, OsStr::from_bytes(value)),
            _ => limit(text, &mut policy.limits),
        }
    }
    let _ = policy.validate();
    policy
}

fn variable(environment: &mut Environment, word: &OsStr) {
    let before = environment.names().len();
    if environment.add(word, |_| None).is_err() {
        assert_eq!(environment.names().len(), before);
        return;
    }
    for name in environment.names() {
        let name = name.to_string_lossy();
        assert!(!name.is_empty() && !name.contains('=') && !name.starts_with(NODE_PREFIX), "{name}");
        let proxys = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
        assert!(!proxys.iter().any(|own| *own == name || own.to_lowercase() == name), "{name}");
    }
}

/// What is read as a limit shows in a form that reads back to the same.
fn limit(text: &str, limits: &mut Limits) {
    if let Ok(memory) = limits::parse_memory(text) {
        assert_eq!(limits::parse_memory(&limits::show_memory(memory)), Ok(memory));
        assert!((Limits::LEAST_MEMORY..=Limits::MOST_MEMORY).contains(&memory));
        limits.memory = memory;
    }
    if let Ok(cpu) = limits::parse_cpu(text) {
        assert_eq!(limits::parse_cpu(&cpu.to_string()), Ok(cpu));
        limits.cpu = cpu;
    }
    if let Ok(processes) = limits::parse_processes(text) {
        assert_eq!(limits::parse_processes(&processes.to_string()), Ok(processes));
        limits.processes = processes;
    }
    if let Ok(time) = limits::parse_duration(text) {
        assert_eq!(limits::parse_duration(&limits::show_duration(time)), Ok(time));
        limits.timeout = Some(time);
    }
    let written = serde_json::to_string(limits).expect("limits are JSON");
    assert_eq!(serde_json::from_str::<Limits>(&written).ok().as_ref(), Some(&*limits));
}

/// The same machine every time. What a path is there follows from its last letter.
fn survey(policy: &Policy) -> Survey {
    let mount = |device: &str, root: &str, point: &str| Mount {
        device: device.into(),
        root: root.into(),
        point: point.into(),
    };
    let mut places = BTreeMap::new();
    let grants = policy.grants().map(|(_, _, path)| path.to_owned());
    for path in grants.chain(policy.sockets.clone()).chain([DATA.into(), "/usr/bin/oz0-node".into()]) {
        let place = place(&path);
        places.insert(path, place);
    }
    Survey {
        uid: 1000,
        gid: 1000,
        user: "u".into(),
        group: "u".into(),
        roots: vec![("/usr".into(), Root::Folder), ("/bin".into(), Root::Link("usr/bin".into()))],
        etc: vec![
            ("/etc/ssl/certs".into(), EtcEntry::Folder),
            ("/etc/services".into(), EtcEntry::Copy("/etc/services".into())),
        ],
        places,
        mounts: vec![mount("8:1", "/", "/"), mount("8:1", "/home/u", ALIAS)],
        sockets: vec!["/home/u/work/s".into(), "/run/docker.sock".into()],
        landlock: Some(6),
        terminal: false,
    }
}

fn place(path: &Path) -> Place {
    let mut real = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => real.push(name),
            Component::ParentDir => drop(real.pop()),
            _ => {}
        }
    }
    let kind = match real.as_os_str().as_bytes().last() {
        Some(b'!') => return Place::Failed { error: FailureKind::Missing, at: real },
        Some(b'~') => return Place::Failed { error: FailureKind::Loop, at: real },
        Some(b'f') => Kind::File,
        Some(b's') => Kind::Socket,
        Some(b'b') => Kind::BlockDevice,
        Some(b'l') => Kind::CharacterDevice,
        _ => Kind::Folder,
    };
    Place::Found { real, kind, links: vec![], is_link: false, identity: (1, 1) }
}

fn protected() -> Protected {
    let inside = |path: &str| Path::new(WORK).join(path);
    Protected {
        version: 1,
        roots: vec![WORK.into()],
        read_only: vec![
            Entry { path: inside(".git/config"), kind: EntryKind::File, rule: "git.config" },
            Entry { path: inside(".git/hooks"), kind: EntryKind::Folder, rule: "git.hooks" },
        ],
        pins: vec![Pin { path: inside(".git"), kind: PinKind::Folder }],
        absent: vec![],
        repositories: vec![],
        enclosing: None,
        problems: vec![],
        cut: false,
        git_hooks: false,
        home: None,
    }
}

fn check(plan: &Plan, policy: &Policy, survey: &Survey) {
    let text = serde_json::to_string(plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(serde_json::to_string(&again).expect("a plan is JSON"), text);
    assert!(plan.to_string().lines().all(|line| !line.contains(|letter: char| letter.is_control())));

    let real = |path: &Path| match survey.places.get(path) {
        Some(Place::Found { real, .. }) => real.clone(),
        _ => unreachable!("a plan with a path that is not there"),
    };
    let named: Vec<PathBuf> = policy
        .grants()
        .filter(|(_, access, _)| *access == Access::Write)
        .map(|(_, _, path)| real(path))
        .chain(policy.sockets.iter().map(|path| real(path)))
        .collect();
    let mut bound: Vec<&Path> = vec![];
    for step in &plan.tree {
        match step {
            Step::Folder { path, .. } | Step::File { path, .. } | Step::Link { path, .. } => {
                assert!(bound.iter().all(|outer| !path.starts_with(outer)), "made in the host's folder: {step:?}");
            }
            Step::Bind { source, target, access, devices, .. } => {
                bound.push(target);
                if *devices {
                    assert!(source.starts_with("/dev"));
                    continue;
                }
                assert!(!["/proc", "/sys", "/dev"].iter().any(|own| target.starts_with(own)), "{step:?}");
                assert_eq!(survey.reaches(source, Path::new(DATA)), None, "shows the data directory: {step:?}");
                if *access == Access::Write {
                    assert!(named.contains(source), "not named by the policy: {step:?}");
                    assert!(!["/", "/usr", "/etc", "/bin", "/var"].iter().any(|part| Path::new(part) == source));
                }
            }
            _ => {}
        }
    }
    let writes_git = named.iter().any(|path| Path::new(WORK).join(".git/hooks").starts_with(path));
    let held = |name: &str| {
        let path = Path::new(WORK).join(name);
        plan.tree.iter().any(|step| matches!(step, Step::Protect { path: held, .. } if *held == path))
    };
    assert!(!writes_git || (held(".git/hooks") && held(".git/config")), "{plan}");
    assert_eq!(plan.tree.last(), Some(&Step::Seal));
    assert!(plan.filter && plan.drop_privileges && plan.cgroup.is_some());
}
