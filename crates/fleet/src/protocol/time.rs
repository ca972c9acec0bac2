//! Times and durations, each with its unit in its type and in the name of every field that holds one (C169).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(u64);

impl Milliseconds {
    /// So many milliseconds.
    pub const fn new(milliseconds: u64) -> Milliseconds {
        Milliseconds(milliseconds)
    }

    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Milliseconds {
        Milliseconds(seconds.saturating_mul(1000))
    }

    /// The number.
    pub const fn count(self) -> u64 {
        self.0
    }
}

impl From<Milliseconds> for Duration {
    fn from(time: Milliseconds) -> Duration {
        Duration::from_millis(time.0)
    }
}

impl From<Duration> for Milliseconds {
    /// Rounded down; what is longer than can be said is the longest.
    fn from(time: Duration) -> Milliseconds {
        Milliseconds(time.as_millis().try_into().unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Milliseconds {
    /// In the largest unit that says something: `850 ms`, `12 s`, `3 min`, `2 h`, `5 days`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1000;
        const MINUTE: u64 = 60 * SECOND;
        const HOUR: u64 = 60 * MINUTE;
        const DAY: u64 = 24 * HOUR;
        match self.0 {
            count if count < SECOND => write!(f, "{count} ms"),
            count if count < 2 * MINUTE => write!(f, "{} s", count / SECOND),
            count if count < 2 * HOUR => write!(f, "{} min", count / MINUTE),
            count if count < 2 * DAY => write!(f, "{} h", count / HOUR),
            count => write!(f, "{} days", count / DAY),
        }
    }
}

/// When: milliseconds since 1970 in UTC, by the clock of whoever says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// That many milliseconds after 1970 began.
    pub const fn from_milliseconds(milliseconds: u64) -> Timestamp {
        Timestamp(milliseconds)
    }

    /// The milliseconds.
    pub const fn milliseconds(self) -> u64 {
        self.0
    }

    /// So much later.
    #[must_use]
    pub const fn after(self, time: Milliseconds) -> Timestamp {
        Timestamp(self.0.saturating_add(time.0))
    }

    /// So much earlier.
    #[must_use]
    pub const fn before(self, time: Milliseconds) -> Timestamp {
        Timestamp(self.0.saturating_sub(time.0))
    }

    /// How long after `earlier` this is; nothing when it is not.
    pub const fn since(self, earlier: Timestamp) -> Milliseconds {
        Milliseconds(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c169_a_duration_says_its_unit() {
        for (count, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (48 * 3_600_000, "2 days"),
        ] {
            assert_eq!(Milliseconds::new(count).to_string(), words);
        }
        assert_eq!(Milliseconds::from(Duration::from_micros(20_999)), Milliseconds::new(20));
        assert_eq!(Duration::from(Milliseconds::seconds(20)), Duration::from_secs(20));
    }
}
