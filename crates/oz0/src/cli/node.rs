//! `oz0 node` and `oz0 nodes`.

use std::collections::BTreeSet;
use std::io::Write;

use clap::{Args, Subcommand};
use oz0_fleet::Tier;
use oz0_fleet::protocol::{Kind, Milliseconds, NodeId, Timestamp};
use serde_json::json;

use super::table::table;
use super::{Answers, CliError, OfTenant, Result};
use crate::chance::{now, token};
use crate::name::{Label, Name};
use crate::route::{Need, Node, judge};
use crate::store::Store;
use crate::store::nodes::{Settle, Settlement};
use crate::store::tenants::GiveNodeToken;

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a token with which one machine becomes a node; shown once, used once
    Token {
        #[command(flatten)]
        of: OfTenant,
        /// What the node will be called
        #[arg(long)]
        name: Name,
        /// A label of the node; may be given again
        #[arg(long, value_name = "LABEL")]
        label: Vec<Label>,
        /// Keep the node for jobs that ask for one of its labels
        #[arg(long, requires = "label")]
        reserve: bool,
        /// For how many hours the token can be used
        #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=720))]
        hours: u64,
    },
    /// Show one node, with what its tier was
    Show {
        /// Which
        node: NodeId,
    },
    /// Give it nothing new
    Drain {
        /// Which
        node: NodeId,
    },
    /// Let it take work again: after draining, or once the copy of its key is gone
    Activate {
        /// Which
        node: NodeId,
    },
    /// Remove it for good: its key is not taken again
    Revoke {
        /// Which
        node: NodeId,
    },
    /// Keep it in the list however long it is not seen
    Keep {
        /// Which
        node: NodeId,
        /// Keep it no longer
        #[arg(long)]
        no: bool,
    },
}

impl Verb {
    pub(super) async fn run(self, store: &Store, out: &mut Answers<'_, impl Write>) -> Result<()> {
        let (node, how) = match self {
            Verb::Token { of, name, label, reserve, hours } => {
                let tenant = of.find(store).await?.tenant;
                let (token, digest) = token("oz0-node-")?;
                let expires = now().after(Milliseconds::seconds(hours * 3600));
                let labels = BTreeSet::from_iter(label);
                store.act(GiveNodeToken { digest, tenant, name, labels, reserved: reserve, expires }).await?;
                return out.give(&json!({"token": token, "expires": expires}), || token.clone());
            }
            Verb::Show { node } => return show(store, node, out).await,
            Verb::Drain { node } => (node, Settlement::Drain),
            Verb::Activate { node } => (node, Settlement::Activate),
            Verb::Revoke { node } => (node, Settlement::Revoke),
            Verb::Keep { node, no } => (node, Settlement::Keep(!no)),
        };
        if !store.act(Settle { node, how }).await? {
            return Err(CliError::NoNode(node));
        }
        let node = store.node(node).await?.ok_or(CliError::NoNode(node))?;
        out.give(&node, || format!("{} is {}", node.name, node.state))
    }
}

async fn show(store: &Store, id: NodeId, out: &mut Answers<'_, impl Write>) -> Result<()> {
    let node = store.node(id).await?.ok_or(CliError::NoNode(id))?;
    let history = store.tier_history(id).await?;
    out.give(&json!({"node": node, "tier": node.tier_words(), "history": history}), || {
        let now = now();
        let mut text =
            format!("{} {}\n{}\n{}\n", node.name, node.node, node.tier_words(), liveness(&node, now));
        if let Some(fix) = node.fix() {
            text.push_str(&format!("Fix: {fix}\n"));
        }
        if let Some(other) = &node.other_address {
            text.push_str(&format!("the same identity from two machines: {} and {other}\n", node.address));
        }
        for standing in history {
            let failed = standing.facts.failed.map(|failed| format!(", {failed} failed")).unwrap_or_default();
            let shown = oz0_fleet::platform::shown(&standing.facts);
            text.push_str(&format!("{} ago: {shown}{failed}\n", now.since(standing.at)));
        }
        text
    })
}

/// The one notion of liveness, in words.
fn liveness(node: &Node, now: Timestamp) -> String {
    let silent = now.since(node.seen);
    match (node.reported, node.on_line(now)) {
        (None, _) => format!("{}, never reported", node.state),
        (Some(_), true) => format!("{}, on line, {} jobs", node.state, node.running),
        (Some(_), false) => format!("{}, off line {silent}", node.state),
    }
}

/// Which nodes.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    of: OfTenant,
    /// Only those that take tier-1 work now
    #[arg(long)]
    takes_tier_1: bool,
}

impl List {
    pub(super) async fn run(self, store: &Store, out: &mut Answers<'_, impl Write>) -> Result<()> {
        let tenant = self.of.find(store).await?.tenant;
        let now = now();
        let mut nodes = store.nodes(tenant).await?;
        if self.takes_tier_1 {
            // The routing's own function: reserved nodes are asked as if by who asks for them.
            nodes.retain(|node| {
                let labels = if node.reserved { node.labels.clone() } else { BTreeSet::new() };
                judge(&Need { tier: Tier::One, kind: Kind::Command, labels }, node, now).is_ok()
            });
        }
        out.give(&nodes, || {
            let row = |node: &Node| {
                let platform = node.facts.map_or("unknown", |facts| facts.platform().name());
                [
                    node.name.to_string(),
                    platform.to_owned(),
                    node.tier_words(),
                    liveness(node, now),
                    node.fix().map(|fix| fix.code()).unwrap_or_default().to_owned(),
                    node.node.to_string(),
                ]
            };
            table(["node", "platform", "tier", "state", "fix", "id"], nodes.iter().map(row))
        })
    }
}
