//! The plan of a machine that stays the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use oz0_egress::Allowlist;
use oz0_fleet::{Edition, Features, Psec, Windows};

use super::*;
use crate::backend::psec::contract::Offered;
use crate::backend::psec::spec::Rule;
use crate::backend::psec::survey::Kind;
use crate::environ::Environment;
use crate::limits::Kind as JobKind;
use crate::links::Links;
use crate::policy::{self, Caller, GitAccess};
use crate::protected::{Absent, Entry, How, Repository};

const WORK: &str = r"C:\Users\me\work";
const DATA: &str = r"C:\Users\me\AppData\Local\orchestrator-zero-node";
const BINARY: &str = r"C:\Program Files\Orchestrator Zero\orchestrator-zero-node.exe";

fn policy() -> Policy {
    let mut environment = Environment::default();
    environment.set("Path", r"C:\SDK\bin");
    environment.set("SECRET", "not to be shown");
    Policy {
        work: WORK.into(),
        read: vec![r"c:\sdk".into()],
        write: vec!["D:/cache".into()],
        protect: vec![],
        sockets: vec![],
        git: GitAccess::default(),
        network: policy::Network::Proxy {
            allow: Allowlist::parse(["example.com"]).unwrap(),
            forward: vec![],
        },
        limits: Limits::of(JobKind::Command),
        environment,
        links: Links::Report,
        caller: Caller::default(),
        data_directory: DATA.into(),
        node_binary: BINARY.into(),
        command: vec!["python.exe".into(), "-c".into(), "print(\"a b\")".into()],
    }
}

fn found(path: &str, real: &str, kind: Kind) -> (PathBuf, Place) {
    (path.into(), Place::Found { real: real.into(), kind })
}

fn survey(route: Route) -> Survey {
    Survey {
        windows: Windows {
            build: "26200.9457".parse().ok(),
            edition: Edition::Client,
            psec: Psec::Usable,
            contract: "1.0".parse().ok(),
            features: Some(Features(3)),
        },
        offered: Offered { contract: "1.0".parse().unwrap(), features: Features(3) },
        route,
        processors: 8,
        defaults: WindowsDefaults {
            system_root: r"C:\Windows".into(),
            local_app_data: r"C:\Users\me\AppData\Local".into(),
            machine: vec![("ProgramFiles".into(), r"C:\Program Files".into())],
        },
        runs: r"C:\Users\me\AppData\Local\oz0-runs".into(),
        sockets: r"C:\Users\me\AppData\Local\oz0-runs\1a2b".into(),
        places: BTreeMap::from([
            found(WORK, r"\\?\C:\Users\me\work", Kind::Folder),
            found(r"c:\sdk", r"\\?\C:\SDK", Kind::Folder),
            found("D:/cache", r"\\?\D:\cache", Kind::Folder),
            found(DATA, r"\\?\C:\Users\me\AppData\Local\orchestrator-zero-node", Kind::Folder),
            found(BINARY, BINARY, Kind::File),
        ]),
    }
}

fn protected() -> Protected {
    let entry = |path: &str, rule| Entry { path: path.into(), kind: crate::protected::Kind::Folder, rule };
    let absent = |path: &str, rule| Absent { path: path.into(), rule };
    Protected {
        version: 1,
        roots: vec![r"\\?\C:\Users\me\work".into()],
        read_only: vec![
            entry(r"\\?\C:\Users\me\work\.git\hooks", "git.hooks"),
            entry(r"\\?\C:\Users\me\work\.git\config", "git.config"),
        ],
        pins: vec![],
        absent: vec![
            absent(r"\\?\C:\Users\me\work\.git\commondir", "git.commondir"),
            absent(r"\\?\C:\Users\me\work\.git\objects\info\alternates", "git.alternates"),
            absent(r"\\?\C:\Users\me\work\.vscode\tasks.json", "git.commondir"),
        ],
        repositories: vec![Repository {
            how: How::Root,
            root: Some(r"\\?\C:\Users\me\work".into()),
            git_dir: r"\\?\C:\Users\me\work\.git".into(),
            common_dir: r"\\?\C:\Users\me\work\.git".into(),
            hooks: vec![],
        }],
        enclosing: None,
        problems: vec![],
        cut: false,
        git_hooks: false,
        home: None,
    }
}

fn nothing_protected() -> Protected {
    Protected { read_only: vec![], absent: vec![], repositories: vec![], ..protected() }
}

fn path(text: &str) -> WindowsPath {
    text.parse().unwrap()
}

#[test]
fn the_bridge_routes_plan() {
    let plan = plan(&policy(), &survey(Route::Bridge), &protected()).unwrap();
    insta::assert_snapshot!(plan.to_string());
    insta::assert_json_snapshot!(plan);
}

#[test]
fn the_relay_routes_plan() {
    let plan = plan(&policy(), &survey(Route::Relay), &protected()).unwrap();
    insta::assert_snapshot!(plan.to_string());
    assert_eq!(plan.started(), policy().command);
}

