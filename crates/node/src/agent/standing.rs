//! How this start stands with the edge: may it take work, does it have to report first, is it over.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oz0_fleet::protocol::{Code, NodeState};

/// What the edge last let this start do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing was reported yet, or it has to be again.
    #[default]
    Unreported,
    /// Take work.
    Active,
    /// Finish what it has: an operator wants it so.
    Draining,
    /// Nothing, until an operator has settled which of two machines this is.
    Held,
    /// Nothing, ever: it is no node of this edge.
    Shut(Code),
}

/// The state, and who waits for another.
#[derive(Default)]
pub struct Standing {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    state: State,
    /// Nobody waits here any more.
    woken: bool,
}

impl Standing {
    /// What it is.
    pub fn state(&self) -> State {
        self.lock().state
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// May it ask for jobs?
    pub fn takes_work(&self) -> bool {
        self.state() == State::Active
    }

    /// A report was taken.
    pub fn reported(&self, state: NodeState) {
        self.set(match state {
            NodeState::Active => State::Active,
            NodeState::Draining => State::Draining,
            NodeState::Held => State::Held,
            NodeState::Revoked => State::Shut(Code::Revoked),
        });
    }

    /// A request was refused with this code. True where that says something about this start.
    pub fn refused(&self, code: Code) -> bool {
        let state = match code {
            Code::ReportFirst => State::Unreported,
            Code::Held | Code::Superseded => State::Held,
            Code::Revoked | Code::UnknownNode => State::Shut(code),
            _ => return false,
        };
        self.set(state);
        true
    }

    fn set(&self, state: State) {
        let mut inner = self.lock();
        // Nothing comes after that.
        if !matches!(inner.state, State::Shut(_)) && inner.state != state {
            tracing::info!(was = ?inner.state, is = ?state, "standing with the edge");
            inner.state = state;
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// From now on nobody waits here.
    pub fn wake(&self) {
        self.lock().woken = true;
        self.changed.notify_all();
    }

    /// Wait so long, or until something changes; not while a report is wanted, it is over, or it was woken.
    pub fn wait(&self, time: Duration) {
        let inner = self.lock();
        if !inner.woken && !matches!(inner.state, State::Unreported | State::Shut(_)) {
            drop(self.changed.wait_timeout(inner, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide_alone() {
        let standing = Standing::default();
        assert!(!standing.takes_work());
        standing.reported(NodeState::Active);
        assert!(standing.takes_work());
        for code in [Code::RateLimited, Code::Unavailable, Code::BadRequest, Code::Clock, Code::Replayed] {
            assert!(!standing.refused(code) && standing.takes_work(), "{code}");
        }
        assert!(standing.refused(Code::Superseded) && standing.state() == State::Held);
        standing.reported(NodeState::Draining);
        assert!(!standing.takes_work());
        assert!(standing.refused(Code::ReportFirst) && standing.state() == State::Unreported);
        standing.refused(Code::Revoked);
        standing.reported(NodeState::Active);
        assert_eq!(standing.state(), State::Shut(Code::Revoked), "nothing comes after that");
    }

    #[test]
    fn who_was_woken_before_waits_no_more() {
        let standing = Standing::default();
        standing.reported(NodeState::Active);
        standing.wake();
        let begun = std::time::Instant::now();
        standing.wait(Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
