//! A job's log: bytes at an offset, so that a piece that is sent twice or after a break lands once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Fence, JobId};
use crate::Unknown;
use crate::word::number;

/// Where a piece of a log belongs; the query of its request, in exactly this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// The job.
    pub job: JobId,
    /// Which handing-out; each has a log of its own.
    pub fence: Fence,
    /// How many bytes of this log come before it.
    pub offset: u64,
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job={}&fence={}&offset={}", self.job, self.fence.0, self.offset)
    }
}

impl FromStr for LogPlace {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let unknown = Unknown { expected: "a place in a log" };
        let mut parts = text.split('&');
        let mut next = |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or(unknown);
        let place = LogPlace {
            job: next("job=")?.parse()?,
            fence: Fence(number(next("fence=")?, 10).ok_or(unknown)?),
            offset: number(next("offset=")?, 19).ok_or(unknown)?,
        };
        parts.next().is_none().then_some(place).ok_or(unknown)
    }
}

/// What the edge has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTaken {
    /// The offset from which the node goes on: bytes before it are kept, none after it are.
    pub next: u64,
    /// So many more are kept; what comes after is dropped and the log says that it was cut.
    pub room: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_spelling() {
        let place = LogPlace { job: JobId::from_bytes([7; 16]), fence: Fence(3), offset: 65_536 };
        let text = place.to_string();
        assert!(text.ends_with("&fence=3&offset=65536"), "{text}");
        assert_eq!(text.parse(), Ok(place));
        for other in [
            text.replace("fence=3", "fence=03"),
            text.replace("offset=65536", "offset=-1"),
            format!("{text}&offset=1"),
            format!("{text}&"),
            text.replace("job=", "JOB="),
            String::new(),
        ] {
            assert!(other.parse::<LogPlace>().is_err(), "{other}");
        }
    }
}
