//! Spellings of one place, and of places that cannot be granted.

use proptest::prelude::*;

use super::*;

fn path(text: &str) -> WindowsPath {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> PathError {
    text.parse::<WindowsPath>().map(|path| panic!("{text} is {path}")).unwrap_err()
}

/// C004: every spelling of one place is the same place; those that name no place are refused.
#[test]
fn c004_seven_spellings_of_one_folder() {
    let ssh = path(r"C:\Users\me\.ssh");
    for other in [
        r"c:\users\ME\.ssh",
        r"\\?\C:\Users\me\.ssh",
        "C:/Users/me/.SSH",
        r"C:\Users\me\.ssh.",
        r"C:\Users\me\.ssh ",
        r"C:\Users\me\.ssh . .",
        r"C:\Users\\me\.\x\..\.ssh\",
        r"C:\..\..\Users\me\.ssh",
    ] {
        assert_eq!(path(other), ssh, "{other}");
        assert!(ssh.covers(&path(&format!("{}\\x", other.trim_end_matches('\\')))), "{other}");
    }
    assert_eq!(path("C:/Users/me/.SSH").to_string(), r"C:\Users\me\.SSH");
    assert!(matches!(error(r"C:\Users\me\.ssh::$DATA"), PathError::Stream { .. }));
    let short = path(r"C:\Users\ME~1\.ssh\x");
    assert!(short.has_short_name() && !ssh.covers(&short) && !ssh.has_short_name());
}

/// C005: what contains what is decided name by name.
#[test]
fn c005_a_longer_name_is_another_folder() {
    let work = path(r"C:\work");
    assert!(work.covers(&path("c:/WORK/secrets")) && work.covers(&work));
    for other in [r"C:\workspace", r"C:\wor", r"D:\work", r"C:\", r"C:\x\work"] {
        assert!(!work.covers(&path(other)), "{other}");
    }
}

/// C022: a share stays a share; nothing of it becomes a folder of a drive.
#[test]
fn c022_shares_are_refused_by_name() {
    for share in [
        r"\\192.0.2.10\share\sub",
        r"\\server\share\",
        "//server/share/sub",
        r"\\?\UNC\server\share\sub",
        r"\\?\unc\server\share",
        r"\/server\share",
        r"\\server\c$\x",
        r"\\127.0.0.1\share",
    ] {
        assert!(matches!(error(share), PathError::Network { .. }), "{share}");
    }
    for own in [
        r"\\localhost\c$\Users\me",
        r"\\127.0.0.1\C$",
        r"\\127.1.2.3\c$\x",
        r"\\?\UNC\localhost\C$\x",
        r"\\LOCALHOST.\c$",
        r"\\--1.ipv6-literal.net\c$",
        "//localhost/c$/x",
    ] {
        assert!(matches!(error(own), PathError::OwnShare { drive: 'C', .. }), "{own}");
    }
    for none in [r"\\server", r"\\server\", r"\\", r"\\\share", r"\\?\UNC\server", r"\\?\UNC\"] {
        assert!(matches!(error(none), PathError::NoShare(_)), "{none}");
    }
}

/// C044: no device's name, no stream, no way round the drive letter.
#[test]
fn c044_devices_and_streams_are_refused() {
    for device in [
        r"\\.\C:\x",
        r"\\.\GLOBALROOT\Device\HarddiskVolume3\Users",
        r"\\?\GLOBALROOT\Device\HarddiskVolume3\Users",
        r"\\?\Volume{00000000-0000-0000-0000-000000000000}\x",
        r"\??\C:\x",
        "//./C:/x",
        "//?/C:/x",
        r"\\?\C:",
        r"\\?\C:/x",
        r"\\?\pipe\x",
        r"\\.\pipe\x",
    ] {
        assert!(matches!(error(device), PathError::Device(_)), "{device}");
    }
    for stream in [r"C:\work\p\a.txt:stream", r"C:\a:b\c", r"C:\work:$I30:$INDEX_ALLOCATION"] {
        assert!(matches!(error(stream), PathError::Stream { .. }), "{stream}");
    }
    for name in
        ["con", "NUL", "nul.txt", "Com1", "lpt9.tar.gz", "aux ", "CONIN$", "com\u{b2}", "nul .x", "COM0"]
    {
        let text = format!("C:\\work\\{name}\\x");
        assert!(matches!(error(&text), PathError::DeviceName { .. }), "{text}");
    }
    for name in ["console", "com10", "com", "nullable", "xcon", "lpt", "a.con"] {
        assert_eq!(path(&format!("C:\\{name}")).name(), Some(name));
    }
}

#[test]
fn what_is_not_absolute_has_no_place() {
    assert_eq!(error(""), PathError::Empty);
    for relative in ["C:", "C:work", "c:..", "C:.\\x"] {
        assert!(matches!(error(relative), PathError::DriveRelative(_)), "{relative}");
    }
    for rooted in [r"\work", "/work", r"\"] {
        assert!(matches!(error(rooted), PathError::NoDrive(_)), "{rooted}");
    }
    for relative in ["work", r".\x", "..", "1:\\x", "é:\\x", "CC:\\x"] {
        assert!(matches!(error(relative), PathError::Relative(_)), "{relative}");
    }
    assert!(matches!(error(&format!("C:\\{}", "x".repeat(40_000))), PathError::TooLong(_)));
}

#[test]
fn letters_that_no_name_holds_are_refused() {
    for letter in ['*', '?', '<', '>', '"', '|', '\0', '\n', '\x1f'] {
        let text = format!("C:\\work\\a{letter}b");
        assert!(
            matches!(error(&text), PathError::Character { letter: found, .. } if found == letter),
            "{text:?}"
        );
        assert!(!error(&text).to_string().contains('\n'));
    }
    for none in [r"C:\work\...", r"C:\work\. .", r"C:\work\   "] {
        assert!(matches!(error(none), PathError::NoName { .. }), "{none}");
    }
}

/// In a verbatim path these are names; without the prefix they are others.
#[test]
fn a_verbatim_path_is_taken_only_where_it_means_the_same() {
    assert_eq!(path(r"\\?\c:\Work\x").to_string(), r"C:\Work\x");
    assert_eq!(path(r"\\?\C:\").to_string(), r"C:\");
    for other in [r"\\?\C:\work\..\x", r"\\?\C:\.\x", r"\\?\C:\work.", r"\\?\C:\work \x"] {
        assert!(matches!(error(other), PathError::Verbatim { .. }), "{other}");
    }
    assert!(matches!(error(r"\\?\C:\work/x"), PathError::Character { letter: '/', .. }));
}

#[test]
fn a_root_covers_itself_alone() {
    let root = path(r"C:\");
    assert!(root.is_root() && root.covers(&path("c:/")) && root.contains(&path(r"C:\x")));
    assert!(!root.covers(&path(r"C:\x")) && !root.covers(&path(r"D:\")));
    assert_eq!(path(r"C:\x").parent(), Some(root.clone()));
    assert_eq!((root.parent(), root.name(), root.depth()), (None, None, 0));
    assert_eq!(root.join("x").unwrap(), path(r"C:\x"));
    assert!(root.join("a:b").is_err());
}

#[test]
fn case_is_folded_as_the_file_system_folds_it() {
    assert_eq!(path("C:\\GRÖSSE\\ДОМ"), path("c:\\grösse\\дом"));
    // One letter stays one letter: NTFS does not take ß for SS.
    assert_ne!(path("C:\\groß"), path("C:\\GROSS"));
    for short in ["PROGRA~1", "a~1", "LONGNA~1.TXT", "AB~12345"] {
        assert!(path(&format!("C:\\{short}\\x")).has_short_name(), "{short}");
    }
    for long in ["~1", "a~", "a~x", "LONGNAME~1", "backup~1.json", "file~1.tar.gz"] {
        assert!(!path(&format!("C:\\{long}")).has_short_name(), "{long}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_not_unicode_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let odd = std::ffi::OsStr::from_bytes(b"C:\\a\xff");
    assert!(matches!(WindowsPath::of(Path::new(odd)), Err(PathError::NotUnicode(_))));
}

proptest! {
    /// Whatever is taken is in a form that is taken again as the same, says the same in JSON, and holds nothing
    /// that means something to Windows besides its names.
    #[test]
    fn a_normal_form_is_final(text in r"(\\\\\?\\)?[a-zA-Z]:[\\/]([a-z.~ :/\\A-Z0-9*$\u{e9}-]{0,3}[\\/]?){0,6}") {
        if let Ok(normal) = text.parse::<WindowsPath>() {
            let shown = normal.to_string();
            prop_assert_eq!(&shown.parse::<WindowsPath>().unwrap(), &normal);
            prop_assert_eq!(shown.parse::<WindowsPath>().unwrap().to_string(), shown.clone());
            let json = serde_json::to_string(&normal).unwrap();
            prop_assert_eq!(&serde_json::from_str::<WindowsPath>(&json).unwrap(), &normal);
            prop_assert!(!shown[2..].contains([':', '/', '*', '"']) && !shown.contains(r"\\"));
            prop_assert!(!shown.split('\\').any(|part| part == "." || part == ".."));
        }
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,60}") {
        if let Err(error) = text.parse::<WindowsPath>() {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
