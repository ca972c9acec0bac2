//! The plan of a machine that stays the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oz0_egress::Allowlist;
use proptest::prelude::*;

use super::tree::is_below;
use super::*;
use crate::backend::linux::survey::{EtcEntry, Mount, Place, Root};
use crate::environ::Environment;
use crate::limits::Kind as JobKind;
use crate::links::Links;
use crate::policy::{Caller, GitAccess};
use crate::protected::{Entry, Pin, PinKind};

fn policy() -> Policy {
    Policy {
        work: "/home/u/work".into(),
        read: vec![],
        write: vec![],
        protect: vec![],
        sockets: vec![],
        git: GitAccess::default(),
        network: Network::Proxy { allow: Allowlist::parse(["example.com"]).unwrap(), forward: vec![] },
        limits: Limits::of(JobKind::Command),
        environment: Environment::default(),
        links: Links::Report,
        caller: Caller::default(),
        data_directory: "/home/u/.local/share/oz0-node".into(),
        node_binary: "/usr/bin/oz0-node".into(),
        command: vec!["true".into()],
    }
}

fn found(path: &str, kind: Kind) -> (PathBuf, Place) {
    let place = Place::Found { real: path.into(), kind, links: vec![], is_link: false, identity: (1, 1) };
    (path.into(), place)
}

fn survey() -> Survey {
    let mount = |device: &str, root: &str, point: &str| Mount {
        device: device.into(),
        root: root.into(),
        point: point.into(),
    };
    Survey {
        uid: 1000,
        gid: 1000,
        user: "u".into(),
        group: "u".into(),
        roots: vec![
            ("/usr".into(), Root::Folder),
            ("/bin".into(), Root::Link("usr/bin".into())),
            ("/lib64".into(), Root::Link("usr/lib64".into())),
            ("/opt".into(), Root::Folder),
        ],
        etc: vec![
            ("/etc/ld.so.cache".into(), EtcEntry::File),
            ("/etc/ssl/certs".into(), EtcEntry::Folder),
            ("/etc/localtime".into(), EtcEntry::Link("/usr/share/zoneinfo/UTC".into())),
            ("/etc/services".into(), EtcEntry::Copy("/etc/services".into())),
        ],
        places: BTreeMap::from([
            found("/home/u/work", Kind::Folder),
            found("/usr/bin/oz0-node", Kind::File),
            found("/home/u/.local/share/oz0-node", Kind::Folder),
        ]),
        mounts: vec![mount("8:1", "/", "/"), mount("8:2", "/", "/opt")],
        sockets: vec![],
        landlock: Some(7),
        terminal: false,
    }
}

fn nothing_protected() -> Protected {
    Protected {
        version: 1,
        roots: vec![],
        read_only: vec![],
        pins: vec![],
        absent: vec![],
        repositories: vec![],
        enclosing: None,
        problems: vec![],
        cut: false,
        git_hooks: false,
        home: None,
    }
}

fn planned(policy: &Policy, survey: &Survey) -> Result<Plan, PlanError> {
    plan(policy, survey, &nothing_protected())
}

#[test]
fn the_plan_of_a_plain_run() {
    insta::assert_snapshot!(planned(&policy(), &survey()).unwrap().to_string());
}

#[test]
fn a_plan_survives_the_way_to_another_process() {
    let plan = planned(&policy(), &survey()).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    let back: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}

/// Each mount is a part of the start-up that every run waits for.
#[test]
fn the_default_plan_makes_at_most_24_mounts() {
    let plan = planned(&policy(), &survey()).unwrap();
    let mounts: usize = plan.tree.iter().map(Step::mounts).sum::<usize>() + 1;
    assert!(mounts <= 24, "{mounts} mounts:\n{plan}");
}

