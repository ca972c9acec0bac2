//! What confines a run.

use std::fmt;
use std::str::FromStr;

use super::Contract;
use crate::Unknown;
use crate::word::exact_text;

/// What confines a run at tier 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Namespaces, cgroups, seccomp and, where the kernel has it, Landlock: `linux`.
    Linux,
    /// Windows' process security environment with its contract: `psec 1.0`.
    Psec(Contract),
    /// macOS' own: `seatbelt`.
    Seatbelt,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mechanism::Linux => f.write_str("linux"),
            Mechanism::Psec(contract) => write!(f, "psec {contract}"),
            Mechanism::Seatbelt => f.write_str("seatbelt"),
        }
    }
}

impl FromStr for Mechanism {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        match text {
            "linux" => Ok(Mechanism::Linux),
            "seatbelt" => Ok(Mechanism::Seatbelt),
            _ => text
                .strip_prefix("psec ")
                .and_then(|contract| contract.parse().ok())
                .map(Mechanism::Psec)
                .ok_or(Unknown { expected: "a mechanism" }),
        }
    }
}

exact_text!(Mechanism);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c139_a_mechanism_has_one_spelling() {
        for word in ["linux", "psec 1.0", "psec 1.1", "seatbelt"] {
            assert_eq!(word.parse::<Mechanism>().unwrap().to_string(), word);
        }
        for other in [
            "",
            "Linux",
            "linux ",
            "psec",
            "psec ",
            "psec 1",
            "psec 1.0 ",
            "psec  1.0",
            "psec 1.00",
            "psec 01.0",
            "PSEC 1.0",
            "psec 1.0.0",
            "psec 1.0 (preview)",
            "psec -1.0",
            "psec 1.1000",
            "base-container",
        ] {
            assert!(other.parse::<Mechanism>().is_err(), "{other:?}");
        }
    }
}
