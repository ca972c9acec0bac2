//! Where work that needs tier 1 may go: the one table, what follows from it for a node, and how a node's tier
//! is shown. Knows no queue and no job.

use crate::word::words;
use crate::{Facts, Tier};

words! {
    /// A node's platform.
    pub enum Platform, "a platform" {
        /// Linux.
        Linux = "linux",
        /// Windows.
        Windows = "windows",
        /// macOS.
        Macos = "macos",
        /// Any other.
        Other = "other",
    }
}

impl Platform {
    /// The highest tier that work is routed as. Opening a platform is one line here.
    pub const fn routed_up_to(self) -> Tier {
        match self {
            Platform::Linux => Tier::One,
            Platform::Macos => Tier::One,
            Platform::Windows => Tier::Zero,
            Platform::Other => Tier::Zero,
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Platform::Linux => "Linux",
            Platform::Windows => "Windows",
            Platform::Macos => "macOS",
            Platform::Other => "this platform",
        }
    }
}

/// What a node's work is routed as.
pub fn routed_tier(facts: &Facts) -> Tier {
    facts.rechecked().tier.min(facts.platform().routed_up_to())
}

/// A node's tier as three facts: `tier 1 (psec 1.0, routed as tier 0)`. What is the same as shown is not
/// repeated.
pub fn shown(facts: &Facts) -> String {
    let facts = facts.rechecked();
    let mut notes = Vec::new();
    if let Some(mechanism) = facts.mechanism {
        notes.push(mechanism.to_string());
    }
    if facts.asked != facts.tier {
        notes.push(format!("asked for {}", facts.asked));
    }
    let routed = routed_tier(&facts);
    if routed != facts.tier {
        notes.push(format!("routed as {routed}"));
    }
    if notes.is_empty() { facts.tier.to_string() } else { format!("{} ({})", facts.tier, notes.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::{linux, windows};
    use crate::{Contract, Mechanism, Property, System};

    #[test]
    fn linux_and_macos_are_routed_as_tier_one_and_windows_is_not() {
        let routed = Platform::ALL.map(|platform| (platform, platform.routed_up_to() == Tier::One));
        assert_eq!(
            routed,
            [
                (Platform::Linux, true),
                (Platform::Windows, false),
                (Platform::Macos, true),
                (Platform::Other, false)
            ]
        );
    }

    #[test]
    fn a_node_is_routed_by_what_its_self_test_showed() {
        let asked = Facts { asked: Tier::One, ..windows() };
        let psec = Mechanism::Psec(Contract { major: 1, minor: 0 });
        let macos = Facts::probed(Tier::One, System::Macos);
        for (facts, routed, words) in [
            (linux(), Tier::Zero, "tier 0 (asked for tier 1)"),
            (linux().with_verdict(Ok(Mechanism::Linux)), Tier::One, "tier 1 (linux)"),
            (linux().with_verdict(Err(Property::Files)), Tier::Zero, "tier 0 (asked for tier 1)"),
            (windows(), Tier::Zero, "tier 0"),
            (asked.with_verdict(Ok(psec)), Tier::Zero, "tier 1 (psec 1.0, routed as tier 0)"),
            (asked.with_verdict(Err(Property::Egress)), Tier::Zero, "tier 0 (asked for tier 1)"),
            (macos.with_verdict(Ok(Mechanism::Seatbelt)), Tier::One, "tier 1 (seatbelt)"),
            (macos, Tier::Zero, "tier 0 (asked for tier 1)"),
        ] {
            assert_eq!(routed_tier(&facts), routed, "{words}");
            assert_eq!(shown(&facts), words);
        }
    }

    #[test]
    fn a_tier_that_was_only_claimed_routes_nothing() {
        let claimed = Facts { tier: Tier::One, mechanism: None, ..linux() };
        assert_eq!(routed_tier(&claimed), Tier::Zero);
        assert_eq!(shown(&claimed), "tier 0 (asked for tier 1)");
    }
}
