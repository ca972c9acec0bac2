//! The environment block of a process in a container: never the caller's own, never absent, in the form and order
//! that Windows asks for. What is put into it comes from [`crate::environ`]; nothing is read here.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::environ::Environment;
use crate::text::escape;

/// The most bytes of a block (Microsoft Learn, createprocessinsandbox).
const MOST_BYTES: usize = 32 << 20;

/// Without these a launch with PSEC's attribute fails with ERROR_ENVVAR_NOT_FOUND, 203 (microsoft/mxc issues 1130
/// and 1158). Windows puts the container's own TEMP below LOCALAPPDATA, and sets TEMP and TMP itself.
pub const REQUIRED: [&str; 2] = ["SYSTEMROOT", "LOCALAPPDATA"];

/// A block: `NAME=VALUE`, each with its end, and an end of its own. There is no Debug: values may be secrets.
pub struct Block(Vec<u16>);

/// Variables that make no block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// A name that is none.
    #[error("{0}: not a variable's name on Windows")]
    Name(String),
    /// NUL in a value.
    #[error("the value of {0} holds a NUL byte, which no program can be given")]
    Value(String),
    /// One that Windows asks for.
    #[error("without {0} Windows starts no process in a container (error 203)")]
    Missing(&'static str),
    /// Larger than a block may be.
    #[error("the variables take {0} bytes, and Windows takes {MOST_BYTES}")]
    TooLarge(usize),
}

impl Block {
    /// The block of these variables; of names that differ in case alone the last counts.
    pub fn of(environment: &Environment) -> Result<Block, BlockError> {
        let mut entries: Vec<(Vec<u16>, Vec<u16>)> = Vec::new();
        for (name, value) in environment.variables() {
            let (shown, name, value) = (escape(name), units(name), units(value));
            // Programs keep the current folder of a drive in a variable like `=C:`; no other name holds the mark.
            let drive = matches!(name[..], [61, letter, 58] if is_letter(letter));
            if name.is_empty() || name.contains(&0) || (name.contains(&u16::from(b'=')) && !drive) {
                return Err(BlockError::Name(shown));
            }
            if value.contains(&0) {
                return Err(BlockError::Value(shown));
            }
            let folded = fold(&name);
            entries.retain(|(other, _)| *other != folded);
            let entry = [&name[..], &[u16::from(b'=')], &value, &[0]].concat();
            entries.push((folded, entry));
        }
        for required in REQUIRED {
            let folded = fold(&required.encode_utf16().collect::<Vec<u16>>());
            if !entries.iter().any(|(name, _)| *name == folded) {
                return Err(BlockError::Missing(required));
            }
        }
        entries.sort();
        let mut block: Vec<u16> = entries.into_iter().flat_map(|(_, entry)| entry).collect();
        block.push(0);
        let bytes = block.len() * 2;
        if bytes > MOST_BYTES { Err(BlockError::TooLarge(bytes)) } else { Ok(Block(block)) }
    }

    /// Its units, both ends among them.
    pub fn units(&self) -> &[u16] {
        &self.0
    }
}

/// As Windows compares names of variables.
fn fold(name: &[u16]) -> Vec<u16> {
    super::paths::fold_units(name)
}

const fn is_letter(unit: u16) -> bool {
    matches!(unit, 0x41..=0x5a | 0x61..=0x7a)
}

#[cfg(windows)]
fn units(text: &OsStr) -> Vec<u16> {
    std::os::windows::ffi::OsStrExt::encode_wide(text).collect()
}

#[cfg(not(windows))]
fn units(text: &OsStr) -> Vec<u16> {
    text.to_string_lossy().encode_utf16().collect()
}

/// What of this machine Windows programs need to know, for a caller that passed nothing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WindowsDefaults {
    /// Windows' own folder.
    pub system_root: PathBuf,
    /// Where programs of this user keep their data, and where Windows puts the container's own folder.
    pub local_app_data: PathBuf,
    /// Variables that say the same to every program of this machine, as they are set for the node: where programs
    /// lie and what the processor is.
    pub machine: Vec<(String, String)>,
}

/// The names of [`WindowsDefaults::machine`]. None of them names a user or leads to one's files.
pub const MACHINE: [&str; 13] = [
    "ALLUSERSPROFILE",
    "CommonProgramFiles",
    "CommonProgramFiles(x86)",
    "CommonProgramW6432",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROCESSOR_IDENTIFIER",
    "ProgramData",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "ProgramW6432",
];

/// What can be executed by its name alone, where the machine does not say.
const PATHEXT: &str = ".COM;.EXE;.BAT;.CMD;.VBS;.VBE;.JS;.JSE;.WSF;.WSH;.MSC";

