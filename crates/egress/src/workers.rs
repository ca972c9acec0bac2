//! Threads that park between connections instead of ending. It refuses to know what a job is.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::tunnel::Stores;

/// Nothing here goes deep, but for the C library's resolver and the modules that a machine adds to it. What is not
/// touched costs no memory.
const STACK: usize = 256 * 1024;
/// A parked thread without work ends after this long.
const PARKED: Duration = Duration::from_secs(10);

type Work<J> = Box<dyn Fn(J, &mut Stores) + Send + Sync>;

/// A pool that grows to what is needed at once.
pub(crate) struct Workers<J> {
    work: Work<J>,
    state: Mutex<State<J>>,
    wake: Condvar,
}

struct State<J> {
    waiting: VecDeque<J>,
    parked: usize,
    alive: usize,
    closing: bool,
}

impl<J: Send + 'static> Workers<J> {
    pub(crate) fn new(work: impl Fn(J, &mut Stores) + Send + Sync + 'static) -> Arc<Workers<J>> {
        Arc::new(Workers {
            work: Box::new(work),
            state: Mutex::new(State { waiting: VecDeque::new(), parked: 0, alive: 0, closing: false }),
            wake: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a job to a parked thread, or to a new one. Without either the job is dropped and the error says why.
    pub(crate) fn submit(self: &Arc<Self>, job: J) -> io::Result<()> {
        let mut state = self.lock();
        state.waiting.push_back(job);
        if state.waiting.len() <= state.parked {
            drop(state);
            self.wake.notify_one();
            return Ok(());
        }
        state.alive += 1;
        let pool = Arc::clone(self);
        let spawned = thread::Builder::new()
            .name("egress".to_owned())
            .stack_size(STACK)
            .spawn(move || Alive(&pool).run());
        if let Err(error) = spawned {
            state.alive -= 1;
            state.waiting.pop_back();
            return Err(error);
        }
        Ok(())
    }

    /// Tells parked threads to end and waits for all of them, until the deadline. Gives how many are left.
    pub(crate) fn close(&self, deadline: Instant) -> usize {
        let mut state = self.lock();
        state.closing = true;
        self.wake.notify_all();
        while state.alive > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.alive
    }

    fn next_job(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.closing {
                return None;
            }
            state.parked += 1;
            let (mut again, timeout) =
                self.wake.wait_timeout(state, PARKED).unwrap_or_else(PoisonError::into_inner);
            again.parked -= 1;
            if timeout.timed_out() && again.waiting.is_empty() {
                return None;
            }
            state = again;
        }
    }
}

/// Counts its thread out, also when a job panics.
struct Alive<'a, J: Send + 'static>(&'a Workers<J>);

impl<J: Send + 'static> Alive<'_, J> {
    fn run(&self) {
        let mut stores = Stores::default();
        while let Some(job) = self.0.next_job() {
            (self.0.work)(job, &mut stores);
        }
    }
}

impl<J: Send + 'static> Drop for Alive<'_, J> {
    fn drop(&mut self) {
        self.0.lock().alive -= 1;
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn threads_are_reused_and_a_panic_costs_one_thread_only() {
        let (done, finished) = mpsc::channel();
        let done = Mutex::new(done);
        let pool = Workers::new(move |job: u32, _: &mut Stores| {
            assert_ne!(job, 7, "a job that panics");
            done.lock().unwrap().send(thread::current().id()).unwrap();
        });
        pool.submit(1).unwrap();
        let first = finished.recv().unwrap();
        while pool.lock().parked == 0 {
            thread::yield_now();
        }
        pool.submit(2).unwrap();
        assert_eq!(finished.recv().unwrap(), first);
        pool.submit(7).unwrap();
        while pool.lock().alive != 0 {
            thread::yield_now();
        }
        pool.submit(3).unwrap();
        finished.recv().unwrap();
        assert_eq!(pool.close(Instant::now() + Duration::from_secs(5)), 0);
    }

    #[test]
    fn every_job_runs_at_once() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let pool = Workers::new(|_: (), _: &mut Stores| {
            RUNNING.fetch_add(1, Ordering::SeqCst);
            while RUNNING.load(Ordering::SeqCst) < 20 {
                thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..20 {
            pool.submit(()).unwrap();
        }
        assert_eq!(pool.close(Instant::now() + Duration::from_secs(10)), 0);
    }
}
