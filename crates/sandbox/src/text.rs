//! Bytes as text: names, hosts and paths that come from a run, made safe to print and exact to read back.
//!
//! Two forms. [`escape`] is for people: one line, no terminal control, nothing that reorders or hides what
//! stands beside it. The serde modules [`path`], [`paths`] and [`name`] are for programs: a plain string when
//! that says it all, else the bytes in hexadecimal, so that what is read back is what was there.
//! What the bytes mean is not known here.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

/// The text on one line, safe for a terminal: controls, marks that reorder or hide text, and bytes that are
/// not UTF-8 become backslash sequences.
///
/// A backslash is doubled, so that the result is unambiguous, except on Windows, where it is the separator.
pub fn escape(text: impl AsRef<OsStr>) -> String {
    let mut escaped = String::new();
    for chunk in text.as_ref().as_encoded_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' => escaped.push_str("\\n"),
                '\r' => escaped.push_str("\\r"),
                '\t' => escaped.push_str("\\t"),
                '\\' if !cfg!(windows) => escaped.push_str("\\\\"),
                _ if is_hidden(letter) => {
                    let _ = write!(escaped, "\\u{{{:x}}}", u32::from(letter));
                }
                _ => escaped.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(escaped, "\\x{byte:02x}");
        }
    }
    escaped
}

/// Characters that a terminal acts on, or that change how their neighbours are shown: controls (C0, DEL, C1),
/// line and paragraph separators, zero-width and bidirectional marks, tags, the byte order mark.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text as it stands, when it is UTF-8 and nothing in it is hidden.
fn plain(text: &OsStr) -> Option<&str> {
    text.to_str().filter(|text| !text.chars().any(is_hidden))
}

/// The form that programs read: a string, or `{"bytes": "2f746d702fff"}`. On Windows the hexadecimal digits
/// are of the 16-bit units, high byte first.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum Exact {
    Plain(String),
    Bytes { bytes: String },
}

impl From<&OsStr> for Exact {
    fn from(text: &OsStr) -> Self {
        match plain(text) {
            Some(text) => Self::Plain(text.to_owned()),
            None => Self::Bytes {
                bytes: os::bytes(text).iter().fold(String::new(), |mut hex, byte| {
                    let _ = write!(hex, "{byte:02x}");
                    hex
                }),
            },
        }
    }
}

impl Exact {
    /// The exact text again; `None` when the digits are not whole bytes (whole units on Windows).
    fn into_text(self) -> Option<OsString> {
        match self {
            Self::Plain(text) => Some(text.into()),
            Self::Bytes { bytes } => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let pairs = bytes.as_bytes().chunks(2);
                let bytes = pairs.map(|pair| match pair {
                    [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
                    _ => None,
                });
                os::text(bytes.collect::<Option<Vec<u8>>>()?)
            }
        }
    }
}

#[cfg(unix)]
mod os {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    pub(super) fn bytes(text: &OsStr) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    pub(super) fn split_at(word: &OsStr, at: usize) -> (OsString, Option<OsString>) {
        let bytes = word.as_bytes();
        (OsStr::from_bytes(&bytes[..at]).into(), Some(OsStr::from_bytes(&bytes[at + 1..]).into()))
    }

    #[allow(clippy::unnecessary_wraps, reason = "on Windows half a unit is no text")]
    pub(super) fn text(bytes: Vec<u8>) -> Option<OsString> {
        Some(OsString::from_vec(bytes))
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::{OsStr, OsString};
    use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};

    pub(super) fn bytes(text: &OsStr) -> Vec<u8> {
        text.encode_wide().flat_map(u16::to_be_bytes).collect()
    }

    pub(super) fn split_at(word: &OsStr, _at: usize) -> (OsString, Option<OsString>) {
        let units: Vec<u16> = word.encode_wide().collect();
        let at = units.iter().position(|unit| *unit == u16::from(b'=')).unwrap_or(units.len());
        let value = units.get(at + 1..).unwrap_or_default();
        (OsString::from_wide(&units[..at]), Some(OsString::from_wide(value)))
    }

