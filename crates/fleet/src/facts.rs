//! What a node reports about itself: one field a fact, each a number or a word of a closed set.
//!
//! There is no text in it anywhere (the type is `Copy`), so nothing that a stranger wrote can be printed from
//! it. Findings are kinds; the words for them are in [`crate::check`] and [`crate::Fix`]. It does not know how a
//! fact is found out, nor how a report travels.

mod linux;
mod mechanism;
mod reported;
mod windows;

use serde::Serialize;

pub use linux::{Cgroup, Kernel, Landlock, Linux, Namespaces, Seccomp, User};
pub use mechanism::Mechanism;
pub use reported::Reported;
pub use windows::{Build, Contract, Edition, Features, Psec, Windows};

use crate::{Platform, Property, Tier};

/// What a node found about itself and what its self-test showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The tier that the node was started for.
    pub asked: Tier,
    /// The tier that its self-test showed.
    pub tier: Tier,
    /// What confines a run; only together with tier 1.
    pub mechanism: Option<Mechanism>,
    /// The first of the eight that failed.
    pub failed: Option<Property>,
    /// What the probe found.
    #[serde(flatten)]
    pub system: System,
}

/// What a probe found, by platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "platform", rename_all = "lowercase")]
pub enum System {
    /// Linux.
    Linux(Linux),
    /// Windows.
    Windows(Windows),
    /// macOS.
    Macos,
    /// Any other, and whatever a report did not say.
    Other,
}

impl Facts {
    /// What a probe alone gives: tier 0.
    pub const fn probed(asked: Tier, system: System) -> Facts {
        Facts { asked, tier: Tier::Zero, mechanism: None, failed: None, system }
    }

    /// The same after a self-test: tier 1 with its mechanism when all hold and the findings allow it, else
    /// tier 0 with the property that failed.
    #[must_use]
    pub fn with_verdict(self, verdict: Result<Mechanism, Property>) -> Facts {
        let verdict = match verdict {
            Ok(mechanism) => Facts { tier: Tier::One, mechanism: Some(mechanism), failed: None, ..self },
            Err(property) => Facts { tier: Tier::Zero, mechanism: None, failed: Some(property), ..self },
        };
        verdict.rechecked()
    }

    /// The platform.
    pub const fn platform(&self) -> Platform {
        match self.system {
            System::Linux(_) => Platform::Linux,
            System::Windows(_) => Platform::Windows,
            System::Macos => Platform::Macos,
            System::Other => Platform::Other,
        }
    }

    /// Tier 1 only where everything else in the report agrees with it, whatever it claims.
    #[must_use]
    pub(crate) fn rechecked(self) -> Facts {
        let earned = self.tier == Tier::One
            && self.asked == Tier::One
            && self.failed.is_none()
            && match (self.system, self.mechanism) {
                (System::Linux(linux), Some(Mechanism::Linux)) => linux.is_complete(),
                (System::Windows(windows), Some(Mechanism::Psec(contract))) => windows.runs(contract),
                (System::Macos, Some(Mechanism::Seatbelt)) => true,
                _ => false,
            };
        if earned { self } else { Facts { tier: Tier::Zero, mechanism: None, ..self } }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A Linux machine that has everything.
    pub(crate) fn linux() -> Facts {
        Facts::probed(
            Tier::One,
            System::Linux(Linux {
                kernel: "6.18.44".parse().ok(),
                user: User::new(1000),
                namespaces: Some(Namespaces::Open),
                cgroup: Some(Cgroup::V2),
                landlock: Landlock::new(7),
                seccomp: Some(Seccomp::Works),
            }),
        )
    }

    /// The Windows machine that was seen.
    pub(crate) fn windows() -> Facts {
        Facts::probed(
            Tier::Zero,
            System::Windows(Windows {
                build: "26200.9457".parse().ok(),
                edition: Edition::Client,
                psec: Psec::Usable,
                contract: "1.0".parse().ok(),
                features: Some(Features(3)),
            }),
        )
    }

    pub(crate) fn windows_with(change: impl FnOnce(&mut Windows)) -> Facts {
        let mut facts = windows();
        if let System::Windows(windows) = &mut facts.system {
            change(windows);
        }
        facts
    }

    pub(crate) fn linux_with(change: impl FnOnce(&mut Linux)) -> Facts {
        let mut facts = linux();
        if let System::Linux(linux) = &mut facts.system {
            change(linux);
        }
        facts
    }

    const PSEC: Mechanism = Mechanism::Psec(Contract { major: 1, minor: 0 });

    #[test]
    fn a_verdict_gives_the_tier() {
        let passed = linux().with_verdict(Ok(Mechanism::Linux));
        assert_eq!((passed.tier, passed.mechanism), (Tier::One, Some(Mechanism::Linux)));
        let failed = passed.with_verdict(Err(Property::Egress));
        assert_eq!(
            (failed.tier, failed.mechanism, failed.failed),
            (Tier::Zero, None, Some(Property::Egress))
        );
        assert_eq!(failed.with_verdict(Ok(Mechanism::Linux)), passed);
    }

    #[test]
    fn tier_one_needs_every_other_field_to_agree() {
        let earned = |facts: Facts, mechanism| facts.with_verdict(Ok(mechanism)).tier == Tier::One;
        let asked = |facts: Facts| Facts { asked: Tier::One, ..facts };
        assert!(earned(linux(), Mechanism::Linux));
        assert!(earned(linux_with(|linux| linux.landlock = Landlock::new(0)), Mechanism::Linux));
        assert!(earned(asked(windows()), PSEC));

        assert!(!earned(linux(), PSEC));
        assert!(!earned(linux(), Mechanism::Seatbelt));
        assert!(!earned(linux_with(|linux| linux.namespaces = None), Mechanism::Linux));
        assert!(!earned(linux_with(|linux| linux.namespaces = Some(Namespaces::AppArmor)), Mechanism::Linux));
        assert!(!earned(linux_with(|linux| linux.cgroup = Some(Cgroup::ReadOnly)), Mechanism::Linux));
        assert!(!earned(linux_with(|linux| linux.seccomp = Some(Seccomp::Missing)), Mechanism::Linux));
        assert!(!earned(windows(), PSEC), "nobody started it with --sandbox psec");
        assert!(!earned(asked(windows()), Mechanism::Psec(Contract { major: 1, minor: 1 })));
        assert!(!earned(asked(windows_with(|windows| windows.edition = Edition::Server)), PSEC));
        assert!(!earned(asked(windows_with(|windows| windows.edition = Edition::Unknown)), PSEC));
        assert!(!earned(asked(windows_with(|windows| windows.psec = Psec::Off)), PSEC));
        assert!(!earned(asked(windows_with(|windows| windows.build = None)), PSEC));
        assert!(!earned(Facts::probed(Tier::One, System::Other), Mechanism::Linux));
    }

    /// Nothing of a sender's can be in it: a type that holds text is not `Copy`.
    #[test]
    fn facts_hold_no_text() {
        fn copied<T: Copy + 'static>(value: &T) -> T {
            *value
        }
        assert_eq!(copied(&linux()), linux());
        assert!(size_of::<Facts>() <= 128);
    }
}
