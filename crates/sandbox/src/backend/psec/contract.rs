//! Which version a specification is sent in, and whether this Windows takes what it asks for.
//!
//! Version and feature bit are both asked: builds exist whose version is new enough and whose feature is off. A
//! part that is not supported is refused here, never left out. Build numbers decide nothing.

use oz0_fleet::{Contract, Features};

use super::spec::Specification;

/// The first contract, in which everything is sent that does not need a later one: a host refuses a specification
/// whose minor number it does not know (0x80070032, measured on 26200.9457), and a later host takes the first.
pub const FIRST: Contract = Contract { major: 1, minor: 0 };

/// The contract that has `fs_enumerate` and `ingress` (microsoft/mxc, ProcessSecurityEnvironment.fbs, 1.1).
pub const SECOND: Contract = Contract { major: 1, minor: 1 };

/// What this Windows supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Offered {
    /// Its contract.
    pub contract: Contract,
    /// Its optional features.
    pub features: Features,
}

/// A part of a specification that this Windows does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Another major number.
    #[error("this Windows offers PSEC contract {0}, and specifications are written for 1.x")]
    Major(Contract),
    /// A part needs a later contract.
    #[error("{part} need PSEC contract {needed}, and this Windows has {offered}")]
    Contract {
        /// What is asked for.
        part: &'static str,
        /// Since which contract it is there.
        needed: Contract,
        /// What this Windows has.
        offered: Contract,
    },
    /// A part needs a feature that is off.
    #[error("{part} need PSEC feature {bit:#x}, which this Windows does not report (it reports {offered})")]
    Feature {
        /// What is asked for.
        part: &'static str,
        /// The feature's bit.
        bit: u64,
        /// What this Windows reports.
        offered: Features,
    },
}

impl Offered {
    /// Is there this feature?
    pub const fn has(self, bit: u64) -> bool {
        self.features.0 & bit == bit
    }

    /// Can absent paths and the data directory be denied?
    pub const fn denies_paths(self) -> bool {
        self.has(Features::DENY_PATHS)
    }

    /// The version to send a specification in, or the part that this Windows does not take.
    ///
    /// The proxy form is not gated: what bit 0x2 means is not published, and where the form is ignored the
    /// container reaches nothing at all, which the self-test's egress check names.
    pub fn version_for(self, specification: &Specification) -> Result<Contract, Unsupported> {
        if self.contract.major != FIRST.major {
            return Err(Unsupported::Major(self.contract));
        }
        let feature = |part, bit| match self.has(bit) {
            true => Ok(()),
            false => Err(Unsupported::Feature { part, bit, offered: self.features }),
        };
        if !specification.deny.is_empty() {
            feature("denied paths", Features::DENY_PATHS)?;
        }
        if specification.enumerate.is_empty() {
            return Ok(FIRST);
        }
        let part = "paths that are listed only";
        if self.contract < SECOND {
            return Err(Unsupported::Contract { part, needed: SECOND, offered: self.contract });
        }
        feature(part, Features::ENUMERATE_PATHS)?;
        Ok(SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::psec::paths::WindowsPath;
    use crate::backend::psec::spec::Network;

    fn offered(contract: &str, features: u64) -> Offered {
        Offered { contract: contract.parse().unwrap(), features: Features(features) }
    }

    fn asking(deny: bool, enumerate: bool) -> Specification {
        let paths = |asked: bool| {
            let path: WindowsPath = r"C:\work".parse().unwrap();
            if asked { vec![path] } else { vec![] }
        };
        Specification {
            deny: paths(deny),
            enumerate: paths(enumerate),
            ..Specification::new(Network::Closed)
        }
    }

    /// The seen hosts and their peers: a specification stays in 1.0 unless it lists.
    #[test]
    fn the_first_contract_is_sent_unless_a_later_one_is_needed() {
        for host in [offered("1.0", 0x3), offered("1.1", 0xf), offered("1.2", 0xff)] {
            assert_eq!(host.version_for(&asking(false, false)), Ok(FIRST));
            assert_eq!(host.version_for(&asking(true, false)), Ok(FIRST));
        }
        assert_eq!(offered("1.1", 0xf).version_for(&asking(true, true)), Ok(SECOND));
        assert_eq!(offered("1.3", 0x5).version_for(&asking(true, true)), Ok(SECOND));
    }

    /// C016: what a machine cannot hold stops the run. Version and bit both have to be there.
    #[test]
    fn c016_what_is_not_supported_is_refused_by_name() {
        let deny = offered("1.1", 0xe).version_for(&asking(true, false)).unwrap_err();
        assert_eq!(
            deny.to_string(),
            "denied paths need PSEC feature 0x1, which this Windows does not report (it reports 0xe)"
        );
        let old = offered("1.0", 0x7).version_for(&asking(false, true)).unwrap_err();
        assert_eq!(
            old.to_string(),
            "paths that are listed only need PSEC contract 1.1, and this Windows has 1.0"
        );
        let off = offered("1.1", 0xb).version_for(&asking(false, true)).unwrap_err();
        assert!(matches!(off, Unsupported::Feature { bit: 0x4, .. }));
        for other in ["0.9", "2.0", "2.1"] {
            let refused = offered(other, 0xf).version_for(&asking(false, false));
            assert_eq!(refused, Err(Unsupported::Major(other.parse().unwrap())));
        }
    }

    #[test]
    fn without_lists_no_feature_is_needed() {
        assert_eq!(offered("1.0", 0).version_for(&asking(false, false)), Ok(FIRST));
    }
}
