//! Leases over time, with the time given: who has a job, when it is queued again, and that it ends once.

use std::collections::BTreeSet;

use oz0::chance;
use oz0::route::Need;
use oz0::store::jobs::{Accept, Accepted, Cancel, Job, JobState};
use oz0::store::lease::{Finish, GRACE, LEASE, MOST_ATTEMPTS, Renew, Take};
use oz0::store::nodes::{self, Settle, Settlement};
use oz0::store::nonces::{Caller, NotAdmitted};
use oz0::store::sweep::{Sweep, Swept};
use oz0::store::{Store, tenants};
use oz0_fleet::protocol::signature::{Nonce, node_of};
use oz0_fleet::protocol::{
    Capacity, DeliveryId, Ending, Held, JobId, Kind, Lease, Milliseconds, NodeId, Objection, Obstacle,
    Outcome, Phase, Settled, StartId, TenantId, Terminal, Timestamp, Verdict,
};
use oz0_fleet::{Reported, Tier};

use crate::support::database::Database;
use crate::support::node::linux;
use crate::support::on_each;

const NOW: Timestamp = Timestamp::from_milliseconds(1_800_000_000_000);
const TENANT: TenantId = TenantId::from_bytes([1; 16]);
const OK: Outcome = Outcome::Exited { status: 0 };

fn run(database: &Database, test: impl AsyncFnOnce(Fleet)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&database.place()).await.unwrap();
        let tenant = tenants::Tenant { tenant: TENANT, name: "acme".parse().unwrap(), created: NOW };
        assert!(store.act(tenants::Create(tenant)).await.unwrap());
        test(Fleet(store.clone())).await;
        store.close().await;
    });
}

struct Fleet(Store);

fn later(milliseconds: u64) -> Timestamp {
    NOW.after(Milliseconds::new(milliseconds))
}

fn after_lease() -> Timestamp {
    later(LEASE.count() + GRACE.count() + 1)
}

fn caller(node: NodeId, now: Timestamp) -> Caller {
    Caller {
        node,
        start: StartId::from_bytes([1; 16]),
        created: now.milliseconds() / 1000,
        nonce: Nonce::from_bytes(chance::bytes().unwrap()),
        address: "127.0.0.1".into(),
        now,
        remember_until: now.after(Milliseconds::seconds(120)),
    }
}

impl Fleet {
    /// A Linux node with tier 1.
    async fn node(&self, number: u8) -> NodeId {
        let key = vec![number; 32];
        let node = node_of(&key);
        let name = format!("n{number}");
        let token = tenants::GiveNodeToken {
            digest: name.clone(),
            tenant: TENANT,
            name: name.parse().unwrap(),
            labels: BTreeSet::new(),
            reserved: false,
            expires: later(1000),
        };
        self.0.act(token).await.unwrap();
        let enrol = nodes::Enrol { node, key, token: name, address: "127.0.0.1".into(), now: NOW };
        assert_eq!(self.0.act(enrol).await.unwrap(), nodes::Enrolled::Of(TENANT));
        self.report(node, NOW).await;
        node
    }

    async fn report(&self, node: NodeId, now: Timestamp) {
        let facts = serde_json::from_value::<Reported>(linux()).unwrap().facts();
        let report =
            nodes::Report { caller: caller(node, now), facts, tested: Some((now, 600)), most_jobs: 8 };
        assert!(self.0.act(report).await.unwrap().is_ok());
    }

    fn accept(number: u8, now: Timestamp) -> Accept {
        Accept {
            job: JobId::new(now, [number; 10]),
            tenant: TENANT,
            origin: "session".into(),
            delivery: DeliveryId::from_bytes([number; 16]),
            need: Need { tier: Tier::One, kind: Kind::Command, labels: BTreeSet::new() },
            work: r#"{"kind":"command","tier":"tier 1","command":["true"]}"#.into(),
            outside: false,
            now,
            wait_until: now.after(Milliseconds::seconds(3600)),
        }
    }

    async fn job(&self, number: u8) -> JobId {
        let accept = Fleet::accept(number, NOW);
        let job = accept.job;
        assert_eq!(self.0.act(accept).await.unwrap(), Accepted::New);
        job
    }

    async fn take(&self, node: NodeId, jobs: u16, now: Timestamp) -> Vec<Lease> {
        let capacity = Capacity { jobs, kinds: Kind::ALL.to_vec(), memory_mib: 1024 };
        let take = Take { caller: caller(node, now), admitted: false, capacity };
        self.0.act(take).await.unwrap().unwrap().0.jobs
    }