#[test]
fn a_protected_repository_is_pinned_out_of_sight() {
    let mut protected = nothing_protected();
    protected.read_only = vec![
        Entry {
            path: "/home/u/work/.git/config".into(),
            kind: crate::protected::Kind::File,
            rule: "git-config",
        },
        Entry {
            path: "/home/u/work/.git/hooks".into(),
            kind: crate::protected::Kind::Folder,
            rule: "git-hooks",
        },
    ];
    protected.pins = vec![Pin { path: "/home/u/work/.git".into(), kind: PinKind::Folder }];
    let plan = plan(&policy(), &survey(), &protected).unwrap();
    let steps: Vec<String> = plan.to_string().lines().map(str::trim).map(str::to_owned).collect();
    let place =
        |line: &str| steps.iter().position(|step| step == line).unwrap_or_else(|| panic!("no {line}"));
    let write = place("write     /home/u/work");
    let pin = place("pin       below /home/u/work: .git");
    let protect = place("protect   /home/u/work/.git/config");
    let cover = place("close     /.oz0");
    assert!(write < pin && pin < protect && protect < cover);
}

fn with_places(places: &[(&str, Kind)]) -> Survey {
    let mut survey = survey();
    survey.places.extend(places.iter().map(|(path, kind)| found(path, *kind)));
    survey
}