    pub(super) fn text(bytes: Vec<u8>) -> Option<OsString> {
        let (units, rest) = bytes.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
        rest.is_empty().then(|| OsString::from_wide(&units))
    }
}

/// `#[serde(with = "crate::text::name")]` for an `OsString`.
pub mod name {
    use super::Exact;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};
    use std::ffi::{OsStr, OsString};

    /// Writes the exact form.
    pub fn serialize<S: Serializer>(text: impl AsRef<OsStr>, serializer: S) -> Result<S::Ok, S::Error> {
        Exact::from(text.as_ref()).serialize(serializer)
    }

    /// Reads the exact form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OsString, D::Error> {
        let exact = Exact::deserialize(deserializer)?;
        exact.into_text().ok_or_else(|| D::Error::custom("bytes are not pairs of hexadecimal digits"))
    }
}

/// `#[serde(with = "crate::text::path")]` for a `PathBuf`.
pub mod path {
    use serde::{Deserializer, Serializer};
    use std::path::{Path, PathBuf};

    /// Writes the exact form.
    pub fn serialize<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
        super::name::serialize(path.as_ref(), serializer)
    }

    /// Reads the exact form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        super::name::deserialize(deserializer).map(PathBuf::from)
    }
}

/// `#[serde(with = "crate::text::paths")]` for a `Vec<PathBuf>` or an `Option<PathBuf>` (none, one or many).
pub mod paths {
    use super::Exact;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use std::path::PathBuf;

    /// Writes a list of the exact form.
    pub fn serialize<'a, S, I>(paths: I, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        I: IntoIterator<Item = &'a PathBuf>,
    {
        serializer.collect_seq(paths.into_iter().map(|path| Exact::from(path.as_os_str())))
    }

    /// Reads a list of the exact form.
    pub fn deserialize<'de, D, C>(deserializer: D) -> Result<C, D::Error>
    where
        D: Deserializer<'de>,
        C: FromIterator<PathBuf>,
    {
        let texts = Vec::<Exact>::deserialize(deserializer)?.into_iter().map(Exact::into_text);
        texts
            .map(|text| text.map(PathBuf::from))
            .collect::<Option<C>>()
            .ok_or_else(|| D::Error::custom("bytes are not pairs of hexadecimal digits"))
    }
}

/// `#[serde(with = "crate::text::maybe_path")]` for an `Option<PathBuf>`: one path or null.
pub mod maybe_path {
    use super::Exact;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};
    use std::path::PathBuf;

    /// Writes the exact form.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| Exact::from(path.as_os_str())).serialize(serializer)
    }

    /// Reads the exact form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        let Some(exact) = Option::<Exact>::deserialize(deserializer)? else { return Ok(None) };
        let text = exact.into_text();
        text.map(|text| Some(text.into()))
            .ok_or_else(|| D::Error::custom("bytes are not pairs of hexadecimal digits"))
    }
}

/// `#[serde(with = "crate::text::bytes")]` for the contents of a file, a `Vec<u8>`.
pub mod bytes {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    /// Text as it is, anything else as a list of numbers.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(untagged)]
    enum Contents<T, B> {
        Text(T),
        Bytes(B),
    }

    /// Writes text or numbers.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Contents::<&str, &[u8]>::Text(text).serialize(serializer),
            Err(_) => Contents::<&str, &[u8]>::Bytes(bytes).serialize(serializer),
        }
    }

    /// Reads either.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        match Contents::<String, Vec<u8>>::deserialize(deserializer).map_err(D::Error::custom)? {
            Contents::Text(text) => Ok(text.into_bytes()),
            Contents::Bytes(bytes) => Ok(bytes),
        }
    }
}

/// `#[serde(with = "crate::text::words")]` for the words of a command, a `Vec<OsString>`.
pub mod words {
    use serde::{Deserializer, Serializer};
    use std::ffi::OsString;
    use std::path::PathBuf;

    /// Writes a list of the exact form.
    pub fn serialize<S: Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(words.iter().map(|word| super::Exact::from(word.as_os_str())))
    }

    /// Reads a list of the exact form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
        let words: Vec<PathBuf> = super::paths::deserialize(deserializer)?;
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

