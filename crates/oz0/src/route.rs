//! Routing: which nodes may take a job, and for every other node why not. One pure function, [`judge`]; the queue,
//! a dry run, the reason why a job waits and the pages all call it, so that they never disagree (T7, C161, C172).
//!
//! A node's tier here is what its self-test showed as far as its platform is routed, by `oz0_fleet::platform` alone;
//! labels reserve nodes and are never a tier. It knows no queue, no clock and no database.

mod node;
mod words;

use std::collections::BTreeSet;

use oz0_fleet::protocol::{Kind, Milliseconds, NodeId, NodeState, Obstacle, Timestamp, Work};
use oz0_fleet::{Platform, Tier};
use serde::{Deserialize, Serialize};

use crate::name::Label;

pub use node::Node;

/// A self-test that is older than this is not believed any more.
pub const FRESH: Milliseconds = Milliseconds::seconds(24 * 3600);
/// A node that was not heard of for this long is off line. A poll is answered well within it.
pub const ON_LINE: Milliseconds = Milliseconds::seconds(90);
/// After so many launches that failed in a row a node is set aside.
pub const FAILURES: u16 = 3;

/// What a job asks of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The least tier it runs at.
    pub tier: Tier,
    /// What it is.
    pub kind: Kind,
    /// Labels that its node has.
    pub labels: BTreeSet<Label>,
}

impl Need {
    /// What this work needs.
    pub fn of(work: &Work, labels: BTreeSet<Label>) -> Need {
        Need { tier: work.tier, kind: work.kind, labels }
    }
}

/// Why a node does not take a job: a closed set, in the order in which it is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Because {
    /// Two machines have its key.
    Held,
    /// It was revoked.
    Revoked,
    /// It enrolled and never reported.
    NeverReported,
    /// Nothing was heard of it for this long.
    OffLine {
        /// So long.
        silent_ms: Milliseconds,
    },
    /// It takes nothing new.
    Draining,
    /// It is routed as a lower tier than the job needs.
    Tier {
        /// Of which platform it is.
        platform: Platform,
        /// What its self-test showed.
        shown: Tier,
        /// What the job needs.
        needs: Tier,
    },
    /// The self-test that gave its tier is too old.
    Stale {
        /// So old.
        age_ms: Milliseconds,
    },
    /// It lacks a label that the job asks for.
    Lacks {
        /// That one.
        label: Label,
    },
    /// It is kept for jobs that ask for one of its labels.
    Reserved {
        /// These.
        labels: BTreeSet<Label>,
    },
    /// Its last launches failed.
    Aside {
        /// So many in a row.
        failures: u16,
        /// The last one for this reason.
        obstacle: Obstacle,
        /// It is tried again after this long.
        again_ms: Milliseconds,
    },
    /// It could, and has its hands full.
    Busy {
        /// So many it runs.
        running: u16,
        /// So many it may.
        most: u16,
    },
}

impl Because {
    /// Is it one of the nodes that could take the job, but for what passes by itself?
    pub const fn is_busy(&self) -> bool {
        matches!(self, Because::Busy { .. })
    }
}

/// May this node take a job with this need now?
pub fn judge(need: &Need, node: &Node, now: Timestamp) -> Result<(), Because> {
    match node.state {
        NodeState::Held => return Err(Because::Held),
        NodeState::Revoked => return Err(Because::Revoked),
        NodeState::Active | NodeState::Draining => {}
    }
    let Some(facts) = node.facts else { return Err(Because::NeverReported) };
    let silent_ms = now.since(node.seen);
    if silent_ms > ON_LINE {
        return Err(Because::OffLine { silent_ms });
    }
    if node.state == NodeState::Draining {
        return Err(Because::Draining);
    }
    if node.routed() < need.tier {
        return Err(Because::Tier { platform: facts.platform(), shown: facts.tier, needs: need.tier });
    }
    if need.tier == Tier::One {
        // No self-test that is dated is one that is too old.
        let age_ms = node.tested.map_or(Milliseconds::new(u64::MAX), |tested| now.since(tested));
        if age_ms > FRESH {
            return Err(Because::Stale { age_ms });
        }
    }
    if let Some(label) = need.labels.iter().find(|label| !node.labels.contains(*label)) {
        return Err(Because::Lacks { label: label.clone() });
    }
    if node.reserved && need.labels.is_empty() {
        return Err(Because::Reserved { labels: node.labels.clone() });
    }
    let mut most = node.most_jobs;
    if let (FAILURES.., Some(obstacle), Some(until)) = (node.failures, node.obstacle, node.aside_until) {
        let again_ms = until.since(now);
        if again_ms > Milliseconds::default() {
            return Err(Because::Aside { failures: node.failures, obstacle, again_ms });
        }
        // On trial: one job, then all or none.
        most = most.min(1);
    }
    if node.running >= most {
        return Err(Because::Busy { running: node.running, most });
    }
    Ok(())
}

/// As many jobs as a node that [`judge`] lets take some may be given at once.
pub fn room(node: &Node) -> u16 {
    let most = if node.failures >= FAILURES { node.most_jobs.min(1) } else { node.most_jobs };
    most.saturating_sub(node.running)
}

/// Where a job may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Routing {
    /// What it needs.
    pub need: Need,
    /// Who takes it now, the least special first (C173).
    pub takes: Vec<Route>,
    /// Who does not, and why.
    pub others: Vec<Other>,
}

/// A node that takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Which.
    pub node: NodeId,
    /// What the operator calls it.
    pub name: crate::name::Name,
}

/// A node that does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// Which.
    pub node: NodeId,
    /// What the operator calls it.
    pub name: crate::name::Name,
    /// Why not.
    #[serde(flatten)]
    pub because: Because,
    /// The same in words.
    pub words: String,
}

/// Judge every node of a tenant.
pub fn route<'a>(need: &Need, nodes: impl IntoIterator<Item = &'a Node>, now: Timestamp) -> Routing {
    let mut takes = Vec::new();
    let mut others = Vec::new();
    for node in nodes {
        match judge(need, node, now) {
            Ok(()) => takes.push(node),
            Err(because) => others.push(Other {
                node: node.node,
                name: node.name.clone(),
                words: because.to_string(),
                because,
            }),
        }
    }
    takes.sort_by_key(|node| (special(need, node), node.running, node.node));
    let takes = takes.into_iter().map(|node| Route { node: node.node, name: node.name.clone() }).collect();
    Routing { need: need.clone(), takes, others }
}

/// How much more a node is than the job asks for: a tier, labels.
pub(crate) fn special(need: &Need, node: &Node) -> (Tier, usize) {
    (node.routed().max(need.tier), node.labels.len().saturating_sub(need.labels.len()))
}

#[cfg(test)]
mod tests;
