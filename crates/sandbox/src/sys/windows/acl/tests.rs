//! Access lists: the judgement is pure; what a list holds under Wine is made up from a Unix mode.

use std::fs;

use super::super::lab;
use super::*;

fn package() -> Sid {
    Sid::parse("S-1-15-2-1-2-3-4-5-6-7").expect("valid")
}

fn allow(sid: Sid, mask: u32) -> Entry {
    Entry { kind: Kind::Allow, sid: Some(sid), mask, inherited: false, inherit_only: false }
}

#[test]
fn masks_are_those_of_the_contract() {
    assert_eq!(Access::ReadExecute.mask(), 0x0012_00A9);
    assert_eq!(Access::ReadWrite.mask(), 0x0013_01BF);
    assert_eq!(specific(0x8000_0000), 0x0012_0089);
    assert_eq!(specific(0x1000_0000 | 1), 0x001F_01FF);
}

#[test]
fn who_is_let_in() {
    let read = Access::ReadExecute.mask();
    let list = |entries: &[Entry]| Dacl { entries: Some(entries.to_vec()) };
    let everyone = Sid::everyone();
    assert!(Dacl { entries: None }.allows(&package(), read), "no list lets everyone in");
    assert!(!list(&[]).allows(&package(), read));
    let one = list(&[allow(package(), read)]);
    assert!(one.allows(&package(), 1) && !one.allows(&everyone, 1) && !one.allows(&package(), 2));
    // GENERIC_READ
    assert!(list(&[allow(everyone.clone(), 0x8000_0000)]).allows(&everyone, 1));
    let below = Entry { inherit_only: true, ..allow(package(), read) };
    assert!(!list(&[below]).allows(&package(), 1));
    let deny = Entry { kind: Kind::Deny, ..allow(package(), read) };
    assert!(!list(&[deny]).allows(&package(), 1));
    let other = Entry { kind: Kind::Other(9), sid: None, ..allow(package(), read) };
    assert!(list(&[other]).has_unknown() && !one.has_unknown());
}

#[test]
fn places_of_the_system_are_left_alone() {
    let kept = [
        (PathBuf::from(r"C:\Program Files"), "in Program Files"),
        (PathBuf::from(r"C:\Windows"), "in Windows' own folder"),
    ];
    for (path, what) in [
        (r"\\?\C:\", Some("a drive's root")),
        (r"\\?\d:", Some("a drive's root")),
        (r"\\?\Volume{0-1}\", Some("a drive's root")),
        (r"\\?\C:\program files", Some("in Program Files")),
        (r"\\?\C:\Program Files\Orchestrator Zero\x.exe", Some("in Program Files")),
        (r"\\?\C:\WINDOWS\Temp\x", Some("in Windows' own folder")),
        (r"\\?\UNC\host\share\x", Some("on another machine")),
        (r"\\host\share", Some("on another machine")),
        (r"\\?\C:\Program Files (mine)\x", None),
        (r"\\?\C:\Users\me\x", None),
    ] {
        assert_eq!(untouchable(Path::new(path), &kept), what, "{path}");
    }
}

#[test]
fn a_list_is_read_and_changed_where_it_may_be() {
    let place = tempfile::tempdir().expect("a folder");
    let before = read(place.path()).expect("a list");
    assert!(before.entries.as_ref().is_some_and(|entries| !entries.is_empty()), "{before:?}");
    assert!(!before.allows(&package(), u32::MAX));
    grant(place.path(), &package(), Access::ReadWrite, Reach::Below).expect("granted");
    let granted = read(place.path()).expect("a list");
    // Wine says yes and keeps what a Unix mode can say; Windows keeps the entry.
    assert_eq!(granted.allows(&package(), Access::ReadWrite.mask()), !lab::is_wine());
    revoke(place.path(), &package()).expect("taken back");
    assert!(!read(place.path()).expect("a list").allows(&package(), u32::MAX));
    fs::write(place.path().join("still"), "ours").expect("written");
}

#[test]
fn the_real_places_of_the_system_are_refused() {
    let system = known::system_folder().expect("System32");
    for place in [system.as_path(), Path::new(r"C:\")] {
        match grant(place, &package(), Access::ReadExecute, Reach::This) {
            Err(AclError::Untouchable { .. }) => {}
            // Who may not even ask is refused before: ERROR_ACCESS_DENIED.
            Err(AclError::File(FileError::Call(error))) => assert_eq!(error.win32_code(), Some(5)),
            other => panic!("{place:?}: {other:?}"),
        }
    }
}
