//! Links that lead out of a workspace, on real folders.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use oz0_sandbox::links::{Cut, Findings, Links, LinksError, left, scan};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// Longest look after a run, here.
const LOOK: std::time::Duration = std::time::Duration::from_millis(250);

struct Place {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("w/deep/er")).unwrap();
        fs::create_dir_all(root.join("outside")).unwrap();
        fs::write(root.join("outside/file"), "x").unwrap();
        Self { _folder: folder, root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    fn scan(&self, roots: &[&str]) -> Findings {
        let roots: Vec<PathBuf> = roots.iter().map(|root| self.path(root)).collect();
        scan(&roots, Links::Refuse, &AtomicBool::new(false))
    }
}

/// C044: a second name outside of a file in the workspace, made before the run.
#[test]
fn c044_a_hard_link_with_a_name_outside() {
    let place = Place::new();
    fs::hard_link(place.path("outside/file"), place.path("w/deep/link")).unwrap();
    fs::write(place.path("w/one"), "").unwrap();
    fs::hard_link(place.path("w/one"), place.path("w/deep/er/two")).unwrap();
    let findings = place.scan(&["w"]);
    assert_eq!((findings.hard_links_in_all, findings.cut.as_ref()), (1, None));
    let shared = &findings.hard_links[0];
    assert_eq!((shared.path.as_path(), shared.names, shared.inside), (&*place.path("w/deep/link"), 2, 1));
    let error = findings.refuse().unwrap_err();
    assert!(error.to_string().starts_with("1 files in the workspace have other names outside"), "{error}");
    // With all names in reach of the run there is nothing to name, and a name is counted once.
    for roots in [&["w", "outside"][..], &["w", "w/deep", "outside"]] {
        let findings = place.scan(roots);
        assert_eq!(findings.hard_links, []);
        findings.refuse().unwrap();
    }
}

/// C044, C043: symlinks that leave, by any part of their way; those that stay are none.
#[test]
fn c044_symlinks_that_leave() {
    let place = Place::new();
    for (target, name) in [
        ("../outside/file", "w/relative"),
        ("/etc/passwd", "w/absolute"),
        ("../../gone", "w/deep/er/stays-dangling"),
        ("relative", "w/over-another"),
        ("deep/er/../../../outside", "w/through"),
        ("deep/er", "w/stays"),
        ("missing", "w/stays-dangling"),
        ("../stays/../er", "w/deep/stays-too"),
    ] {
        symlink(target, place.path(name)).unwrap();
    }
    symlink(place.path("w/deep"), place.path("w/stays-absolute")).unwrap();
    let findings = place.scan(&["w"]);
    let named: Vec<&Path> =
        findings.symlinks.iter().map(|link| link.path.strip_prefix(&place.root).unwrap()).collect();
    let expected = ["w/absolute", "w/over-another", "w/relative", "w/through"].map(Path::new);
    assert_eq!(named, expected);
    assert_eq!(findings.symlinks[2].target, place.path("outside/file"));
    assert_eq!(findings.symlinks_in_all, 4);
    assert!(matches!(findings.refuse(), Err(LinksError::Leaving { symlinks: 4, hard_links: 0, .. })));
}

#[test]
fn a_dangling_link_that_leaves_is_named_too() {
    let place = Place::new();
    symlink("../../gone/deep", place.path("w/deep/er/inside")).unwrap();
    assert_eq!(place.scan(&["w"]).symlinks_in_all, 0);
    symlink("../../../gone", place.path("w/deep/er/out")).unwrap();
    assert_eq!(place.scan(&["w"]).symlinks_in_all, 1);
}

#[test]
fn nothing_is_entered_through_a_link_and_circles_end() {
    let place = Place::new();
    symlink("..", place.path("w/deep/up")).unwrap();
    symlink("../outside", place.path("w/out")).unwrap();
    symlink("loop", place.path("w/loop")).unwrap();
    fs::hard_link(place.path("outside/file"), place.path("outside/file2")).unwrap();
    let findings = place.scan(&["w"]);
    assert_eq!(findings.looked_at, 5);
    assert_eq!((findings.hard_links_in_all, findings.symlinks_in_all), (0, 1));
}

