//! The jobs that this start holds: how far each is, until when its lease goes, and whether it is to end. Every
//! thread of the agent meets here; nothing is sent and no process is touched.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oz0_fleet::protocol::{Fence, Held, JobId, MOST_JOBS, Phase};

use super::child::Child;
use super::journal::Taking;

/// Why a job is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Somebody cancelled it.
    Cancelled,
    /// The node is ending.
    NodeEnds,
    /// The lease could not be kept.
    LeaseOver,
    /// It is another node's, or nobody's: nothing is told of it.
    NotOurs,
}

/// That a job is to end.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Why.
    pub why: Why,
    /// When every process of it is ended, if it has not ended by itself.
    pub at: Instant,
}

/// A job.
#[derive(Clone)]
pub struct Job {
    pub fence: Fence,
    pub phase: Phase,
    /// When it is to be renewed.
    pub renew_at: Instant,
    /// From here on another node may have it.
    pub lease_until: Instant,
    /// How long before that every process is ended.
    pub margin: Duration,
    /// What it may use.
    pub memory_mib: u32,
    pub stop: Option<Stop>,
    /// What runs now.
    pub child: Option<Arc<Child>>,
    /// It was asked to end.
    pub asked: bool,
}

/// All of them.
#[derive(Default)]
pub struct Table {
    jobs: Mutex<BTreeMap<JobId, Job>>,
    changed: Condvar,
}

