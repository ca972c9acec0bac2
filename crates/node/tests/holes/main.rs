//! A check that has never been seen to fail proves nothing. Here every property is broken in at least one way,
//! in the plan or in the launcher, and the self-test must name exactly that property: what comes before it holds,
//! it does not. Run as the tests' own user and, from root, as `nobody`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is the report of a test")]

mod launchers;
mod nobody;
mod plans;

use std::fs;
use std::path::{Path, PathBuf};

use oz0_fleet::Property;
use oz0_sandbox::backend::linux::Linux;
use oz0_sandbox::selftest::{self, Finding, Lab, Launcher, Node, Staged, Verdict};

/// A node with a data directory and a key, and its binary where `nobody` can run it.
struct World {
    folder: tempfile::TempDir,
    node: Node,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("node");
        fs::create_dir_all(data.join("identity")).unwrap();
        fs::write(data.join("identity/node.key"), "a key").unwrap();
        let node =
            Node { binary: nobody::binary(), data_directory: data, temporary: folder.path().to_owned() };
        World { folder, node }
    }

    /// A program to be launched in the binary's place.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.path().join(name);
        let text = text.replace("NODE", self.node.binary.to_str().unwrap());
        fs::write(&path, text.replace("FOLDER", self.folder.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn look(&self, launcher: &dyn Launcher, only: Option<Property>) -> Vec<Finding> {
        let lab = Lab::new(launcher, &self.node).unwrap();
        selftest::run(&lab, only, |_| {})
    }
}

/// The self-test names exactly this property, as seen broken.
fn names(property: Property, hole: &str, findings: &[Finding]) {
    let (last, before) = findings.split_last().unwrap();
    for finding in before {
        assert!(finding.verdict.holds(), "{hole}: {finding}");
    }
    assert_eq!(last.property, property, "{hole}: {last}");
    assert!(matches!(last.verdict, Verdict::Broken(_) | Verdict::Undecided(_)), "{hole}: {last}");
    // On a machine that is too busy a cap on CPU cannot be told, which is said; everything else is seen.
    if !last.to_string().contains("too busy") {
        assert!(matches!(last.verdict, Verdict::Broken(_)), "{hole}: {last}");
    }
    println!("{hole}\n    {last}");
}

/// Every hole that this user can make.
fn every_hole_is_named() {
    let world = World::new();
    let mut met = Vec::new();
    let mut holes = plans::holes(&world.node);
    if rustix::process::geteuid().is_root() {
        holes.extend(plans::holes_for_root());
    }
    for hole in holes {
        let backend = Linux;
        let launcher = Staged::new(&backend, &world.node.binary).changed(&hole.change);
        names(hole.property, hole.name, &world.look(&launcher, None));
        met.push(hole.property);
    }
    met.extend(launchers::every_hole_is_named(&world));
    for property in Property::ALL {
        assert!(met.contains(&property), "no hole breaks {property}");
    }
}

#[test]
fn every_hole_is_named_as_root() {
    assert!(rustix::process::geteuid().is_root(), "these tests are run by root, as CI does");
    every_hole_is_named();
}

#[test]
fn every_hole_is_named_as_nobody() {
    if nobody::is_this() {
        return every_hole_is_named();
    }
    nobody::again("every_hole_is_named_as_nobody");
}

/// Where nothing confines, nothing holds: each check on its own, so that none of them leans on another.
#[test]
fn without_a_sandbox_none_of_the_eight_holds() {
    let world = World::new();
    for property in Property::ALL {
        let findings = world.look(&launchers::Bare, Some(property));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(!finding.verdict.holds(), "{finding}");
        println!("{finding}");
    }
}

/// And where nothing starts, nothing holds either.
#[test]
fn a_launcher_that_starts_nothing_passes_no_check() {
    let world = World::new();
    let nothing = world.script("nothing", "#!/bin/sh\nexit 0\n");
    let backend = Linux;
    for property in Property::ALL {
        let findings = world.look(&Staged::new(&backend, &nothing), Some(property));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(!finding.verdict.holds(), "{finding}");
    }
}

/// The lab leaves nothing behind.
#[test]
fn the_temporary_folder_is_removed() {
    let world = World::new();
    let backend = Linux;
    world.look(&Staged::new(&backend, &world.node.binary), Some(Property::Launch));
    let left: Vec<PathBuf> =
        fs::read_dir(&world.node.temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [Path::new(&world.node.data_directory)]);
}