#[test]
fn a_plan_reads_back_and_shows_no_value() {
    for route in [Route::Bridge, Route::Relay] {
        let plan = plan(&policy(), &survey(route), &protected()).unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
        assert!(!json.contains("not to be shown") && !plan.to_string().contains("not to be shown"));
    }
}

/// What each path is to the container.
#[test]
fn grants_protections_and_denials_come_together() {
    let plan = plan(&policy(), &survey(Route::Bridge), &protected()).unwrap();
    let specification = plan.specification(Network::Closed);
    for (text, rule) in [
        (r"C:\Users\me\work\src\main.rs", Rule::ReadWrite),
        (r"C:\Users\me\work\.git\index", Rule::ReadWrite),
        (r"C:\Users\me\work\.git\hooks\pre-commit", Rule::ReadOnly),
        (r"C:\Users\me\work\.git\config", Rule::ReadOnly),
        (r"C:\Users\me\work\.git\commondir", Rule::Deny),
        // Its folder is not there, or it is the look's alone.
        (r"C:\Users\me\work\.vscode\tasks.json", Rule::ReadWrite),
        (r"C:\Users\me\work\.git\objects\info\alternates", Rule::ReadWrite),
        (r"C:\SDK\x", Rule::ReadOnly),
        (r"D:\cache\x", Rule::ReadWrite),
        (r"C:\Users\me\AppData\Local\oz0-runs\1a2b\proxy", Rule::ReadWrite),
        (r"C:\Users\me\AppData\Local\oz0-runs\other\proxy", Rule::Unnamed),
        (r"C:\Users\me\AppData\Local\orchestrator-zero-node\identity\node.key", Rule::Deny),
        (BINARY, Rule::ReadOnly),
        (r"C:\Users\me\.ssh\id_rsa", Rule::Unnamed),
    ] {
        assert_eq!(specification.rule_for(&path(text)), rule, "{text}");
    }
    assert_eq!(plan.job.limits(), policy().limits);
    assert!(plan.ui.is_enough());
}

/// Without the feature nothing is denied, nothing is claimed, and the plan says so.
#[test]
fn without_denials_the_look_says_it() {
    let mut machine = survey(Route::Bridge);
    machine.offered.features = Features(0x2);
    let plan = plan(&policy(), &machine, &protected()).unwrap();
    assert_eq!(plan.files.deny, []);
    assert!(
        plan.notes
            .iter()
            .any(|note| note.starts_with("2 protected paths that do not exist: named by the look")),
        "{:?}",
        plan.notes
    );
}

fn refused(change: impl FnOnce(&mut Policy, &mut Survey)) -> PlanError {
    let (mut policy, mut survey) = (policy(), survey(Route::Bridge));
    change(&mut policy, &mut survey);
    check(&policy, &survey).and_then(|()| plan(&policy, &survey, &nothing_protected()).map(drop)).unwrap_err()
}

fn grant(typed: &'static str, real: &'static str) -> PlanError {
    refused(|policy, survey| {
        policy.read = vec![typed.into()];
        survey.places.extend([found(typed, real, Kind::Folder)]);
    })
}

/// R1.
#[test]
fn the_nodes_own_network_is_refused() {
    let error = refused(|policy, _| policy.network = policy::Network::Host);
    assert_eq!((error.code(), &error), ("share_net", &PlanError::SharedNetwork));
    let error = refused(|policy, _| policy.sockets = vec![r"C:\x.sock".into()]);
    assert_eq!(error.code(), "allow_socket");
}

#[test]
fn grants_that_show_the_data_directory_are_refused() {
    for (typed, real) in [
        (r"C:\Users\me", r"\\?\C:\Users\me"),
        (r"C:\Users\me\AppData\Local", r"\\?\C:\Users\me\AppData\Local"),
        (DATA, r"\\?\C:\Users\ME\appdata\local\Orchestrator-Zero-Node"),
        (r"C:\j", r"\\?\C:\Users\me\AppData\Local\orchestrator-zero-node\identity"),
    ] {
        assert!(matches!(grant(typed, real), PlanError::ReachesData { option: "--read", .. }), "{typed}");
    }
    assert!(matches!(
        grant(r"C:\r", r"C:\Users\me\AppData\Local\oz0-runs\other"),
        PlanError::ReachesRuns { .. }
    ));
    // Another place of the data directory: then the folder around the runs is what is refused.
    let error = refused(|policy, survey| {
        policy.data_directory = r"D:\data".into();
        policy.read = vec![r"C:\Users\me\AppData\Local".into()];
        let local = r"C:\Users\me\AppData\Local";
        survey.places.extend([found(local, local, Kind::Folder)]);
    });
    assert!(matches!(error, PlanError::ReachesRuns { .. }));
    let error = refused(|policy, _| policy.data_directory = r"C:\Users\me\AppData\Local\oz0-runs".into());
    assert!(matches!(error, PlanError::ReachesData { option: "LOCALAPPDATA", .. }), "{error}");
}

