//! The wire between a node and its edge: what is asked, what is answered, and how each request is signed.
//!
//! A node always asks and the edge answers, over HTTP: enrol once, report at each start and after each self-test,
//! then poll for leases, renew what runs, send logs, finish. Every message is a plain type here; nothing is sent,
//! kept or decided. `docs/fleet-protocol.md` tells it as a story.
//!
//! Fields that a newer peer adds are ignored where a message would mean the same without them, and refused in
//! [`Work`], where they would change what is run.

mod ending;
mod id;
mod lease;
mod log;
mod refusal;
mod report;
#[cfg(feature = "signature")]
pub mod signature;
mod text;
mod time;
mod work;

pub use ending::{Ending, Finish, Finished, Objection, Obstacle, Outcome, Settled, Standing, Terminal};
pub use id::{DeliveryId, JobId, NodeId, StartId, TenantId, TriggerId};
pub use lease::{
    Capacity, Fence, Held, Lease, LeaseRequest, Leased, Phase, Renew, Renewal, Renewed, Verdict,
};
pub use log::{LogPlace, LogTaken};
pub use refusal::{Code, Refusal};
pub use report::{Accepted, Enrol, Enrolled, NodeState, Report, SelfTest};
pub use text::{Base64, Secret};
pub use time::{Milliseconds, Timestamp};
pub use work::{Credential, File, Input, Kind, Limits, Repository, Work};

use serde::{Deserialize, Serialize};

/// A version of this protocol. It grows by one when an old peer could misread a new one.
pub type Version = u16;

/// The versions that a peer speaks, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub oldest: Version,
    /// The newest.
    pub newest: Version,
}

impl Versions {
    /// What this build speaks.
    pub const OURS: Versions = Versions { oldest: 1, newest: 1 };

    /// The newest that both speak.
    pub fn agree(self, other: Versions) -> Option<Version> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    /// Does it speak this one?
    pub fn speaks(self, version: Version) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

/// The header that names the version of a request; signed.
pub const VERSION_HEADER: &str = "oz0-protocol";
/// The header that names the start of the node's program that sent a request; signed.
pub const START_HEADER: &str = "oz0-start";

/// Where each request goes; all are POST.
pub mod path {
    /// [`super::Enrol`] → [`super::Enrolled`].
    pub const ENROL: &str = "/node/enrol";
    /// [`super::Report`] → [`super::Accepted`].
    pub const REPORT: &str = "/node/report";
    /// [`super::LeaseRequest`] → [`super::Leased`], held open while there is nothing.
    pub const LEASE: &str = "/node/lease";
    /// [`super::Renew`] → [`super::Renewed`].
    pub const RENEW: &str = "/node/renew";
    /// Bytes, with a [`super::LogPlace`] as the query → [`super::LogTaken`].
    pub const LOG: &str = "/node/log";
    /// [`super::Finish`] → [`super::Finished`].
    pub const FINISH: &str = "/node/finish";
}

/// No request but a piece of a log is longer than this many bytes.
pub const LONGEST_REQUEST: usize = 64 * 1024;
/// No piece of a log is longer than this many bytes.
pub const LONGEST_LOG_PIECE: usize = 256 * 1024;
/// No answer to a node is longer than this many bytes.
pub const LONGEST_ANSWER: usize = 8 * 1024 * 1024;
/// No poll asks for more jobs than this, and no list in a request is longer.
pub const MOST_JOBS: usize = 256;

#[cfg(test)]
mod tests;
