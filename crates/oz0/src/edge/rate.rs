//! How much a tenant may send: a bucket that fills by the second. Each oz0 counts for itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use oz0_fleet::protocol::{Code, TenantId};

use super::Answer;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many a second, in the long run.
    pub per_second: u32,
    /// So many at once, after a pause.
    pub at_once: u32,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { per_second: 100, at_once: 1000 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    filled: Instant,
}

/// The buckets of all tenants.
#[derive(Debug)]
pub(super) struct Rates {
    rate: Rate,
    buckets: Mutex<HashMap<TenantId, Bucket>>,
}

impl Rates {
    pub(super) fn new(rate: Rate) -> Rates {
        Rates { rate, buckets: Mutex::default() }
    }

    /// One more of this tenant's.
    pub(super) fn take(&self, tenant: TenantId, now: Instant) -> Result<(), Answer> {
        let Rate { per_second, at_once } = self.rate;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(tenant).or_insert(Bucket { left: at_once.into(), filled: now });
        let filled = now.saturating_duration_since(bucket.filled).as_secs_f64() * f64::from(per_second);
        bucket.left = (bucket.left + filled).min(at_once.into());
        bucket.filled = now;
        if bucket.left < 1.0 {
            let reason = format!("this tenant sends more than {per_second} a second");
            return Err(Answer::new(Code::RateLimited, reason));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_tenant_that_sends_too_much_waits_and_others_do_not() {
        let rates = Rates::new(Rate { per_second: 10, at_once: 3 });
        let (one, two) = (TenantId::from_bytes([1; 16]), TenantId::from_bytes([2; 16]));
        let start = Instant::now();
        let taken = |tenant, after| rates.take(tenant, start + Duration::from_millis(after)).is_ok();
        assert_eq!([taken(one, 0), taken(one, 0), taken(one, 0), taken(one, 0)], [true, true, true, false]);
        assert!(taken(two, 0));
        assert!(!taken(one, 99));
        assert_eq!([taken(one, 150), taken(one, 150)], [true, false]);
        assert_eq!(
            [taken(one, 9000), taken(one, 9000), taken(one, 9000), taken(one, 9000)],
            [true, true, true, false]
        );
    }
}