/// `NAME=VALUE` taken apart at the first `=`; the name alone where there is none.
///
/// A leading `=` belongs to no name here: the name comes out empty and the caller refuses it.
pub fn split_variable(word: &OsStr) -> (OsString, Option<OsString>) {
    let bytes = word.as_encoded_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        None => (word.to_os_string(), None),
        Some(at) => os::split_at(word, at),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use self::units::{ODD, Unit, text};
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Both {
        #[serde(with = "path")]
        one: PathBuf,
        #[serde(with = "paths")]
        many: Vec<PathBuf>,
    }

    #[test]
    fn a_plain_path_is_a_plain_string() {
        let both = Both { one: "/srv/ä b".into(), many: vec!["a".into(), "b".into()] };
        let json = serde_json::to_string(&both).unwrap();
        assert_eq!(json, r#"{"one":"/srv/ä b","many":["a","b"]}"#);
        assert_eq!(serde_json::from_str::<Both>(&json).unwrap(), both);
    }

    #[test]
    fn escape_leaves_nothing_for_a_terminal_to_act_on() {
        assert_eq!(escape("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(escape("x\n\ty\r"), "x\\n\\ty\\r");
        assert_eq!(escape("exe\u{202e}txt"), "exe\\u{202e}txt");
        assert_eq!(escape("c1 \u{9b}31m"), "c1 \\u{9b}31m");
        assert_eq!(escape("größe/日本"), "größe/日本");
    }

    #[test]
    fn odd_digits_are_refused() {
        for wrong in [r#"{"bytes":"2"}"#, r#"{"bytes":"zz"}"#, r#"{"bytes":"+1"}"#] {
            let mut reader = serde_json::Deserializer::from_str(wrong);
            assert!(path::deserialize(&mut reader).is_err(), "{wrong}");
        }
    }

    #[cfg(windows)]
    mod units {
        pub(super) type Unit = u16;
        /// Half a pair of UTF-16.
        pub(super) const ODD: Unit = 0xd800;

        pub(super) fn text(units: &[Unit]) -> std::ffi::OsString {
            std::os::windows::ffi::OsStringExt::from_wide(units)
        }
    }

    #[cfg(unix)]
    mod units {
        pub(super) type Unit = u8;
        /// A byte of no UTF-8.
        pub(super) const ODD: Unit = 0xff;

        pub(super) fn text(units: &[Unit]) -> std::ffi::OsString {
            std::os::unix::ffi::OsStringExt::from_vec(units.to_vec())
        }
    }

    /// A path with what is no text on this system, and with what a terminal acts on.
    pub(crate) fn odd_path() -> PathBuf {
        let mut name = text(&[ODD]);
        name.push(" \"x\n");
        PathBuf::from("/tmp").join(name)
    }

    #[test]
    fn what_is_no_text_survives() {
        let one: PathBuf = text(&[Unit::from(b'a'), ODD, Unit::from(b'\\')]).into();
        let (printed, hexadecimal) =
            if cfg!(windows) { ("a\\xed\\xa0\\x80\\", "0061d800005c") } else { ("a\\xff\\\\", "61ff5c") };
        assert_eq!(escape(&one), printed);
        let json = serde_json::to_string(&Both { one: one.clone(), many: vec![one.clone()] }).unwrap();
        assert_eq!(
            json,
            format!(r#"{{"one":{{"bytes":"{hexadecimal}"}},"many":[{{"bytes":"{hexadecimal}"}}]}}"#)
        );
        assert_eq!(serde_json::from_str::<Both>(&json).unwrap().one, one);
    }

    proptest! {
        #[test]
        fn every_path_reads_back_and_prints_on_one_safe_line(units in prop::collection::vec(Unit::MIN + 1.., 0..40)) {
            let both = Both { one: text(&units).into(), many: Vec::new() };
            let json = serde_json::to_string(&both).unwrap();
            prop_assert!(!escape(&both.one).chars().any(is_hidden));
            prop_assert_eq!(serde_json::from_str::<Both>(&json).unwrap(), both);
        }
    }
}