/// C022, C044: by whatever name a path is typed, and whatever its final path is.
#[test]
fn c022_c044_paths_that_cannot_be_granted() {
    assert_eq!(grant(r"\\localhost\c$\Users\me\.ssh", r"C:\Users\me\.ssh").code(), "path_form");
    assert_eq!(grant(r"Z:\x", r"\\?\UNC\server\share\x").code(), "path_form");
    assert_eq!(grant(r"C:\x:stream", r"C:\x").code(), "path_form");
    assert_eq!(grant("x", r"C:\x").code(), "path_form");
    let error = refused(|policy, _| policy.read = vec![r"C:\missing".into()]);
    assert_eq!(error.to_string().replace(r"\\", r"\"), r"--read C:\missing: no such file or folder");
    let error = refused(|policy, survey| {
        policy.write = vec![r"C:\closed".into()];
        survey.places.insert(r"C:\closed".into(), Place::Closed("CreateFileW: error 5".into()));
    });
    assert_eq!(error.code(), "path_unreachable");
    let error = refused(|_, survey| survey.places.extend([found(WORK, WORK, Kind::File)]));
    assert_eq!(error.code(), "work_not_a_folder");
}

#[test]
fn roots_and_the_system_are_not_opened_for_writing() {
    let write = |text: &'static str| {
        refused(|policy, survey| {
            policy.write = vec![text.into()];
            survey.places.extend([found(text, text, Kind::Folder)]);
        })
    };
    for text in [r"D:\", r"C:\Windows", r"C:\windows\System32", r"C:\Program Files\x", r"C:\Program Files"] {
        assert_eq!(write(text).code(), "not_granted", "{text}");
    }
    let root = refused(|policy, survey| {
        policy.work = r"C:\".into();
        survey.places.extend([found(r"C:\", r"C:\", Kind::Folder)]);
    });
    assert_eq!(root.code(), "not_granted");
    // For reading a root is no more than itself, and some programs want it.
    let (mut policy, mut survey) = (policy(), survey(Route::Bridge));
    policy.read = vec![r"C:\".into()];
    survey.places.extend([found(r"C:\", r"\\?\C:\", Kind::Folder)]);
    let plan = plan(&policy, &survey, &nothing_protected()).unwrap();
    let specification = plan.specification(Network::Closed);
    assert_eq!(specification.rule_for(&path(r"C:\Users\me\.ssh")), Rule::Unnamed);
    assert!(plan.notes.iter().any(|note| note.contains("the root alone")), "{:?}", plan.notes);
}

/// C019: a junction is resolved once and told.
#[test]
fn c019_what_was_typed_and_what_it_is() {
    let (mut policy, mut survey) = (policy(), survey(Route::Bridge));
    policy.work = r"C:\work\j".into();
    survey.places.extend([found(r"C:\work\j", r"\\?\D:\real", Kind::Folder)]);
    let plan = plan(&policy, &survey, &nothing_protected()).unwrap();
    assert_eq!(plan.start, path(r"D:\real"));
    assert!(plan.notes.iter().any(|note| note.ends_with(r"is D:\real")), "{:?}", plan.notes);
}

#[test]
fn one_place_granted_twice_is_granted_once_or_not_at_all() {
    let (mut policy, mut survey) = (policy(), survey(Route::Bridge));
    policy.read = vec![r"c:\sdk".into(), r"C:\SDK\.".into()];
    survey.places.extend([found(r"C:\SDK\.", r"\\?\C:\SDK", Kind::Folder)]);
    let plan = plan(&policy, &survey, &nothing_protected()).unwrap();
    assert_eq!(plan.files.read_only.iter().filter(|entry| **entry == path(r"C:\SDK")).count(), 1);
    let error = refused(|policy, survey| {
        policy.write = vec![r"C:\SDK\.".into()];
        survey.places.extend([found(r"C:\SDK\.", r"\\?\C:\SDK", Kind::Folder)]);
    });
    assert_eq!(error.code(), "contradiction");
}

#[test]
fn what_no_command_line_or_socket_takes_is_refused() {
    let error = refused(|policy, _| policy.command = vec!["build.cmd".into(), "x".into()]);
    assert_eq!(error.code(), "command_line");
    let error = refused(|_, survey| survey.sockets = format!(r"C:\{}\1a2b", "x".repeat(100)).into());
    assert_eq!(error.code(), "socket_too_long");
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = std::ffi::OsString::from_vec(b"\xff".to_vec());
        let error = refused(|policy, _| policy.command.push(odd));
        assert_eq!(error, PlanError::NotUnicode(3));
    }
}

/// A protected path that cannot be said is not left out.
#[test]
fn a_protected_path_that_cannot_be_held_stops_the_run() {
    let mut protected = protected();
    protected.read_only[0].path = r"\\server\share\.git\hooks".into();
    let error = plan(&policy(), &survey(Route::Bridge), &protected).unwrap_err();
    assert_eq!(error.code(), "protected");
}
