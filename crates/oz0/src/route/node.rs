//! A node as everyone sees it: routing, pages, the command line and the API share this one view (C160).

use std::collections::BTreeSet;

use oz0_fleet::protocol::{Milliseconds, NodeId, NodeState, Obstacle, StartId, TenantId, Timestamp};
use oz0_fleet::{Facts, Fix, Tier, platform};
use serde::Serialize;

use crate::name::{Label, Name};

/// A node. Every text in it was typed by an operator, is an id or an address: a node's own words are in none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its id, from its key.
    pub node: NodeId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What the operator calls it.
    pub name: Name,
    /// What the operator lets it do.
    pub state: NodeState,
    /// Its labels.
    pub labels: BTreeSet<Label>,
    /// Is it kept for jobs that ask for one of them?
    pub reserved: bool,
    /// Does it stay however long it is not seen?
    pub keep: bool,
    /// When it enrolled.
    pub enrolled: Timestamp,
    /// When anything signed by it came in last: the one notion of liveness (C155).
    pub seen: Timestamp,
    /// From where.
    pub address: String,
    /// The other machine, where two have its key (C175).
    pub other_address: Option<String>,
    /// Its last start that reported.
    pub start: Option<StartId>,
    /// When.
    pub reported: Option<Timestamp>,
    /// What it reported, as far as it is believed.
    pub facts: Option<Facts>,
    /// When its self-test ran.
    pub tested: Option<Timestamp>,
    /// How long that took.
    pub test_took_ms: Option<Milliseconds>,
    /// As many jobs as it runs at once.
    pub most_jobs: u16,
    /// When it first was routed as tier 1.
    pub earned: Option<Timestamp>,
    /// Launches that failed in a row.
    pub failures: u16,
    /// Why the last one did.
    pub obstacle: Option<Obstacle>,
    /// Until when it is set aside.
    pub aside_until: Option<Timestamp>,
    /// Jobs that it has.
    pub running: u16,
}

impl Node {
    /// What its work is routed as.
    pub fn routed(&self) -> Tier {
        self.facts.map_or(Tier::Zero, |facts| platform::routed_tier(&facts))
    }

    /// Its tier as three facts (T6): `tier 1 (psec 1.0, routed as tier 0)`.
    pub fn tier_words(&self) -> String {
        self.facts.map_or_else(|| "not reported".to_owned(), |facts| platform::shown(&facts))
    }

    /// What to do, where it could hold more.
    pub fn fix(&self) -> Option<Fix> {
        self.facts.and_then(|facts| Fix::of(&facts))
    }

    /// Was it heard of lately?
    pub fn on_line(&self, now: Timestamp) -> bool {
        now.since(self.seen) <= super::ON_LINE
    }
}
