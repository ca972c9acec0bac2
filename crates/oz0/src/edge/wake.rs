//! Nodes that wait for an answer, and who of them is woken for a job: the least special that takes it (C173), by the
//! same function that routes. A node that was woken asks the queue; this only saves the asking.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use oz0_fleet::protocol::{Kind, NodeId, TenantId};
use tokio::sync::Notify;

use crate::chance::now;
use crate::route::{Need, Node, judge, special};

/// A node that waits.
#[derive(Debug)]
struct Waiter {
    node: Node,
    kinds: Vec<Kind>,
    woken: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Grows with whatever is queued, so that nothing is missed between asking and waiting.
    epoch: u64,
    waiters: HashMap<u64, Waiter>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Wake {
    tenants: Mutex<HashMap<TenantId, Waiting>>,
    numbers: std::sync::atomic::AtomicU64,
}

/// A place among those that wait; given up when dropped.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    wake: &'a Wake,
    tenant: TenantId,
    number: u64,
    woken: Arc<Notify>,
}

impl Ticket<'_> {
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.wake.with(self.tenant, |waiting| drop(waiting.waiters.remove(&self.number)));
    }
}

impl Wake {
    fn with<T>(&self, tenant: TenantId, act: impl FnOnce(&mut Waiting) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        act(tenants.entry(tenant).or_default())
    }

    /// Read before the queue is asked, for [`Wake::wait`].
    pub(super) fn epoch(&self, tenant: TenantId) -> u64 {
        self.with(tenant, |waiting| waiting.epoch)
    }

    /// Wait as this node; woken at once when something was queued since `epoch`.
    pub(super) fn wait(&self, node: Node, kinds: Vec<Kind>, epoch: u64) -> Ticket<'_> {
        let number = self.numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let woken = Arc::new(Notify::new());
        let ticket = Ticket { wake: self, tenant: node.tenant, number, woken: Arc::clone(&woken) };
        self.with(node.tenant, |waiting| {
            if waiting.epoch != epoch {
                woken.notify_one();
            }
            waiting.waiters.insert(number, Waiter { node, kinds, woken });
        });
        ticket
    }

    /// So many jobs with this need are there.
    pub(super) fn queued(&self, tenant: TenantId, need: &Need, jobs: usize) {
        let now = now();
        self.with(tenant, |waiting| {
            waiting.epoch += 1;
            let mut takers = Vec::new();
            for (number, waiter) in &mut waiting.waiters {
                // It waits here, so it is there.
                waiter.node.seen = now;
                if waiter.kinds.contains(&need.kind) && judge(need, &waiter.node, now).is_ok() {
                    takers.push((special(need, &waiter.node), waiter.node.running, *number));
                }
            }
            // Most often one job has come: the first is found without putting all in order.
            if jobs < takers.len() && jobs > 0 {
                takers.select_nth_unstable(jobs - 1);
            }
            for (_, _, number) in takers.into_iter().take(jobs) {
                if let Some(waiter) = waiting.waiters.remove(&number) {
                    waiter.woken.notify_one();
                }
            }
        });
    }

    /// This node has something to be told.
    pub(super) fn tell(&self, node: NodeId) {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        for waiter in tenants.values().flat_map(|waiting| waiting.waiters.values()) {
            if waiter.node.node == node {
                waiter.woken.notify_one();
            }
        }
    }

    /// As many nodes wait.
    pub(super) fn count(&self) -> usize {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.values().map(|waiting| waiting.waiters.len()).sum()
    }
}
