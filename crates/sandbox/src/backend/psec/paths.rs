//! Windows paths as text: one normal form, in which two names of one place that differ only in spelling are the
//! same, and a reason for each path that has none. It asks no system: what links and short names lead to is known
//! to whoever opened the path.

mod name;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use name::{fold, fold_units};

use crate::text::escape;

/// A drive and the names below it, in normal form: absolute, backslashes, long form without a verbatim prefix, no
/// `.` and `..`, no name that Windows would read as another. Compared without regard to case.
#[derive(Clone, Debug)]
pub struct WindowsPath {
    drive: char,
    names: Vec<String>,
    folded: Vec<Vec<u16>>,
}

/// The most UTF-16 units that a path may have (Microsoft Learn, Maximum File Path Limitation).
const LONGEST: usize = 32_766;

/// Why a path cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing.
    #[error("the path is empty")]
    Empty,
    /// Not Unicode.
    #[error("{0}: not Unicode, which PSEC's specification cannot hold; rename it")]
    NotUnicode(String),
    /// Longer than any path.
    #[error("a path of {0} UTF-16 units, longer than Windows takes")]
    TooLong(usize),
    /// A server's share.
    #[error(
        "{path}: on a network share, which PSEC's rules are not known to hold; give a folder on a local drive"
    )]
    Network {
        /// The path, escaped.
        path: String,
    },
    /// A share of this machine.
    #[error("{path}: this machine's own {drive}: by way of the network; give {drive}:\\…")]
    OwnShare {
        /// The path, escaped.
        path: String,
        /// The drive that it stands for.
        drive: char,
    },
    /// A share is named without a server or without a share.
    #[error("{0}: two backslashes begin a share, and this names none")]
    NoShare(String),
    /// A path to a device, a volume by its number, or the object manager's own names.
    #[error("{0}: a name of a device; give a folder with its drive letter")]
    Device(String),
    /// `C:name`.
    #[error("{0}: leads from wherever the current folder of that drive is; put a backslash after the colon")]
    DriveRelative(String),
    /// `\name`.
    #[error("{0}: has no drive letter")]
    NoDrive(String),
    /// `name`.
    #[error("{0}: is not absolute")]
    Relative(String),
    /// An alternate data stream.
    #[error("{path}: {name} names a stream of a file; give the file")]
    Stream {
        /// The path, escaped.
        path: String,
        /// The part, escaped.
        name: String,
    },
    /// A character that no name holds.
    #[error("{path}: {name} holds {letter:?}, which no name on Windows may; wildcards are not expanded")]
    Character {
        /// The path, escaped.
        path: String,
        /// The part, escaped.
        name: String,
        /// Which.
        letter: char,
    },
    /// CON and its peers.
    #[error("{path}: {name} is a device to Windows, wherever it stands")]
    DeviceName {
        /// The path, escaped.
        path: String,
        /// The part, escaped.
        name: String,
    },
    /// A verbatim path that means another place without its prefix.
    #[error(
        "{path}: {name} means another name without the prefix \\\\?\\, which PSEC's specification does not have"
    )]
    Verbatim {
        /// The path, escaped.
        path: String,
        /// The part, escaped.
        name: String,
    },
    /// Nothing but dots and spaces.
    #[error("{path}: {name} is no name")]
    NoName {
        /// The path, escaped.
        path: String,
        /// The part, escaped.
        name: String,
    },
}

impl WindowsPath {
    /// The path of a [`Path`] that was made on Windows.
    pub fn of(path: &Path) -> Result<WindowsPath, PathError> {
        path.to_str().ok_or_else(|| PathError::NotUnicode(escape(path)))?.parse()
    }

    /// As a path.
    pub fn to_path(&self) -> PathBuf {
        self.to_string().into()
    }

    /// As it is printed: safe for a terminal, and with the same backslashes on every system.
    pub fn shown(&self) -> String {
        let escaped = escape(self.to_string());
        if cfg!(windows) { escaped } else { escaped.replace("\\\\", "\\") }
    }

    /// The drive's root: a grant of it covers the root folder alone and nothing in it (Microsoft Learn,
    /// createprocessinsandbox).
    pub fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    /// How many names it has.
    pub fn depth(&self) -> usize {
        self.names.len()
    }

    /// The last name.
    pub fn name(&self) -> Option<&str> {
        self.names.last().map(String::as_str)
    }

    /// A part looks like a short name (`PROGRA~1`): only the final path tells what it stands for.
    pub fn has_short_name(&self) -> bool {
        self.names.iter().any(|name| name::is_short(name))
    }

    /// Is `other` this path, or does it lie below it?
    pub fn contains(&self, other: &WindowsPath) -> bool {
        self.drive == other.drive && other.folded.starts_with(&self.folded)
    }

    /// Does a grant or a denial of this path decide on `other`?
    pub fn covers(&self, other: &WindowsPath) -> bool {
        if self.is_root() { self == other } else { self.contains(other) }
    }

    /// The folder that it lies in.
    pub fn parent(&self) -> Option<WindowsPath> {
        let (_, names) = self.names.split_last()?;
        let folded = self.folded[..names.len()].to_vec();
        Some(WindowsPath { drive: self.drive, names: names.to_vec(), folded })
    }

    /// One name below it, which must be a plain one.
    pub fn join(&self, name: &str) -> Result<WindowsPath, PathError> {
        format!("{}\\{name}", self.to_string().trim_end_matches('\\')).parse()
    }
}

