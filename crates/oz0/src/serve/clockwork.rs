//! What happens by the clock: the sweep, when nodes were seen, and waking nodes for what was queued elsewhere.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::chance::now;
use crate::edge::Edge;
use crate::store::Result;
use crate::store::sweep::{Sweep, Swept};

/// Other oz0 and the command line queue jobs and cancel them; without a word from the database they are found then.
const LOOK: Duration = Duration::from_secs(1);
/// When nodes were seen is written down this often: well within the time after which one is off line.
const SEEN: u32 = 5;

pub(super) async fn run(edge: Arc<Edge>, mut stopped: watch::Receiver<bool>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count: u32 = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        count = count.wrapping_add(1);
        if let Err(error) = tick(&edge, count.is_multiple_of(SEEN)).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the sweep failed; it is tried again");
        }
    }
}

async fn tick(edge: &Edge, seen: bool) -> Result<()> {
    if seen {
        edge.keep_seen().await?;
    }
    let swept = edge.store.act(Sweep { now: now() }).await?;
    if swept != Swept::default() {
        tracing::info!(again = swept.again, ended = swept.ended, "swept");
    }
    // Nobody waits, nobody is woken.
    if edge.waiting() == 0 {
        return Ok(());
    }
    for (tenant, need) in edge.store.queued_needs().await? {
        edge.heard(tenant, &need);
    }
    for node in edge.store.nodes_to_cancel().await? {
        edge.tell(node);
    }
    Ok(())
}
