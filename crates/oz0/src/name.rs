//! What operators call things: tenants, nodes, triggers, labels. Plain enough to be shown anywhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A name: small letters, digits, `-`, `_` and `.`, the first a letter or a digit, at most 63.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadName {
    /// Of another form.
    #[error("not a name: small letters, digits, - _ and . only, the first a letter or a digit, at most 63")]
    Form,
    /// A label that looks like a tier.
    #[error("a label is never a tier: tiers come from a node's self-test")]
    Tier,
}

impl Name {
    /// It.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Name, BadName> {
        let first =
            text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let rest = text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
        });
        if first && rest && text.len() <= 63 { Ok(Name(text.to_owned())) } else { Err(BadName::Form) }
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Name, BadName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

/// A label of a node, given by an operator: it reserves, it never raises.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(Name);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Label {
    type Err = BadName;

    /// C173: a node's tier is what its self-test showed, so nothing that reads like one is a label.
    fn from_str(text: &str) -> Result<Label, BadName> {
        let name: Name = text.parse()?;
        if name.0.starts_with("tier") { Err(BadName::Tier) } else { Ok(Label(name)) }
    }
}

impl TryFrom<String> for Label {
    type Error = BadName;

    fn try_from(text: String) -> Result<Label, BadName> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> String {
        label.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c173_a_label_is_never_a_tier() {
        for other in ["tier1", "tier-1", "tier", "tier_1.gpu"] {
            assert_eq!(other.parse::<Label>(), Err(BadName::Tier), "{other}");
        }
        assert_eq!("gpu".parse::<Label>().unwrap().to_string(), "gpu");
    }

    #[test]
    fn names_are_plain() {
        for name in ["a", "0", "build-7.lan", "a_b"] {
            assert_eq!(name.parse::<Name>().unwrap().as_str(), name);
        }
        for other in ["", "-a", ".", "A", "a b", "a/b", "<b>", "é", &"a".repeat(64)] {
            assert_eq!(other.parse::<Name>(), Err(BadName::Form), "{other:?}");
        }
    }
}