#[test]
fn grants_that_cannot_be_are_refused_by_name() {
    let places = with_places(&[
        ("/", Kind::Folder),
        ("/etc", Kind::Folder),
        ("/usr", Kind::Folder),
        ("/proc/1", Kind::Folder),
        ("/dev/sda", Kind::BlockDevice),
        ("/dev/kvm", Kind::CharacterDevice),
        ("/home/u", Kind::Folder),
        ("/home/u/.local/share/oz0-node/identity", Kind::Folder),
        ("/run/x.sock", Kind::Socket),
    ]);
    for (write, path, words) in [
        (false, "/", "the whole machine"),
        (false, "/etc", "password files and keys"),
        (true, "/usr", "part of the system"),
        (true, "/proc/1", "makes /proc"),
        (false, "/dev/sda", "a block device"),
        (false, "/dev/kvm", "a device"),
        (false, "/home/u", "contains the node's data directory"),
        (false, "/home/u/.local/share/oz0-node/identity", "contains the node's data directory"),
        (false, "/run/x.sock", "--allow-socket"),
        (false, "/none", "no such file or folder"),
    ] {
        let mut policy = policy();
        if write {
            policy.write.push(path.into())
        } else {
            policy.read.push(path.into())
        }
        let error = planned(&policy, &places).unwrap_err().to_string();
        let option = if write { "--write" } else { "--read" };
        assert!(error.contains(words) && error.starts_with(option), "{path}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn a_bind_alias_of_the_data_directory_is_refused_or_hidden() {
    let mut places = with_places(&[("/srv", Kind::Folder)]);
    let alias =
        |point: &str| Mount { device: "8:1".into(), root: "/home/u/.local".into(), point: point.into() };
    places.mounts.push(alias("/srv/deep/alias"));
    let mut policy = policy();
    policy.read.push("/srv".into());
    let error = planned(&policy, &places).unwrap_err().to_string();
    assert!(error.contains("/srv/deep/alias/share/oz0-node"), "{error}");
    // Below a folder that every run sees it is covered instead.
    let mut places = survey();
    places.mounts.push(alias("/usr/local/alias"));
    let plan = planned(&self::policy(), &places).unwrap();
    let hidden = Step::Hide { path: "/usr/local/alias/share/oz0-node".into(), folder: true };
    assert!(plan.tree.contains(&hidden), "{plan}");
}

#[test]
fn powerful_sockets_must_be_asked_for_and_others_are_closed() {
    let mut places = with_places(&[("/srv", Kind::Folder), ("/srv/docker.sock", Kind::Socket)]);
    places.sockets = vec!["/srv/docker.sock".into(), "/srv/app.sock".into()];
    let mut policy = policy();
    policy.read.push("/srv".into());
    let error = planned(&policy, &places).unwrap_err().to_string();
    assert!(error.contains("--allow-socket /srv/docker.sock"), "{error}");
    policy.sockets.push("/srv/docker.sock".into());
    let plan = planned(&policy, &places).unwrap();
    assert!(plan.tree.contains(&Step::Hide { path: "/srv/app.sock".into(), folder: false }), "{plan}");
    assert!(!plan.tree.contains(&Step::Hide { path: "/srv/docker.sock".into(), folder: false }), "{plan}");
}

/// The access of the deepest bind that holds a path.
fn effective(plan: &Plan, path: &str) -> Option<Access> {
    let holds = |step: &Step| match step {
        Step::Bind { target, access, .. } if Path::new(path).starts_with(target) => Some(*access),
        _ => None,
    };
    plan.tree.iter().rev().find_map(holds)
}

proptest! {
    /// C001: the most specific path wins, in whatever order the grants stand.
    #[test]
    fn the_most_specific_grant_wins(order in Just(vec![0usize, 1, 2, 3]).prop_shuffle()) {
        let grants = [("/srv/t", false), ("/srv/t/ws/deep", false), ("/srv/t/ws", true), ("/srv/t/ws/deep/out", true)];
        let survey = with_places(&grants.map(|(path, _)| (path, Kind::Folder)));
        let mut policy = policy();
        for place in order {
            let (path, write) = grants[place];
            if write { policy.write.push(path.into()) } else { policy.read.push(path.into()) }
        }
        let plan = planned(&policy, &survey).unwrap();
        prop_assert_eq!(effective(&plan, "/srv/t/x"), Some(Access::Read));
        prop_assert_eq!(effective(&plan, "/srv/t/ws/x"), Some(Access::Write));
        prop_assert_eq!(effective(&plan, "/srv/t/ws/deep/x"), Some(Access::Read));
        prop_assert_eq!(effective(&plan, "/srv/t/ws/deep/out/x"), Some(Access::Write));
        prop_assert_eq!(effective(&plan, "/srv/other"), None);
    }

    /// Whatever is granted: a mount point is made before what is mounted on it, nothing is made twice, nothing in a
    /// host's folder, and the last step seals.
    #[test]
    fn every_mount_point_is_there_in_time(
        paths in proptest::collection::btree_set("/(srv|home/u/work|tmp|opt|run|var/tmp|var/run)(/[ab]){1,4}", 0..6),
        write in any::<bool>(),
    ) {
        let kinds: Vec<(&str, Kind)> = paths.iter().map(|path| (path.as_str(), Kind::Folder)).collect();
        let survey = with_places(&kinds);
        let mut policy = policy();
        let list = paths.iter().map(PathBuf::from).collect();
        if write { policy.write = list } else { policy.read = list }
        let plan = planned(&policy, &survey).unwrap();
        let mut made: Vec<&Path> = vec![Path::new("/")];
        let mut bound: Vec<&Path> = vec![];
        let mut links: Vec<&Path> = vec![];
        for step in &plan.tree {
            match step {
                Step::Folder { path, .. }
                | Step::File { path, .. }
                | Step::Copy { path, .. }
                | Step::Link { path, .. } => {
                    prop_assert!(bound.is_empty(), "made after a mount: {step:?}");
                    prop_assert!(made.contains(&path.parent().unwrap()), "no parent: {step:?}");
                    prop_assert!(!made.contains(&path.as_path()), "twice: {step:?}");
                    prop_assert!(!links.contains(&path.parent().unwrap()), "through a link: {step:?}");
                    if matches!(step, Step::Link { .. }) {
                        links.push(path);
                    }
                    made.push(path);
                }
                Step::Bind { target, .. } => {
                    let there = made.contains(&target.as_path())
                        || bound.iter().any(|outer| target.starts_with(outer));
                    prop_assert!(there, "nothing to mount on: {step:?}");
                    bound.push(target);
                }
                _ => {}
            }
        }
        prop_assert_eq!(plan.tree.last(), Some(&Step::Seal));
    }

    #[test]
    fn below_is_what_path_says(path in "(/[ab]{1,2}){0,4}", outer in "(/[ab]{1,2}){0,4}") {
        let (path, outer) = (PathBuf::from(format!("/{}", path.trim_start_matches('/'))), PathBuf::from(format!("/{}", outer.trim_start_matches('/'))));
        prop_assert_eq!(is_below(&path, &outer), path != outer && path.starts_with(&outer));
    }
}
