//! How long to wait before the same thing is tried again: longer each time, and never all at once with others.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(250);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that grow until something worked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    failures: u32,
}

impl Pace {
    /// It worked.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// It did not: wait this long.
    pub fn pause(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(12)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        spread(full)
    }

    /// It was tried in vain so often.
    pub const fn failures(self) -> u32 {
        self.failures
    }
}

/// Between half of it and all of it, by chance.
pub fn spread(full: Duration) -> Duration {
    let chance = getrandom::u32().unwrap_or(u32::MAX);
    full / 2 + (full / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew() {
        let mut pace = Pace::default();
        let mut most = FIRST;
        for _ in 0..40 {
            let pause = pace.pause();
            assert!(pause >= most / 2 && pause <= most, "{pause:?} of {most:?}");
            most = (most * 2).min(LONGEST);
        }
        assert_eq!(most, LONGEST);
        pace.worked();
        assert!(pace.pause() <= FIRST);
    }

    #[test]
    fn two_nodes_do_not_come_back_at_the_same_moment() {
        let pauses: Vec<Duration> = (0..8).map(|_| spread(Duration::from_secs(8))).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}