    async fn renew(&self, node: NodeId, lease: &Lease, now: Timestamp) -> Verdict {
        let held = vec![Held { job: lease.job, fence: lease.fence, phase: Phase::Running }];
        self.0.act(Renew { caller: caller(node, now), held }).await.unwrap().unwrap().renewals[0].verdict
    }

    async fn finish(&self, node: NodeId, lease: &Lease, outcome: Outcome, now: Timestamp) -> Settled {
        let none = Milliseconds::default();
        let ending = Ending { job: lease.job, fence: lease.fence, outcome, start_ms: none, run_ms: none };
        let finish = Finish { caller: caller(node, now), endings: vec![ending] };
        self.0.act(finish).await.unwrap().unwrap().0.standings[0].settled
    }

    async fn sweep(&self, now: Timestamp) -> Swept {
        self.0.act(Sweep { now }).await.unwrap()
    }

    async fn look(&self, job: JobId) -> Job {
        self.0.job(job).await.unwrap().unwrap()
    }
}

on_each! {
    /// A node that is away has ended the job before its lease did; only then does another get it, and what the first
    /// one says later changes nothing.
    fn a_lost_node_has_its_job_no_longer(database) {
        run(database, async |fleet| {
            let (one, two) = (fleet.node(1).await, fleet.node(2).await);
            let job = fleet.job(1).await;
            let first = fleet.take(one, 8, NOW).await.remove(0);
            assert_eq!((first.job, first.fence.0, first.attempt), (job, 1, 1));

            // The lease is over, the grace is not: nobody else gets it.
            assert_eq!(fleet.sweep(later(LEASE.count() + GRACE.count() - 1)).await, Swept::default());
            assert!(fleet.take(two, 8, later(LEASE.count() + 1)).await.is_empty());
            assert_eq!(fleet.renew(one, &first, later(LEASE.count() - 1)).await, Verdict::Keep { lease_ms: LEASE });
            assert_eq!(fleet.sweep(after_lease()).await, Swept::default(), "it was renewed");

            let gone = after_lease().after(LEASE);
            assert_eq!(fleet.sweep(gone).await, Swept { again: 1, ended: 0 });
            let second = fleet.take(two, 8, gone).await.remove(0);
            assert_eq!((second.job, second.fence.0, second.attempt), (job, 2, 2));
            assert_eq!(fleet.renew(one, &first, gone).await, Verdict::Stop);
            assert_eq!(fleet.finish(one, &first, OK, gone).await, Settled::Late);
            assert_eq!(fleet.finish(one, &first, OK, gone).await, Settled::Known, "told again");
            assert_eq!(fleet.look(job).await.state, JobState::Leased);
            assert_eq!(fleet.finish(one, &second, OK, gone).await, Settled::Unknown, "another's lease");
            assert_eq!(fleet.finish(two, &second, Outcome::Exited { status: 7 }, gone).await, Settled::Kept);
            let ended = fleet.look(job).await;
            assert_eq!(ended.state, JobState::Ended(Terminal::Failed));
            assert_eq!(ended.reason.unwrap(), "the command ended with status 7");
        });
    }

    /// A job that is lost again and again fails, and says so.
    fn a_job_is_not_tried_for_ever(database) {
        run(database, async |fleet| {
            let node = fleet.node(1).await;
            let job = fleet.job(1).await;
            let mut now = NOW;
            for attempt in 1..=MOST_ATTEMPTS {
                let lease = fleet.take(node, 1, now).await.remove(0);
                assert_eq!((lease.attempt, lease.fence.0), (attempt, attempt.into()));
                now = now.after(LEASE).after(GRACE).after(Milliseconds::new(1));
                fleet.sweep(now).await;
            }
            let ended = fleet.look(job).await;
            assert_eq!(ended.state, JobState::Ended(Terminal::Failed));
            assert_eq!(ended.reason.unwrap(), "its node was not heard of until the lease was over");
            assert!(fleet.take(node, 1, now).await.is_empty());
        });
    }

    /// C164, C166: a wait that is over is a state of its own, with the reason.
    fn c166_a_job_that_no_node_took_says_so(database) {
        run(database, async |fleet| {
            let node = fleet.node(1).await;
            let job = fleet.job(1).await;
            let over = NOW.after(Milliseconds::seconds(3601));
            assert_eq!(fleet.sweep(over).await, Swept { again: 0, ended: 1 });
            let ended = fleet.look(job).await;
            assert_eq!(ended.state, JobState::Ended(Terminal::NoNode));
            assert_eq!(ended.reason.unwrap(), "no node took it: needs tier 1; no node on line: 1 off line 60 min");
            assert!(fleet.take(node, 8, over).await.is_empty());
        });
    }

    /// Cancelled while it waits, while it runs, and while its node is away: the same state, once.
    fn a_cancelled_job_ends_as_cancelled(database) {
        run(database, async |fleet| {
            let node = fleet.node(1).await;
            let cancel = async |job| fleet.0.act(Cancel { job, now: NOW }).await.unwrap();
            let queued = fleet.job(1).await;
            assert_eq!(cancel(queued).await, Some(JobState::Ended(Terminal::Cancelled)));
            assert!(fleet.take(node, 8, NOW).await.is_empty());

            let (running, away) = (fleet.job(2).await, fleet.job(3).await);
            let leases = fleet.take(node, 8, NOW).await;
            assert_eq!((cancel(running).await, cancel(away).await), (Some(JobState::Leased), Some(JobState::Leased)));
            assert!(matches!(fleet.renew(node, &leases[0], NOW).await, Verdict::Cancel { .. }));
            assert_eq!(fleet.finish(node, &leases[0], Outcome::Cancelled, NOW).await, Settled::Kept);
            assert_eq!(fleet.sweep(after_lease()).await, Swept { again: 0, ended: 1 });
            for job in [queued, running, away] {
                assert_eq!(fleet.look(job).await.state, JobState::Ended(Terminal::Cancelled));
                assert_eq!(cancel(job).await, Some(JobState::Ended(Terminal::Cancelled)));
            }
            assert_eq!(cancel(JobId::from_bytes([9; 16])).await, None);
        });
    }

    /// C157: launches that fail set a node aside; the jobs go on elsewhere; a draining node costs no attempt.
    fn c157_failed_launches_set_the_node_aside(database) {
        run(database, async |fleet| {
            let (bad, good) = (fleet.node(1).await, fleet.node(2).await);
            let failed = |obstacle| Outcome::NotStarted { obstacle };
            for number in 1..=3 {
                let job = fleet.job(number).await;
                let lease = fleet.take(bad, 1, NOW).await.remove(0);
                assert_eq!(fleet.finish(bad, &lease, failed(Obstacle::DiskFull), NOW).await, Settled::Kept);
                let lease = fleet.take(good, 1, NOW).await.remove(0);
                assert_eq!((lease.job, lease.attempt), (job, 2));
                assert_eq!(fleet.finish(good, &lease, OK, NOW).await, Settled::Kept);
            }
            let job = fleet.job(4).await;
            assert!(fleet.take(bad, 1, NOW).await.is_empty());
            let nodes = fleet.0.nodes(TENANT).await.unwrap();
            let because = oz0::route::judge(&fleet.look(job).await.need, &nodes[0], NOW).unwrap_err().to_string();
            assert_eq!(because, "not routed: 3 launches failed: the disk is full; tried again in 60 s");
            // One on trial; when it works the node is as before.
            fleet.job(5).await;
            let trial = fleet.take(bad, 8, later(60_000)).await;
            assert_eq!(trial.len(), 1);
            fleet.finish(bad, &trial[0], OK, later(60_000)).await;
            let lease = fleet.take(bad, 8, later(60_000)).await.remove(0);
            fleet.finish(bad, &lease, failed(Obstacle::Draining), later(60_000)).await;
            let again = fleet.take(good, 8, later(60_000)).await.remove(0);
            assert_eq!((again.job, again.attempt, again.fence.0), (lease.job, 1, 2));
            let refused = Outcome::Refused { objection: Objection::Policy };
            fleet.finish(good, &again, refused, later(60_000)).await;
            assert_eq!(fleet.look(again.job).await.state, JobState::Ended(Terminal::Refused));
        });
    }

    /// A nonce, a start and a state are looked at in the transaction of what is done.
    fn nothing_is_done_for_who_may_not(database) {
        run(database, async |fleet| {
            let node = fleet.node(1).await;
            let job = fleet.job(1).await;
            let capacity = Capacity { jobs: 1, kinds: Kind::ALL.to_vec(), memory_mib: 1024 };
            let take = Take { caller: caller(node, NOW), admitted: false, capacity: capacity.clone() };
            let lease = fleet.0.act(take.clone()).await.unwrap().unwrap().0.jobs.remove(0);
            assert_eq!(fleet.0.act(take.clone()).await.unwrap().unwrap_err(), NotAdmitted::Replayed);
            // Forgotten only when its time could not be accepted any more.
            fleet.sweep(later(119_000)).await;
            assert_eq!(fleet.0.act(take.clone()).await.unwrap().unwrap_err(), NotAdmitted::Replayed);

            assert!(fleet.0.act(Settle { node, how: Settlement::Revoke }).await.unwrap());
            let none = Milliseconds::default();
            let ending = Ending { job, fence: lease.fence, outcome: OK, start_ms: none, run_ms: none };
            let finish = Finish { caller: caller(node, NOW), endings: vec![ending] };
            assert_eq!(fleet.0.act(finish).await.unwrap().unwrap_err(), NotAdmitted::Revoked);
            assert_eq!(fleet.look(job).await.state, JobState::Queued, "the sweep found it before");
            let unknown = Take { caller: caller(NodeId::from_bytes([9; 16]), NOW), admitted: false, capacity };
            assert_eq!(fleet.0.act(unknown).await.unwrap().unwrap_err(), NotAdmitted::Unknown);
        });
    }

    /// Draining nodes finish what they have and get nothing new; kinds that a node does not take stay.
    fn a_draining_node_gets_nothing_new(database) {
        run(database, async |fleet| {
            let node = fleet.node(1).await;
            let (first, second) = (fleet.job(1).await, fleet.job(2).await);
            let lease = fleet.take(node, 1, NOW).await.remove(0);
            assert_eq!(lease.job, first, "the oldest");
            assert!(fleet.0.act(Settle { node, how: Settlement::Drain }).await.unwrap());
            assert!(fleet.take(node, 8, NOW).await.is_empty());
            assert_eq!(fleet.renew(node, &lease, NOW).await, Verdict::Keep { lease_ms: LEASE });
            assert_eq!(fleet.finish(node, &lease, OK, NOW).await, Settled::Kept);
            assert_eq!(fleet.look(second).await.state, JobState::Queued);
            assert!(fleet.0.act(Settle { node, how: Settlement::Activate }).await.unwrap());
            assert_eq!(fleet.take(node, 8, NOW).await.len(), 1, "the same start goes on");
            fleet.job(3).await;

            let other = fleet.node(2).await;
            let capacity = Capacity { jobs: 1, kinds: vec![Kind::PluginServer], memory_mib: 1024 };
            let take = Take { caller: caller(other, NOW), admitted: false, capacity };
            assert!(fleet.0.act(take).await.unwrap().unwrap().0.jobs.is_empty());
        });
    }
}

