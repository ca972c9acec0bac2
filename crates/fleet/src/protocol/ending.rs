//! How a job ends: what a node tells of a run, and the one terminal state that follows. Holds no word of the run's
//! own: a node's reasons are closed sets too.

use serde::{Deserialize, Serialize};

use super::{Fence, JobId, Milliseconds};
use crate::word::words;

words! {
    /// The state in which a job stays. Every accepted job gets exactly one.
    pub enum Terminal, "a terminal state" {
        /// The command ended with status 0.
        Done = "done",
        /// It ended with another, or was lost too often.
        Failed = "failed",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// It ran for longer than it may.
        TimedOut = "timed out",
        /// No node took it in the time it may wait (C166: not the same as cancelled).
        NoNode = "no node",
        /// The node or the sandbox's policy does not allow what it asks for.
        Refused = "refused",
    }
}

words! {
    /// Why a run could not start, through no fault of the job: it is tried again, and the node is set aside when
    /// that repeats (C157).
    pub enum Obstacle, "an obstacle" {
        /// The job's folder could not be made.
        Folder = "no-folder",
        /// No space is left on the disk.
        DiskFull = "disk-full",
        /// No process could be started.
        Processes = "no-processes",
        /// The node has less room than the job asks for.
        Room = "no-room",
        /// The sandbox did not launch.
        Launch = "launch-failed",
        /// The egress proxy did not start.
        Proxy = "proxy-failed",
        /// Windows: every port for a relay is taken.
        RelayPort = "no-relay-port",
        /// The repository could not be fetched.
        Fetch = "fetch-failed",
        /// The node lost its tier after it took the job.
        TierFell = "tier-fell",
        /// The node is ending.
        Draining = "draining",
    }
}

impl Obstacle {
    /// What happened, after "launch failed: ".
    pub const fn words(self) -> &'static str {
        match self {
            Obstacle::Folder => "the job's folder could not be made",
            Obstacle::DiskFull => "the disk is full",
            Obstacle::Processes => "no process could be started",
            Obstacle::Room => "the node had no room for it",
            Obstacle::Launch => "the sandbox did not launch",
            Obstacle::Proxy => "the egress proxy did not start",
            Obstacle::RelayPort => "no free relay port",
            Obstacle::Fetch => "the repository could not be fetched",
            Obstacle::TierFell => "the node lost its tier",
            Obstacle::Draining => "the node was ending",
        }
    }

    /// Does it say something about the node's health? A repository that is not there, a node that is full and one
    /// that is told to end do not.
    pub const fn counts_against_node(self) -> bool {
        !matches!(self, Obstacle::Fetch | Obstacle::Room | Obstacle::TierFell | Obstacle::Draining)
    }
}

words! {
    /// Why a node will not run a job, wherever it is sent next.
    pub enum Objection, "an objection" {
        /// It holds a field or a word that this node does not know.
        NotUnderstood = "not-understood",
        /// The sandbox's policy does not allow it.
        Policy = "policy",
        /// The command is not there or is no program.
        Command = "command",
    }
}

impl Objection {
    /// What the node said, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Objection::NotUnderstood => "the node is older than what the job asks for",
            Objection::Policy => "the sandbox's policy does not allow what the job asks for",
            Objection::Command => "the command is not on the node, or is no program",
        }
    }
}

/// What became of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Outcome {
    /// The command ended by itself.
    Exited {
        /// With this status (Windows has 32 bits of them).
        status: u32,
    },
    /// A signal ended it.
    Signalled {
        /// Its number.
        signal: u8,
    },
    /// A limit of the sandbox ended it.
    LimitHit,
    /// Its time was over.
    TimedOut,
    /// It was cancelled, and has ended.
    Cancelled,
    /// It will not be run.
    Refused {
        /// Why.
        objection: Objection,
    },
    /// It never started.
    NotStarted {
        /// What was in the way.
        obstacle: Obstacle,
    },
    /// The node's program ended under it and knows that nothing of it is left.
    Lost,
}

impl Outcome {
    /// The terminal state that follows; none where the job is tried again.
    pub const fn terminal(self) -> Option<Terminal> {
        Some(match self {
            Outcome::Exited { status: 0 } => Terminal::Done,
            Outcome::Exited { .. } | Outcome::Signalled { .. } | Outcome::LimitHit => Terminal::Failed,
            Outcome::TimedOut => Terminal::TimedOut,
            Outcome::Cancelled => Terminal::Cancelled,
            Outcome::Refused { .. } => Terminal::Refused,
            Outcome::NotStarted { .. } | Outcome::Lost => return None,
        })
    }
}

/// One run that has ended. It is sent until it is answered, however long the edge is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The job.
    pub job: JobId,
    /// The fence of the lease it ran under.
    pub fence: Fence,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// From taking the lease to the first instruction of the command.
    pub start_ms: Milliseconds,
    /// From there to the end of the last process.
    pub run_ms: Milliseconds,
}

/// Runs that have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// At most [`super::MOST_JOBS`].
    pub endings: Vec<Ending>,
}

words! {
    /// What the edge did with one ending. After any of these the node forgets the job.
    pub enum Settled, "what became of an ending" {
        /// It is the job's ending, or the job is queued again.
        Kept = "kept",
        /// It was told before.
        Known = "known",
        /// It came after the lease was over: noted beside the job, whose state it does not change (C163).
        Late = "late",
        /// There is no such job for this node.
        Unknown = "unknown",
    }
}

/// What became of one ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The job.
    pub job: JobId,
    /// The fence that was told.
    pub fence: Fence,
    /// What the edge did.
    pub settled: Settled,
}

/// The answer, in the order of the endings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// One an ending.
    pub standings: Vec<Standing>,
}
