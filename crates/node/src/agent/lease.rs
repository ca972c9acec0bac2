//! Taking jobs, keeping them, and ending those that cannot be kept: three loops, each in a thread of its own, so that
//! an edge that does not answer never holds up the end of a job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use oz0_fleet::protocol::{Code, LeaseRequest, Leased, Renew, Renewed, Verdict, path};

use super::edge::Trouble;
use super::pace::{Pace, spread};
use super::table::Why;
use super::{Agent, job};

/// How long the edge may hold a request open while there is nothing.
const WAIT: Duration = Duration::from_secs(25);
/// How long an answer may take beyond that.
const BEYOND: Duration = Duration::from_secs(10);
/// An empty answer that comes sooner than this is not asked for again at once.
const SOON: Duration = Duration::from_millis(500);
/// Nothing sleeps longer here without a look around.
const LOOK: Duration = Duration::from_secs(5);
/// Between being ended softly, hard, and by force.
const STEP: Duration = Duration::from_millis(20);
const FORCE: Duration = Duration::from_secs(1);

/// Can the same request succeed after this, once something else has happened?
pub fn asks_again(trouble: &Trouble) -> bool {
    matches!(
        trouble.code(),
        Some(Code::Clock | Code::ReportFirst | Code::Held | Code::Superseded | Code::Replayed)
    )
}

/// Ask for jobs as long as there is room.
pub fn poll(agent: &Arc<Agent>) {
    let mut pace = Pace::default();
    while !agent.ending.is_told() {
        let (jobs, memory) = agent.table.used();
        let capacity = agent.room.left(jobs, memory);
        if capacity.jobs == 0 || !agent.standing.takes_work() {
            agent.table.wait_until(Instant::now() + LOOK.min(Duration::from_secs(1)));
            continue;
        }
        let asked_at = Instant::now();
        let question = LeaseRequest { capacity, wait_ms: WAIT.into() };
        match agent.edge.ask::<Leased>(path::LEASE, &question, WAIT + BEYOND) {
            Ok(leased) => {
                pace.worked();
                for id in &leased.cancel {
                    // The renewal says how long the job has to end.
                    agent.table.with(*id, |job| job.renew_at = Instant::now());
                }
                let nothing = leased.jobs.is_empty() && leased.cancel.is_empty();
                leased.jobs.iter().for_each(|lease| job::take(agent, lease, asked_at));
                if nothing && asked_at.elapsed() < SOON {
                    agent.ending.wait(spread(SOON));
                }
            }
            Err(trouble) => {
                agent.meet(&trouble, "asking for jobs", pace.failures());
                agent.ending.wait(pace.pause());
            }
        }
    }
}

/// Renew what is due.
pub fn renew(agent: &Agent) {
    let mut failures = 0;
    loop {
        let now = Instant::now();
        let held = agent.table.due(now);
        if held.is_empty() {
            let live = |job: &super::table::Job| (now < job.lease_until).then_some(job.renew_at);
            let next = agent.table.next(live).unwrap_or(now + LOOK);
            agent.table.wait_until(next.clamp(now + Duration::from_millis(10), now + LOOK));
            continue;
        }
        // No longer than what is at stake.
        let ends = agent.table.next(|job| (now < job.lease_until).then_some(job.lease_until));
        let limit = ends.map_or(BEYOND, |ends| (ends - now).clamp(Duration::from_millis(500), BEYOND));
        match agent.edge.ask::<Renewed>(path::RENEW, &Renew { held }, limit) {
            Ok(renewed) => {
                failures = 0;
                for renewal in renewed.renewals {
                    agent.table.with(renewal.job, |job| {
                        if job.fence != renewal.fence {
                            return;
                        }
                        match renewal.verdict {
                            Verdict::Keep { lease_ms } => job.renewed(now, lease_ms.into()),
                            Verdict::Cancel { grace_ms, lease_ms } => {
                                job.renewed(now, lease_ms.into());
                                job.stop(Why::Cancelled, Instant::now() + Duration::from(grace_ms));
                            }
                            Verdict::Stop => job.stop(Why::NotOurs, Instant::now()),
                        }
                    });
                }
            }
            Err(trouble) => {
                agent.meet(&trouble, "renewing leases", failures);
                failures += 1;
                // The table says when the next try is due.
                agent.table.wait_until(Instant::now() + STEP);
            }
        }
    }
}

/// End what is to end, and what could not be renewed while its lease still goes.
pub fn keep(agent: &Agent) {
    loop {
        let now = Instant::now();
        let mut next = now + LOOK;
        agent.table.for_each(|id, job| {
            let over = job.lease_until.checked_sub(job.margin).unwrap_or(now);
            if now >= over && job.stop.is_none_or(|stop| stop.why < Why::LeaseOver) {
                tracing::warn!(job = %id, "its lease could not be kept: it is ended");
                job.stop(Why::LeaseOver, now);
            }
            let Some(stop) = job.stop else {
                next = next.min(over);
                return;
            };
            if now < over {
                next = next.min(over);
            }
            let Some(child) = &job.child else { return };
            if !job.asked {
                child.ask();
                job.asked = true;
            } else if now >= stop.at {
                child.ask();
            }
            if now >= stop.at + FORCE {
                child.kill();
            }
            next = next.min(if now >= stop.at { now + STEP } else { stop.at });
        });
        agent.table.wait_until(next);
    }
}
