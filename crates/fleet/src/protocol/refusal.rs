//! What an edge answers when it does not do what was asked: a code for programs, a sentence and a way out for people.

use serde::{Deserialize, Serialize};

use super::{Timestamp, Versions};
use crate::word::words;

words! {
    /// Why a request was not done. A node decides by this alone.
    pub enum Code, "a refusal's code" {
        /// The request cannot be read.
        BadRequest = "bad_request",
        /// No version is spoken by both.
        Protocol = "protocol",
        /// The signature is missing, not in the one accepted form, or wrong.
        BadSignature = "bad_signature",
        /// The time of the request is too far from the edge's.
        Clock = "clock",
        /// The request was seen before.
        Replayed = "replayed",
        /// No node has this key here.
        UnknownNode = "unknown_node",
        /// The node was revoked, or removed.
        Revoked = "revoked",
        /// The node's key is used by two machines: an operator has to settle it.
        Held = "held",
        /// A later start of the same node has taken over.
        Superseded = "superseded",
        /// A start has to report before it asks for anything.
        ReportFirst = "report_first",
        /// The token is none, was used, or is over.
        Token = "token",
        /// Too long.
        TooLarge = "too_large",
        /// Too many.
        RateLimited = "rate_limited",
        /// Nothing with this name is here for whoever asks.
        NotFound = "not_found",
        /// A body of another type than is taken there.
        ContentType = "content_type",
        /// Outside work needs tier 1, and no node of the tenant ever earned it.
        NoTierOneNode = "no_tier1_node",
        /// The edge is ending, or cannot reach its database: the same request, later.
        Unavailable = "unavailable",
    }
}

impl Code {
    /// Can the same request succeed later, without anyone doing anything?
    pub const fn passes(self) -> bool {
        matches!(self, Code::RateLimited | Code::Unavailable)
    }
}

/// A request that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, for programs.
    pub code: Code,
    /// Why, for people.
    pub reason: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// With [`Code::Clock`]: the edge's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_time: Option<Timestamp>,
    /// With [`Code::Protocol`]: what the edge speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaks: Option<Versions>,
}