/// Add what Windows programs need to what the caller passed. TEMP and TMP are left to Windows.
pub fn set_defaults(environment: &mut Environment, defaults: &WindowsDefaults) {
    let names: Vec<Vec<u16>> = environment.names().iter().map(|name| fold(&units(name))).collect();
    let root = defaults.system_root.to_string_lossy();
    let system = format!(r"{root}\System32");
    let drive: String = root.chars().take(2).collect();
    let path = format!(r"{system};{root};{system}\Wbem;{system}\WindowsPowerShell\v1.0");
    let own = [
        ("SystemRoot", root.to_string()),
        ("windir", root.to_string()),
        ("SystemDrive", drive),
        ("ComSpec", format!(r"{system}\cmd.exe")),
        ("LOCALAPPDATA", defaults.local_app_data.to_string_lossy().into_owned()),
        ("PATH", path),
    ];
    let machine = defaults.machine.iter().map(|(name, value)| (name.as_str(), value.clone()));
    for (name, value) in own.into_iter().chain(machine).chain([("PATHEXT", PATHEXT.to_owned())]) {
        if !names.contains(&fold(&name.encode_utf16().collect::<Vec<u16>>())) {
            environment.set_default(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in variables {
            environment.set(*name, *value);
        }
        environment
    }

    fn with_defaults(variables: &[(&str, &str)]) -> Environment {
        let mut environment = environment(variables);
        let defaults = WindowsDefaults {
            system_root: r"C:\Windows".into(),
            local_app_data: r"C:\Users\me\AppData\Local".into(),
            machine: vec![
                ("ProgramFiles".into(), r"C:\Program Files".into()),
                ("ProgramFiles(x86)".into(), r"C:\Program Files (x86)".into()),
                ("PATHEXT".into(), ".COM;.EXE;.PY".into()),
            ],
        };
        set_defaults(&mut environment, &defaults);
        environment
    }

    fn text(environment: &Environment) -> Result<Vec<String>, BlockError> {
        let block = Block::of(environment)?;
        let (end, units) = block.units().split_last().unwrap();
        assert_eq!((*end, units.last()), (0, Some(&0)));
        let entries = units[..units.len() - 1].split(|unit| *unit == 0);
        Ok(entries.map(|entry| String::from_utf16(entry).unwrap()).collect())
    }

    /// C074: what programs need is there, sorted without regard to case, and nothing of the node's.
    #[test]
    fn c074_a_caller_that_passed_nothing_gets_what_programs_need() {
        assert_eq!(
            text(&with_defaults(&[])).unwrap(),
            [
                r"ComSpec=C:\Windows\System32\cmd.exe",
                r"LOCALAPPDATA=C:\Users\me\AppData\Local",
                r"PATH=C:\Windows\System32;C:\Windows;C:\Windows\System32\Wbem;C:\Windows\System32\WindowsPowerShell\v1.0",
                "PATHEXT=.COM;.EXE;.PY",
                r"ProgramFiles=C:\Program Files",
                r"ProgramFiles(x86)=C:\Program Files (x86)",
                "SystemDrive=C:",
                r"SystemRoot=C:\Windows",
                r"windir=C:\Windows",
            ]
        );
    }

    #[test]
    fn what_the_caller_passes_counts_whatever_its_case() {
        let passed =
            text(&with_defaults(&[("Path", r"C:\tools"), ("systemroot", r"D:\W"), ("b", "1"), ("A", "2")]));
        let passed = passed.unwrap();
        assert_eq!(passed[..2], ["A=2", "b=1"]);
        assert!(
            passed.contains(&r"Path=C:\tools".to_owned()) && passed.contains(&r"systemroot=D:\W".to_owned())
        );
        assert!(!passed.iter().any(|entry| entry.starts_with("PATH=") || entry.starts_with("SystemRoot=")));
        let twice = environment(&[
            ("SYSTEMROOT", "x"),
            ("LOCALAPPDATA", "y"),
            ("http_proxy", "1"),
            ("HTTP_PROXY", "2"),
        ]);
        assert_eq!(text(&twice).unwrap(), ["HTTP_PROXY=2", "LOCALAPPDATA=y", "SYSTEMROOT=x"]);
    }

    #[test]
    fn values_go_in_as_they_are() {
        let odd = [("SYSTEMROOT", ""), ("LOCALAPPDATA", "a=b;c d"), ("=C:", r"C:\work"), ("ä", "日本=é")];
        assert_eq!(
            text(&environment(&odd)).unwrap(),
            [r"=C:=C:\work", "LOCALAPPDATA=a=b;c d", "SYSTEMROOT=", "ä=日本=é"]
        );
    }

    #[test]
    fn what_makes_no_block_is_refused() {
        let base = [("SYSTEMROOT", "x"), ("LOCALAPPDATA", "y")];
        for name in ["", "A=B", "=", "=C", "=C:=", "=1:", "a\0b"] {
            let refused = text(&environment(&[base[0], base[1], (name, "1")]));
            assert!(matches!(refused, Err(BlockError::Name(_))), "{name:?}");
        }
        let refused = text(&environment(&[base[0], base[1], ("SECRET", "s3\0cret")])).unwrap_err();
        assert!(!refused.to_string().contains("s3"), "{refused}");
        for missing in [0, 1] {
            let refused = text(&environment(&[base[1 - missing]]));
            assert_eq!(refused, Err(BlockError::Missing(REQUIRED[missing])));
        }
        let large = "x".repeat(17 << 20);
        let refused = text(&environment(&[base[0], base[1], ("LARGE", &large)]));
        assert!(matches!(refused, Err(BlockError::TooLarge(_))));
    }
}
