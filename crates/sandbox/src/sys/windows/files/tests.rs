//! Files looked at: hard links are real under Wine, reparse points and their kin are not.

use std::fs;

use super::super::lab;
use super::*;

#[test]
fn hard_links_share_one_identity_and_count_each_other() {
    let place = tempfile::tempdir().expect("a folder");
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    fs::write(&one, "x").expect("written");
    let meta = |path: &Path| look(&open(path, Follow::No).expect("opened")).expect("looked at");
    let alone = meta(&one);
    assert_eq!((alone.links, alone.tag), (1, None));
    fs::hard_link(&one, &two).expect("linked");
    fs::write(place.path().join("other"), "x").expect("written");
    let (first, second, other) = (meta(&one), meta(&two), meta(&place.path().join("other")));
    assert_eq!((first.links, second.links, other.links), (2, 2, 1));
    assert_eq!(first.id, second.id);
    assert_ne!(first.id, other.id);
    let folder = meta(place.path());
    // FILE_ATTRIBUTE_DIRECTORY
    assert_eq!(folder.attributes & 0x10, 0x10);

    match (names(&one), lab::is_wine()) {
        // Wine 8 has no such function, Wine 10 one that does nothing.
        (Err(FileError::Missing(missing)), true) => assert_eq!(missing.name, "FindFirstFileNameW"),
        (Err(error), true) => assert!(matches!(error, FileError::Call(_)), "{error}"),
        (result, _) => {
            let names = result.expect("names");
            assert_eq!(names.len(), 2, "{names:?}");
            assert!(names.iter().all(|name| name.has_root() && !name.is_absolute()), "{names:?}");
        }
    }
}

#[test]
fn the_final_path_is_the_stored_name() {
    let place = tempfile::tempdir().expect("a folder");
    let stored = place.path().join("A Longer Name.text");
    fs::write(&stored, "").expect("written");
    let asked = place.path().join("a longer NAME.TEXT");
    let path = final_path(&open(&asked, Follow::Yes).expect("opened")).expect("a path");
    assert!(path.ends_with("A Longer Name.text"), "{path:?}");
    assert!(path.to_str().expect("a plain name").starts_with(r"\\?\"), "{path:?}");
    let deep = (0..12).fold(place.path().to_owned(), |path, _| path.join("a".repeat(50)));
    let deep = Path::new(r"\\?\")
        .join(fs::canonicalize(place.path()).expect("there"))
        .join(deep.strip_prefix(place.path()).expect("below"));
    fs::create_dir_all(&deep).expect("made");
    match final_path(&open(&deep, Follow::No).expect("opened")) {
        // Wine has room for 260 characters: ERROR_MORE_DATA.
        Err(FileError::Call(error)) if lab::is_wine() => assert_eq!(error.win32_code(), Some(234)),
        result => {
            let path = result.expect("a path");
            assert!(path.as_os_str().len() > 600, "longer than the first buffer: {path:?}");
        }
    }
}

#[test]
fn what_is_no_reparse_point_has_no_target() {
    let place = tempfile::tempdir().expect("a folder");
    let file = open(place.path(), Follow::No).expect("opened");
    // ERROR_NOT_A_REPARSE_POINT
    let expected = CallError::win32("DeviceIoControl", 4390);
    assert_eq!(reparse_target(&file), Err(FileError::Call(expected)));
}

#[test]
fn a_path_that_is_not_there_says_so() {
    let missing = open(Path::new(r"C:\no such file"), Follow::No).expect_err("nothing there");
    assert_eq!(missing, FileError::Call(CallError::win32("CreateFileW", 2)));
    assert_eq!(open(Path::new("C:\\a\0b"), Follow::No).expect_err("a NUL"), FileError::Text(InteriorNul));
}

#[test]
fn looking_stops_nobody() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("file");
    fs::write(&path, "x").expect("written");
    let _file = open(&path, Follow::No).expect("opened");
    fs::write(&path, "y").expect("written");
    fs::remove_file(&path).expect("removed");
}
