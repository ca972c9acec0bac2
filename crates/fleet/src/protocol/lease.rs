//! Taking jobs and keeping them: a lease is a promise of the edge that no other node runs the job until it ends.

use serde::{Deserialize, Serialize};

use super::{JobId, Kind, Milliseconds, Work};
use crate::word::words;

/// Which handing-out of a job this is. It only grows; what is sent under an older one is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u32);

/// What a node can take at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// So many jobs.
    pub jobs: u16,
    /// Of these kinds.
    pub kinds: Vec<Kind>,
    /// Memory that is free for them, in MiB.
    pub memory_mib: u32,
}

/// Are there jobs for this node?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// What it can take now.
    pub capacity: Capacity,
    /// How long the node would wait for an answer; the edge may answer sooner.
    pub wait_ms: Milliseconds,
}

/// One job for this node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Which handing-out.
    pub fence: Fence,
    /// The first attempt is 1.
    pub attempt: u16,
    /// From the moment the node sent its request: it has renewed by then, or ended every process of the job.
    pub lease_ms: Milliseconds,
    /// What to run. Kept as it came, so that a node that does not understand one job still takes the others:
    /// [`Lease::work`] reads it.
    pub work: Box<serde_json::value::RawValue>,
}

impl Lease {
    /// What to run; an error where it holds what this build does not know, and then the node refuses the job as
    /// [`super::Objection::NotUnderstood`].
    pub fn work(&self) -> Result<Work, serde_json::Error> {
        serde_json::from_str(self.work.get())
    }
}

/// The jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leased {
    /// Perhaps none: then ask again.
    pub jobs: Vec<Lease>,
    /// Jobs of this node that are to end, see [`Verdict::Cancel`].
    pub cancel: Vec<JobId>,
}

words! {
    /// How far a job is.
    pub enum Phase, "a phase" {
        /// Folder, repository, sandbox.
        Starting = "starting",
        /// The command runs.
        Running = "running",
        /// It was told to end, or has ended and is being cleared away.
        Ending = "ending",
    }
}

/// A job that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// Which handing-out.
    pub fence: Fence,
    /// How far it is.
    pub phase: Phase,
}

/// Keep these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// At most [`super::MOST_JOBS`].
    pub held: Vec<Held>,
}

/// What a node does with a job that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Go on; the lease now ends so long after the request was sent.
    Keep {
        /// So long.
        lease_ms: Milliseconds,
    },
    /// End it: ask it to end, wait so long, end every process, and finish it as cancelled. The lease goes on as with
    /// [`Verdict::Keep`].
    Cancel {
        /// So long between asking and ending.
        grace_ms: Milliseconds,
        /// So long goes the lease.
        lease_ms: Milliseconds,
    },
    /// It is no longer this node's: end every process at once, and finish nothing.
    Stop,
}

/// What to do with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// The job.
    pub job: JobId,
    /// Which handing-out.
    pub fence: Fence,
    /// What to do.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The answer, in the order in which they were named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// One a job.
    pub renewals: Vec<Renewal>,
}