/// What the lease's length gives: when to renew, and how long before its end everything is ended.
pub fn renew_after(lease: Duration) -> (Duration, Duration) {
    (lease / 3, (lease / 6).clamp(Duration::from_millis(250), Duration::from_secs(5)))
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take one up; an error with its fence when the same job is here already. That one ends where the new lease is
    /// newer: the edge then holds the older for lost.
    pub fn begin(
        &self,
        taking: Taking,
        asked_at: Instant,
        lease: Duration,
        memory_mib: u32,
    ) -> Result<(), Fence> {
        let mut jobs = self.lock();
        if let Some(job) = jobs.get_mut(&taking.job) {
            let fence = job.fence;
            if fence < taking.fence {
                job.stop(Why::NotOurs, Instant::now());
                self.changed.notify_all();
            }
            return Err(fence);
        }
        let (renew, margin) = renew_after(lease);
        let job = Job {
            fence: taking.fence,
            phase: Phase::Starting,
            renew_at: asked_at + renew,
            lease_until: asked_at + lease,
            margin,
            memory_mib,
            stop: None,
            child: None,
            asked: false,
        };
        jobs.insert(taking.job, job);
        drop(jobs);
        self.changed.notify_all();
        Ok(())
    }

    /// It is over.
    pub fn end(&self, taking: Taking) {
        self.lock().remove(&taking.job);
        self.changed.notify_all();
    }

    /// Change one, when it is there.
    pub fn with<T>(&self, job: JobId, change: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let done = self.lock().get_mut(&job).map(change);
        self.changed.notify_all();
        done
    }

    /// What is known of one.
    pub fn get(&self, job: JobId) -> Option<Job> {
        self.lock().get(&job).cloned()
    }

    /// Change all.
    pub fn for_each(&self, mut change: impl FnMut(JobId, &mut Job)) {
        self.lock().iter_mut().for_each(|(id, job)| change(*id, job));
        self.changed.notify_all();
    }

    /// How many there are, and the memory that they may use.
    pub fn used(&self) -> (usize, u64) {
        let jobs = self.lock();
        (jobs.len(), jobs.values().map(|job| u64::from(job.memory_mib)).sum())
    }

    /// Those that a renewal names, when one is due; a job that another has takes no part.
    pub fn due(&self, now: Instant) -> Vec<Held> {
        let mut jobs = self.lock();
        let live = |job: &Job| job.stop.is_none_or(|stop| stop.why != Why::NotOurs) && now < job.lease_until;
        if !jobs.values().any(|job| live(job) && job.renew_at <= now) {
            return Vec::new();
        }
        let mut due: Vec<_> = jobs.iter_mut().filter(|(_, job)| live(job)).collect();
        due.sort_by_key(|(_, job)| job.renew_at);
        due.truncate(MOST_JOBS);
        due.into_iter()
            .map(|(id, job)| {
                // Unless the answer says otherwise it is tried again soon.
                job.renew_at = now + (job.lease_until - now) / 8 + Duration::from_millis(20);
                Held { job: *id, fence: job.fence, phase: job.phase }
            })
            .collect()
    }

    /// Wait until something changes, or until then.
    pub fn wait_until(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        drop(self.changed.wait_timeout(self.lock(), left));
    }

    /// Wait until there are none, at most so long.
    pub fn wait_empty(&self, time: Duration) -> bool {
        let jobs = self.lock();
        let waited = self.changed.wait_timeout_while(jobs, time, |jobs| !jobs.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }

    /// When the next of these is: a renewal, an end.
    pub fn next(&self, of: impl Fn(&Job) -> Option<Instant>) -> Option<Instant> {
        self.lock().values().filter_map(of).min()
    }

    /// Wake whoever waits here.
    pub fn wake(&self) {
        self.changed.notify_all();
    }
}

impl Job {
    /// Have it end at `at`. What was said before stays unless this is more.
    pub fn stop(&mut self, why: Why, at: Instant) {
        match &mut self.stop {
            Some(stop) => {
                stop.why = stop.why.max(why);
                stop.at = stop.at.min(at);
            }
            none => *none = Some(Stop { why, at }),
        }
    }

    /// The answer to a request that was sent at `asked_at`: the lease goes on for so long.
    pub fn renewed(&mut self, asked_at: Instant, lease: Duration) {
        let (renew, margin) = renew_after(lease);
        self.renew_at = asked_at + renew;
        self.lease_until = self.lease_until.max(asked_at + lease);
        self.margin = margin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(number: u8, fence: u32) -> Taking {
        Taking { job: JobId::from_bytes([number; 16]), fence: Fence(fence) }
    }

    const LEASE: Duration = Duration::from_secs(30);

    #[test]
    fn a_lease_is_renewed_at_a_third_and_over_before_it_ends() {
        let (table, now) = (Table::default(), Instant::now());
        table.begin(taking(1, 1), now, LEASE, 100).unwrap();
        assert_eq!(table.due(now + Duration::from_secs(9)), []);
        let due = table.due(now + Duration::from_secs(10));
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].phase, Phase::Starting);
        assert_eq!(table.due(now + Duration::from_secs(10)), [], "asked already");
        assert_eq!(table.due(now + Duration::from_secs(14)).len(), 1, "and again when no answer came");
        let job = table.get(taking(1, 1).job).unwrap();
        assert_eq!(job.lease_until - now, LEASE);
        assert_eq!(job.margin, Duration::from_secs(5));
        table.with(taking(1, 1).job, |job| job.renewed(now + Duration::from_secs(10), LEASE));
        assert_eq!(table.get(taking(1, 1).job).unwrap().lease_until - now, Duration::from_secs(40));
        assert_eq!(table.due(now + Duration::from_secs(41)), [], "what is over is not asked for");
    }

    /// C169: a job that runs here is not started a second time.
    #[test]
    fn c169_a_job_that_is_here_is_not_begun_again() {
        let (table, now) = (Table::default(), Instant::now());
        table.begin(taking(1, 2), now, LEASE, 100).unwrap();
        assert_eq!(table.begin(taking(1, 2), now, LEASE, 100), Err(Fence(2)));
        assert_eq!(table.begin(taking(1, 1), now, LEASE, 100), Err(Fence(2)));
        assert!(table.get(taking(1, 2).job).unwrap().stop.is_none());
        assert_eq!(table.begin(taking(1, 3), now, LEASE, 100), Err(Fence(2)));
        assert_eq!(table.get(taking(1, 2).job).unwrap().stop.map(|stop| stop.why), Some(Why::NotOurs));
        assert_eq!(table.used(), (1, 100));
        table.end(taking(1, 2));
        assert!(table.wait_empty(Duration::ZERO));
    }

    #[test]
    fn the_sooner_end_and_the_stronger_reason_stay() {
        let (table, now) = (Table::default(), Instant::now());
        table.begin(taking(1, 1), now, LEASE, 1).unwrap();
        table.with(taking(1, 1).job, |job| {
            job.stop(Why::Cancelled, now + LEASE);
            job.stop(Why::LeaseOver, now);
            job.stop(Why::Cancelled, now + LEASE);
            assert_eq!(job.stop.map(|stop| (stop.why, stop.at)), Some((Why::LeaseOver, now)));
        });
        assert_eq!(table.due(now + LEASE / 2).len(), 1, "it is held until it has ended");
        table.with(taking(1, 1).job, |job| job.stop(Why::NotOurs, now));
        assert_eq!(table.due(now + LEASE * 2 / 3), []);
    }
}
