//! Becoming a node, and telling what the machine is.

use serde::{Deserialize, Serialize};

use super::{Base64, Milliseconds, NodeId, Secret, TenantId, Version, Versions};
use crate::Tier;
use crate::word::words;

/// Let this key be a node's. The request is signed with it; the id in the signature is the key's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    /// The one-use token that an operator gave out.
    pub token: Secret,
    /// The Ed25519 public key, 32 bytes.
    pub key: Base64,
    /// What the node speaks.
    pub speaks: Versions,
}

/// It is. The same request again, with the same token and key, gets the same answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// The node's id.
    pub node: NodeId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What to speak.
    pub speak: Version,
}

/// What the machine is, as facts: sent first at every start, and after every self-test. A node sends it with
/// [`crate::Facts`], an edge reads it with [`crate::Reported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report<F> {
    /// What the node speaks.
    pub speaks: Versions,
    /// The facts.
    pub facts: F,
    /// The self-test that gave the facts' tier; none when none ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_test: Option<SelfTest>,
    /// The most jobs the node would run at once.
    pub most_jobs: u16,
}

/// When a self-test ran, told by age so that no two clocks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTest {
    /// How long before the request it ended.
    pub age_ms: Milliseconds,
    /// How long it took.
    pub took_ms: Milliseconds,
}

words! {
    /// What an operator lets a node do.
    pub enum NodeState, "a node's state" {
        /// Take work.
        Active = "active",
        /// Finish what it has and take nothing new.
        Draining = "draining",
        /// Nothing, until an operator says which of two machines it is.
        Held = "held",
        /// Nothing, ever.
        Revoked = "revoked",
    }
}

/// The report was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// What to speak.
    pub speak: Version,
    /// What the node's work is routed as.
    pub routed: Tier,
    /// What the operator lets it do.
    pub state: NodeState,
    /// Report again after this long, with a self-test that is younger.
    pub report_again_ms: Milliseconds,
}
