//! The two tiers. What a node's tier is routed as is the platform table's business.

crate::word::words! {
    /// With which permissions work runs.
    pub enum Tier, "a tier" {
        /// With the node's own.
        Zero = "tier 0",
        /// In a sandbox whose eight properties hold.
        One = "tier 1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C139: only the exact known value counts.
    #[test]
    fn c139_a_tier_has_one_spelling() {
        assert_eq!("tier 0".parse(), Ok(Tier::Zero));
        assert_eq!("tier 1".parse(), Ok(Tier::One));
        for other in [
            "",
            "0",
            "1",
            "Tier 1",
            "TIER 1",
            "tier1",
            "tier-1",
            "tier  1",
            " tier 1",
            "tier 1 ",
            "tier 1\n",
            "tier 2",
            "tier 01",
            "tier 1 (psec 1.0)",
            "base-container",
            "null",
            "{",
        ] {
            assert!(other.parse::<Tier>().is_err(), "{other:?}");
        }
        for other in ["null", "17", "1", "\"\"", "\"Tier 1\"", "[\"tier 1\"]", "{\"tier\":1}", "{", "true"] {
            assert!(serde_json::from_str::<Tier>(other).is_err(), "{other}");
        }
    }

    #[test]
    fn tier_one_is_more() {
        assert!(Tier::One > Tier::Zero);
    }
}
