//! Being told to end: the first time the node finishes what it has, the second time it ends at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the node was told.
#[derive(Clone, Default)]
pub struct Ending(Arc<(Mutex<u32>, Condvar)>);

impl Ending {
    /// From now on SIGTERM, SIGINT and SIGHUP are words to the node (on Windows: Ctrl-C and the like).
    pub fn hear() -> Result<Ending, ctrlc::Error> {
        let ending = Ending::default();
        let told = ending.clone();
        ctrlc::set_handler(move || told.tell())?;
        Ok(ending)
    }

    /// Tell it.
    pub fn tell(&self) {
        let (times, changed) = &*self.0;
        *times.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        changed.notify_all();
    }

    /// How often it was told.
    pub fn times(&self) -> u32 {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it been told at all?
    pub fn is_told(&self) -> bool {
        self.times() > 0
    }

    /// Wait so long, or until it is told for the first time: then true.
    pub fn wait(&self, time: Duration) -> bool {
        self.wait_beyond(0, time)
    }

    /// Wait so long, or until it was told more often than that: then true.
    pub fn wait_beyond(&self, known: u32, time: Duration) -> bool {
        let (times, changed) = &*self.0;
        let until = Instant::now() + time;
        let mut told = times.lock().unwrap_or_else(PoisonError::into_inner);
        while *told <= known {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            told = changed.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken_when_it_is_told() {
        let ending = Ending::default();
        assert!(!ending.wait(Duration::from_millis(5)) && !ending.is_told());
        let other = ending.clone();
        let waiting = std::thread::spawn(move || other.wait(Duration::from_secs(20)));
        ending.tell();
        assert!(waiting.join().unwrap());
        assert!(!ending.wait_beyond(1, Duration::from_millis(5)));
        ending.tell();
        assert_eq!((ending.wait_beyond(1, Duration::ZERO), ending.times()), (true, 2));
    }
}
