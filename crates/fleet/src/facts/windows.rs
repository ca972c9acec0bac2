//! What a Windows node found: which build and edition it is, and what of PSEC is there.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::Unknown;
use crate::word::{exact_text, number, words};

/// What the probe found on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Windows {
    /// The build, for people: nothing is decided by it.
    pub build: Option<Build>,
    /// Client or server.
    pub edition: Edition,
    /// Whether PSEC is here and works.
    pub psec: Psec,
    /// PSEC's contract.
    pub contract: Option<Contract>,
    /// PSEC's optional features.
    pub features: Option<Features>,
}

impl Windows {
    /// Is this a machine on which a run in this contract is possible?
    pub fn runs(&self, contract: Contract) -> bool {
        self.edition == Edition::Client
            && self.psec == Psec::Usable
            && self.contract == Some(contract)
            && self.build.is_some()
    }
}

/// A build with its revision: `26200.9457`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// 26200: one number a release.
    pub number: u32,
    /// 9457: which update of it.
    pub revision: u32,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number, self.revision)
    }
}

impl FromStr for Build {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let (build, revision) = text.split_once('.').unwrap_or_default();
        match (number(build, 6), number(revision, 6)) {
            (Some(number), Some(revision)) => Ok(Build { number, revision }),
            _ => Err(Unknown { expected: "a build" }),
        }
    }
}

exact_text!(Build);

/// PSEC's contract: `1.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contract {
    /// 1.
    pub major: u16,
    /// 0.
    pub minor: u16,
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Contract {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let (major, minor) = text.split_once('.').unwrap_or_default();
        match (number(major, 3), number(minor, 3)) {
            (Some(major), Some(minor)) => Ok(Contract { major, minor }),
            _ => Err(Unknown { expected: "a contract" }),
        }
    }
}

exact_text!(Contract);

/// The bits that PSEC reports of its optional parts; as text `0x3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// Paths can be denied.
    pub const DENY_PATHS: u64 = 0x1;
    /// Paths can be allowed for listing only.
    pub const ENUMERATE_PATHS: u64 = 0x4;
    /// What comes in is ruled on.
    pub const INGRESS: u64 = 0x8;
    /// What a policy decided is told.
    pub const POLICY_RESULTS: u64 = 0x10;

    const NAMED: [(u64, &'static str); 4] = [
        (Features::DENY_PATHS, "deny paths"),
        (Features::ENUMERATE_PATHS, "enumerate paths"),
        (Features::INGRESS, "ingress"),
        (Features::POLICY_RESULTS, "policy results"),
    ];

    /// For people: every bit, those without a name together as one entry.
    pub fn words(self) -> String {
        let named = Features::NAMED.iter().filter(|(bit, _)| self.0 & bit != 0);
        let mut words: Vec<String> = named.map(|(_, word)| (*word).to_owned()).collect();
        let others = Features::NAMED.iter().fold(self.0, |rest, (bit, _)| rest & !bit);
        if others != 0 {
            words.push(format!("flags {others:#x}, which MXC v1.0.0 does not name"));
        }
        if words.is_empty() { "no optional features".to_owned() } else { words.join(", ") }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for Features {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = Unknown { expected: "feature bits" };
        let digits = text.strip_prefix("0x").ok_or(unknown)?;
        let hexadecimal = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !hexadecimal || (digits != "0" && digits.starts_with('0')) {
            return Err(unknown);
        }
        u64::from_str_radix(digits, 16).map(Features).map_err(|_| unknown)
    }
}

exact_text!(Features);

words! {
    /// Client or server, which is asked first: a server is not probed.
    pub enum Edition, "an edition" {
        /// Windows 11 and its like.
        Client = "client",
        /// Windows Server.
        Server = "server",
        /// Not to be determined; asked again at the next start.
        Unknown = "unknown",
    }
}

words! {
    /// What of PSEC is there.
    pub enum Psec, "a finding about PSEC" {
        /// It was not asked for.
        NotProbed = "not-probed",
        /// The system has none.
        Absent = "absent",
        /// It is on the disk and switched off.
        Off = "off",
        /// The administrator's policy forbids it.
        Forbidden = "forbidden",
        /// It is there, and a step of using it failed in another way.
        Failed = "failed",
        /// A minimal environment could be made.
        Usable = "usable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_and_contracts_have_one_form() {
        for build in ["26200.9457", "19044.1", "26300.0"] {
            assert_eq!(build.parse::<Build>().unwrap().to_string(), build);
        }
        for other in
            ["", "26200", "26200.", ".9457", "26200.9457.1", "026200.1", "26200.9457 ", "2620000.1", "x.1"]
        {
            assert!(other.parse::<Build>().is_err(), "{other:?}");
        }
        for other in ["", "1", "1.", ".0", "1.0.0", "01.0", "1.00", " 1.0", "1.0\n", "1,0", "1000.0"] {
            assert!(other.parse::<Contract>().is_err(), "{other:?}");
        }
    }

    #[test]
    fn feature_bits_have_one_form() {
        for bits in ["0x0", "0x3", "0xf", "0xffffffffffffffff"] {
            assert_eq!(bits.parse::<Features>().unwrap().to_string(), bits);
        }
        for other in ["", "0x", "3", "0x03", "0xF", "0X3", "0x10000000000000000", "0x+3", "0x 3", "0x3 "] {
            assert!(other.parse::<Features>().is_err(), "{other:?}");
        }
    }

    #[test]
    fn every_bit_is_decoded() {
        for (bits, words) in [
            (0x0, "no optional features"),
            (0x3, "deny paths, flags 0x2, which MXC v1.0.0 does not name"),
            (0x1d, "deny paths, enumerate paths, ingress, policy results"),
            (0xf, "deny paths, enumerate paths, ingress, flags 0x2, which MXC v1.0.0 does not name"),
            (0x8000_0000_0000_0022, "flags 0x8000000000000022, which MXC v1.0.0 does not name"),
        ] {
            assert_eq!(Features(bits).words(), words);
        }
    }
}
