//! What the agent hands to the process that launches one command, and what that process tells of it afterwards.
//!
//! An order comes first on standard input, its length before it; what follows there is the command's own. So no
//! variable's value is ever among arguments, and no descriptor has to be kept open for it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use oz0_fleet::Tier;
use oz0_sandbox::policy::Policy;
use serde::{Deserialize, Serialize};

/// No order is longer: a lease is not either.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Launch this. There is no Debug: the environment's values are in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The agent's process, with which this one ends.
    pub agent: u32,
    /// In a sandbox or with the node's own permissions.
    pub tier: Tier,
    /// What to run.
    pub policy: Policy,
    /// Where to tell how it went.
    #[serde(with = "oz0_sandbox::text::path")]
    pub told: PathBuf,
    /// A file that is locked as long as this process or the first one inside lives.
    #[serde(with = "oz0_sandbox::text::path")]
    pub lock: PathBuf,
}

impl Order {
    /// Write it.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let text = zeroize::Zeroizing::new(serde_json::to_vec(self)?);
        to.write_all(&(text.len() as u64).to_le_bytes())?;
        to.write_all(&text)
    }

    /// Read it, and not a byte more.
    pub fn read(from: &mut impl Read) -> io::Result<Order> {
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST {
            return Err(io::Error::other("standard input holds no order"));
        }
        let mut text = zeroize::Zeroizing::new(vec![0; length as usize]);
        from.read_exact(&mut text)?;
        serde_json::from_slice(&text).map_err(|_| io::Error::other("standard input holds no order"))
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By itself.
    Exited(u32),
    /// By a signal.
    Signalled(u8),
    /// It is not there, or cannot be executed.
    NoCommand,
}

/// Who ended it, when it did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// Its time was over.
    Timeout,
    /// The agent.
    Agent,
    /// A limit.
    Limit,
    /// The sandbox, which could not keep a protection.
    Sandbox,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Told {
    /// It has run, and every process of it is gone.
    Ended {
        /// How.
        how: How,
        /// Who ended it.
        by: Option<EndedBy>,
        /// How long the command took, in milliseconds.
        run_ms: u64,
        /// For people: which limit, what was denied, what was left.
        block: String,
        /// What confined it, as read from the running process.
        mechanism: Option<serde_json::Value>,
    },
    /// It was not launched.
    Refused {
        /// The policy cannot be meant or planned: no node would.
        of_policy: bool,
        /// A stable word.
        code: String,
        /// Why.
        reason: String,
        /// What to do.
        fix: Option<String>,
    },
}

impl Told {
    /// Write it down. The file is whole or not there.
    pub fn keep(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        serde_json::to_writer(&mut file, self)?;
        drop(file);
        fs::rename(new, path)
    }

    /// What was written down; none when the process ended before it could.
    pub fn of(path: &Path) -> Option<Told> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_an_order_is_left() {
        for text in [&b"\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"short", b"\x02\0\0\0\0\0\0\0{}"] {
            assert!(Order::read(&mut &text[..]).is_err());
        }
    }

    #[test]
    fn what_was_told_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told.json");
        assert_eq!(Told::of(&path), None);
        let told = Told::Ended {
            how: How::Exited(3),
            by: Some(EndedBy::Timeout),
            run_ms: 12,
            block: "oz0-node: x\n".into(),
            mechanism: None,
        };
        told.keep(&path).unwrap();
        assert_eq!(Told::of(&path), Some(told));
        fs::write(&path, "{\"ended\":{\"how\":").unwrap();
        assert_eq!(Told::of(&path), None);
    }
}
