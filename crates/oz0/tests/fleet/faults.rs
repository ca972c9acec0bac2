//! oz0, nodes and PostgreSQL are killed at odd moments while work goes on: every job that was accepted ends exactly
//! once, none runs twice at the same time, none is lost (C170).

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oz0_fleet::protocol::signature::Signer;
use oz0_fleet::protocol::{Ending, Finish, Finished, JobId, Leased, Milliseconds, Outcome, Settled, path};

use crate::support::node::{Node, linux, token};
use crate::support::on_each;
use crate::support::server::{Sender, Server, ask};

const JOBS: u32 = 60;
const NODES: usize = 3;
/// A lease with its grace, and some for a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

/// Who runs what just now, and what became of it.
#[derive(Default)]
struct Seen {
    running: Mutex<HashMap<JobId, usize>>,
    kept: Mutex<HashMap<JobId, u32>>,
    ended: Mutex<HashSet<JobId>>,
}

/// A pretended node whose program is killed now and then: what it had then, it never heard of.
fn node(number: usize, kept: &[u8], base: &str, seen: &Seen, over: &AtomicBool) {
    let mut round = 0;
    'start: while !over.load(Ordering::Relaxed) {
        let node = Node::at(kept, base);
        while node.try_post::<serde_json::Value>(path::REPORT, &report()).is_none() {
            std::thread::sleep(Duration::from_millis(100));
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
        while !over.load(Ordering::Relaxed) {
            round += 1;
            let Some(leased) = node.try_post::<Leased>(path::LEASE, &Node::lease_request(2, 500)) else {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            for lease in &leased.jobs {
                let before = seen.running.lock().unwrap().insert(lease.job, number);
                assert_eq!(before, None, "{} runs at two nodes", lease.job);
            }
            std::thread::sleep(Duration::from_millis(20));
            for lease in &leased.jobs {
                seen.running.lock().unwrap().remove(&lease.job);
            }
            // Killed: its jobs have ended with it, and nobody is told. Each job once at most, since each time takes a
            // lease and its grace.
            let first = leased.jobs.iter().all(|lease| lease.attempt == 1);
            if round % 9 == 4 + number && !leased.jobs.is_empty() && first {
                continue 'start;
            }
            let none = Milliseconds::default();
            let ending = |lease: &oz0_fleet::protocol::Lease| Ending {
                job: lease.job,
                fence: lease.fence,
                outcome: Outcome::Exited { status: 0 },
                start_ms: none,
                run_ms: none,
            };
            let finish = Finish { endings: leased.jobs.iter().map(ending).collect() };
            // Told until it is answered, as the protocol asks.
            let finished = loop {
                match node.try_post::<Finished>(path::FINISH, &finish) {
                    Some(finished) => break finished,
                    None if over.load(Ordering::Relaxed) => return,
                    None => std::thread::sleep(Duration::from_millis(50)),
                }
            };
            for standing in finished.standings {
                if standing.settled == Settled::Kept {
                    *seen.kept.lock().unwrap().entry(standing.job).or_default() += 1;
                }
                // Where an answer was lost with its server the next one says that it is known.
                if matches!(standing.settled, Settled::Kept | Settled::Known) {
                    seen.ended.lock().unwrap().insert(standing.job);
                }
            }
        }
    }
}

fn report() -> serde_json::Value {
    serde_json::json!({
        "speaks": {"oldest": 1, "newest": 1}, "facts": linux(), "self_test": {"age_ms": 5, "took_ms": 600},
        "most_jobs": 8,
    })
}

fn send(sender: &Sender, accepted: &Mutex<HashSet<String>>) {
    for number in 0..JOBS {
        // As a sender does: until somebody says that it is taken.
        loop {
            if let Some((200 | 202, answer)) = sender.try_send(&format!("d{number}")) {
                accepted.lock().unwrap().insert(answer["job"].as_str().unwrap().to_owned());
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

on_each! {
    fn c170_every_accepted_job_ends_once(database) {
        ask(database, &["tenant", "create", "acme"]);
        let words = ["--rate", "100000", "--burst", "100000"];
        let mut server = Server::with(database, &words);
        let address = server.base.strip_prefix("http://").unwrap().to_owned();
        let sender = Sender::new(database, &server, "deploy");
        let keys: Vec<Vec<u8>> = (0..NODES).map(|_| Signer::generate().unwrap()).collect();
        for key in &keys {
            let node = Node::again(key, &server);
            assert_eq!(node.enrol(&token(database)).0, 200);
            assert_eq!(node.report(linux()).0, 200);
        }
        // One node has an oz0 of its own, which is not killed.
        let other = database.is_postgres().then(|| Server::with(database, &words));
        let (seen, over, accepted) = (Seen::default(), AtomicBool::new(false), Mutex::default());
        std::thread::scope(|scope| {
            for (number, key) in keys.iter().enumerate() {
                let (seen, over) = (&seen, &over);
                let server = other.as_ref().filter(|_| number == 0).unwrap_or(&server);
                let base = server.base.clone();
                scope.spawn(move || node(number, key, &base, seen, over));
            }
            let sending = scope.spawn(|| send(&sender, &accepted));
            for pause in [700, 1100, 500] {
                std::thread::sleep(Duration::from_millis(pause));
                server.kill();
                database.crash();
                server = Server::at(&address, database, &words);
            }
            sending.join().unwrap();
            let began = Instant::now();
            while seen.ended.lock().unwrap().len() < JOBS as usize && began.elapsed() < LONGEST {
                std::thread::sleep(Duration::from_millis(200));
            }
            over.store(true, Ordering::Relaxed);
        });
        let accepted = accepted.into_inner().unwrap();
        assert_eq!(accepted.len(), JOBS as usize, "a delivery is one job however often it is sent");
        let listed = ask(database, &["jobs", "--most", "500"]);
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), JOBS as usize);
        for job in listed {
            assert!(accepted.contains(job["job"].as_str().unwrap()), "{job}");
            assert_eq!(job["state"], "done", "{job}");
        }
        let kept = seen.kept.into_inner().unwrap();
        assert!(kept.values().all(|times| *times == 1), "{kept:?}");
    }
}