/// T4: outside work is not kept while no node earned tier 1, and is while one that did is off line.
#[test]
fn outside_work_waits_for_a_node_that_earned_its_tier() {
    run(&Database::sqlite(), async |fleet| {
        let trigger = oz0::store::triggers::Trigger {
            trigger: "trigger-00000000000000000000000001".parse().unwrap(),
            tenant: TENANT,
            name: "t".parse().unwrap(),
            source: oz0::edge::Source::Github,
            secret: oz0_fleet::protocol::Secret::new("s".into()),
            template: serde_json::from_str(
                r#"{"work":{"kind":"command","tier":"tier 1","command":["true"]}}"#,
            )
            .unwrap(),
            created: NOW,
        };
        assert!(fleet.0.act(oz0::store::triggers::Create(trigger)).await.unwrap());
        let outside = |number| Accept { outside: true, ..Fleet::accept(number, NOW) };
        assert_eq!(fleet.0.act(outside(1)).await.unwrap(), Accepted::NoTierOne);
        let node = fleet.node(1).await;
        let days = NOW.after(Milliseconds::seconds(5 * 24 * 3600));
        let away = Accept { now: days, ..outside(2) };
        assert_eq!(fleet.0.act(away).await.unwrap(), Accepted::New, "off line for days, and it waits");
        assert!(fleet.0.act(Settle { node, how: Settlement::Revoke }).await.unwrap());
        assert_eq!(fleet.0.act(outside(3)).await.unwrap(), Accepted::NoTierOne);
    });
}