#[test]
fn an_incomplete_scan_refuses() {
    let place = Place::new();
    let roots = [place.path("w")];
    let cancelled = scan(&roots, Links::Report, &AtomicBool::new(true));
    assert_eq!(cancelled.cut, Some(Cut::Cancelled));
    assert!(matches!(cancelled.refuse(), Err(LinksError::Incomplete(Cut::Cancelled))));
    let gone = place.scan(&["nowhere"]);
    assert_eq!(gone.cut, Some(Cut::Unreadable(place.path("nowhere"))));
    assert!(gone.refuse().unwrap_err().to_string().contains("cannot be read"));
}

/// As an ordinary user a folder without permissions hides what is in it: said, not passed over.
#[test]
fn a_closed_folder_is_said_to_an_ordinary_user() {
    let place = Place::new();
    fs::set_permissions(place.path("w/deep"), fs::Permissions::from_mode(0o000)).unwrap();
    for folder in [place.root.clone(), place.path("w")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Only the thread's own identity for files changes, and it ends with the thread.
    let roots = [place.path("w")];
    let findings = std::thread::spawn(move || {
        use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
        if rustix::process::geteuid().is_root() {
            set_thread_res_gid(Gid::from_raw(65534), Gid::from_raw(65534), Gid::from_raw(65534)).unwrap();
            set_thread_res_uid(Uid::from_raw(65534), Uid::from_raw(65534), Uid::from_raw(65534)).unwrap();
        }
        scan(&roots, Links::Refuse, &AtomicBool::new(false))
    })
    .join()
    .unwrap();
    fs::set_permissions(place.path("w/deep"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(findings.cut, Some(Cut::Unreadable(place.path("w/deep"))));
}

#[test]
fn off_looks_at_nothing() {
    let place = Place::new();
    symlink("/etc/passwd", place.path("w/link")).unwrap();
    assert_eq!(scan(&[place.path("w")], Links::Off, &AtomicBool::new(false)), Findings::default());
}

#[test]
fn links_left_behind_are_told_from_those_that_were_there() {
    let place = Place::new();
    let roots = [place.path("w")];
    symlink("/etc/passwd", place.path("w/old")).unwrap();
    symlink("../../outside", place.path("w/deep/er/fine")).unwrap();
    let before = scan(&roots, Links::Report, &AtomicBool::new(false));
    std::thread::sleep(Duration::from_millis(30));
    let since = SystemTime::now();
    assert_eq!(left(&roots, &before, since, LOOK).symlinks, []);
    symlink("/etc/shadow", place.path("w/new")).unwrap();
    // Moving its folder up makes an old link leave.
    fs::rename(place.path("w/deep/er"), place.path("w/er")).unwrap();
    let names = |findings: Findings| -> Vec<PathBuf> {
        findings
            .symlinks
            .into_iter()
            .map(|link| link.path.strip_prefix(&place.root).unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(left(&roots, &before, since, LOOK)), [Path::new("w/er/fine"), Path::new("w/new")]);
    // When the scan beside the run was cut, the change time alone decides.
    let cut = Findings { cut: Some(Cut::Time), ..before };
    assert_eq!(names(left(&roots, &cut, since, LOOK)), [Path::new("w/new")]);
}

#[test]
fn lists_are_bounded_and_numbers_are_not() {
    let place = Place::new();
    for number in 0..2000 {
        symlink("/etc", place.path(&format!("w/{number:04}"))).unwrap();
    }
    let findings = place.scan(&["w"]);
    assert_eq!((findings.symlinks_in_all, findings.symlinks.len()), (2000, 100));
    assert_eq!(findings.symlinks[99].path, place.path("w/0099"));
}

#[test]
fn a_very_deep_folder_is_scanned_or_said() {
    let place = Place::new();
    let mut path = place.path("w");
    for _ in 0..900 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    symlink("/etc", path.join("link")).unwrap();
    let findings = place.scan(&["w"]);
    assert_eq!((findings.symlinks_in_all, findings.cut), (1, None));
}
