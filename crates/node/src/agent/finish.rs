//! Endings on their way to the edge: each is sent until it is answered, however long that takes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use oz0_fleet::protocol::{Ending, Finish, Finished, MOST_JOBS, path};

use super::Agent;
use super::journal::Taking;
use super::lease::asks_again;
use super::pace::Pace;

const LIMIT: Duration = Duration::from_secs(20);
/// What the edge takes for a fault of ours is not repeated in a loop.
const FAULT: Duration = Duration::from_secs(60);

/// Those that are not answered yet.
#[derive(Default)]
pub struct Endings {
    waiting: Mutex<Vec<Ending>>,
    changed: Condvar,
}

impl Endings {
    /// One more.
    pub fn push(&self, ending: Ending) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(ending);
        self.changed.notify_all();
    }

    /// The first ones, when there are any.
    fn first(&self) -> Vec<Ending> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(waiting, |waiting| waiting.is_empty());
        let waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.iter().take(MOST_JOBS).copied().collect()
    }

    fn settle(&self, taking: Taking) {
        let is = |ending: &Ending| ending.job == taking.job && ending.fence == taking.fence;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).retain(|ending| !is(ending));
        self.changed.notify_all();
    }

    /// Wait until all were answered, at most so long.
    pub fn wait_empty(&self, time: Duration) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(waiting, time, |waiting| !waiting.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }
}

/// Tell the edge.
pub fn tell(agent: &Agent) {
    let mut pace = Pace::default();
    loop {
        let endings = agent.endings.first();
        match agent.edge.ask::<Finished>(path::FINISH, &Finish { endings }, LIMIT) {
            Ok(finished) => {
                pace.worked();
                for standing in &finished.standings {
                    let taking = Taking { job: standing.job, fence: standing.fence };
                    tracing::debug!(job = %taking.job, settled = %standing.settled, "told");
                    // After any answer the job is forgotten.
                    agent.journal.forget(taking);
                    agent.endings.settle(taking);
                }
                if finished.standings.is_empty() {
                    std::thread::sleep(pace.pause());
                }
            }
            Err(trouble) => {
                agent.meet(&trouble, "telling how jobs ended", pace.failures());
                let again = trouble.passes() || asks_again(&trouble);
                std::thread::sleep(if again { pace.pause() } else { FAULT });
            }
        }
    }
}