impl FromStr for WindowsPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<WindowsPath, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        let units = text.encode_utf16().count();
        if units > LONGEST {
            return Err(PathError::TooLong(units));
        }
        let shown = || escape(text);
        let (rest, verbatim) = unprefixed(text)?;
        let mut letters = rest.chars();
        let drive = match (letters.next(), letters.next()) {
            (Some(drive), Some(':')) if drive.is_ascii_alphabetic() => drive.to_ascii_uppercase(),
            _ if verbatim => return Err(PathError::Device(shown())),
            (Some(first), _) if is_separator(first) => return Err(PathError::NoDrive(shown())),
            _ => return Err(PathError::Relative(shown())),
        };
        let below = letters.as_str();
        if verbatim && !below.starts_with('\\') {
            return Err(PathError::Device(shown()));
        }
        let Some(below) = below.strip_prefix(is_separator) else {
            return Err(PathError::DriveRelative(shown()));
        };
        let mut path = WindowsPath { drive, names: Vec::new(), folded: Vec::new() };
        // In a verbatim path a slash is a letter, and no name may hold it.
        let separator: fn(char) -> bool = if verbatim { |letter| letter == '\\' } else { is_separator };
        for part in below.split(separator) {
            path.enter(part, verbatim, text)?;
        }
        path.folded = path.names.iter().map(|name| fold(name)).collect();
        Ok(path)
    }
}

impl WindowsPath {
    /// Go down one part of `whole`, as Windows would.
    fn enter(&mut self, part: &str, verbatim: bool, whole: &str) -> Result<(), PathError> {
        let (path, name) = (|| escape(whole), || escape(part));
        match part {
            // Doubled and trailing separators say nothing, in a verbatim path too: no name is empty.
            "" => return Ok(()),
            "." | ".." if verbatim => return Err(PathError::Verbatim { path: path(), name: name() }),
            "." => return Ok(()),
            // The root is its own parent.
            ".." => {
                self.names.pop();
                return Ok(());
            }
            _ => {}
        }
        let kept = part.trim_end_matches(['.', ' ']);
        if verbatim && kept != part {
            return Err(PathError::Verbatim { path: path(), name: name() });
        }
        if kept.is_empty() {
            return Err(PathError::NoName { path: path(), name: name() });
        }
        if let Some(letter) = kept.chars().find(|letter| name::is_forbidden(*letter)) {
            return Err(PathError::Character { path: path(), name: name(), letter });
        }
        if kept.contains(':') {
            return Err(PathError::Stream { path: path(), name: name() });
        }
        if name::is_device(kept) {
            return Err(PathError::DeviceName { path: path(), name: name() });
        }
        self.names.push(kept.to_owned());
        Ok(())
    }
}

/// The text after a verbatim prefix, and whether there was one; shares and devices are refused here.
fn unprefixed(text: &str) -> Result<(&str, bool), PathError> {
    let device = || PathError::Device(escape(text));
    if let Some(rest) = text.strip_prefix(r"\\?\") {
        return match strip_prefix_folded(rest, r"UNC\") {
            Some(share) => Err(share_error(text, share)),
            None => Ok((rest, true)),
        };
    }
    // Spelt with a slash the prefix is not verbatim, and with a dot it never was: both name devices.
    if text.starts_with(r"\??\") {
        return Err(device());
    }
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(one), Some(other)) if is_separator(one) && is_separator(other) => {
            let share = letters.as_str();
            match share.split(is_separator).next() {
                Some("." | "?") => Err(device()),
                _ => Err(share_error(text, share)),
            }
        }
        _ => Ok((text, false)),
    }
}

/// Why `server\share\…` is refused.
fn share_error(text: &str, share: &str) -> PathError {
    let mut parts = share.split(is_separator);
    let (server, share) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if server.is_empty() || share.is_empty() {
        return PathError::NoShare(escape(text));
    }
    let mut letters = share.chars();
    match (letters.next(), letters.next(), letters.next()) {
        (Some(drive), Some('$'), None) if drive.is_ascii_alphabetic() && is_own(server) => {
            PathError::OwnShare { path: escape(text), drive: drive.to_ascii_uppercase() }
        }
        _ => PathError::Network { path: escape(text) },
    }
}

/// Does the server's name stand for this machine, as far as a name tells?
fn is_own(server: &str) -> bool {
    let server = server.trim_end_matches('.').to_ascii_lowercase();
    let six = server.strip_suffix(".ipv6-literal.net").map(|name| name.replace('-', ":"));
    let loopback = |text: &str| text.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    matches!(server.as_str(), "localhost" | "127.1" | ".")
        || loopback(&server)
        || six.is_some_and(|six| loopback(&six))
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '\\' | '/')
}

fn strip_prefix_folded<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

impl fmt::Display for WindowsPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:\\{}", self.drive, self.names.join("\\"))
    }
}

impl PartialEq for WindowsPath {
    fn eq(&self, other: &WindowsPath) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for WindowsPath {}

impl PartialOrd for WindowsPath {
    fn partial_cmp(&self, other: &WindowsPath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WindowsPath {
    fn cmp(&self, other: &WindowsPath) -> Ordering {
        self.drive.cmp(&other.drive).then_with(|| self.folded.cmp(&other.folded))
    }
}

impl serde::Serialize for WindowsPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for WindowsPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<WindowsPath, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
