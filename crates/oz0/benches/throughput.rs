//! How many jobs a second go the whole way, and how soon a node that waits has one: `cargo bench -p oz0`. The built
//! program, signed HTTP over loopback, pretended nodes; SQLite and a PostgreSQL started for it. Sender, nodes, database
//! and oz0 share this machine.
#![allow(clippy::print_stdout, reason = "the figures are its answer")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use oz0_fleet::protocol::Outcome;

#[path = "../tests/fleet/support"]
#[allow(dead_code, clippy::unwrap_used, reason = "made for the tests; a figure needs less of it")]
mod support {
    pub(crate) mod database;
    pub(crate) mod node;
    pub(crate) mod server;
}

use support::database::Database;
use support::node::{Node, linux};
use support::server::{Sender, Server, ask};

/// One after the other, as a sender that waits for each answer.
const ONE_BY_ONE: u32 = 2000;
/// Whole ways, by several at once.
const TOGETHER: u32 = 8000;
const SENDERS: u32 = 4;
const NODES: u32 = 4;
/// As many as a node takes at once.
const AT_ONCE: u16 = 32;
const WAKE_UPS: u32 = 400;

fn main() {
    for database in [Database::sqlite(), Database::postgres()] {
        let name = if database.is_postgres() { "PostgreSQL" } else { "SQLite" };
        ask(&database, &["tenant", "create", "acme"]);
        let server = Server::start(&database);
        let sender = Sender::new(&database, &server, "bench");
        let nodes: Vec<Node> = (0..NODES).map(|_| Node::join(&database, &server, linux())).collect();

        let began = Instant::now();
        for number in 0..ONE_BY_ONE {
            assert_eq!(sender.send(&format!("one-{number}"), b"{}").0, 202);
        }
        let rate = per_second(ONE_BY_ONE, began.elapsed());
        println!("{name}: accepted one by one: {rate}/s");
        let began = Instant::now();
        let ended = drain(&nodes, ONE_BY_ONE);
        println!("{name}: leased and finished from the queue: {}/s", per_second(ended, began.elapsed()));

        let began = Instant::now();
        std::thread::scope(|scope| {
            for part in 0..SENDERS {
                let sender = sender.to(&server);
                scope.spawn(move || {
                    for number in 0..TOGETHER / SENDERS {
                        assert_eq!(sender.send(&format!("all-{part}-{number}"), b"{}").0, 202);
                    }
                });
            }
            assert_eq!(drain(&nodes, TOGETHER), TOGETHER);
        });
        println!(
            "{name}: accepted, leased and finished at once: {}/s",
            per_second(TOGETHER, began.elapsed())
        );

        let mut times = wake_ups(&sender, &nodes[0]);
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        println!("{name}: accepted until a waiting node has it: median {:?}, p99 {:?}", at(0.5), at(0.99));
        server.stop();
    }
}

fn per_second(count: u32, time: Duration) -> u32 {
    (f64::from(count) / time.as_secs_f64()) as u32
}

/// Every node takes and finishes, until all are done.
fn drain(nodes: &[Node], all: u32) -> u32 {
    let ended = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for node in nodes {
            let ended = &ended;
            scope.spawn(move || {
                while ended.load(Ordering::Relaxed) < all {
                    let leases = node.lease(AT_ONCE, 200);
                    if !leases.is_empty() {
                        node.finish(&leases, Outcome::Exited { status: 0 });
                        ended.fetch_add(leases.len() as u32, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    ended.load(Ordering::Relaxed)
}

/// From before the sender sends until the node has read the lease.
fn wake_ups(sender: &Sender, node: &Node) -> Vec<Duration> {
    (0..WAKE_UPS)
        .map(|number| {
            std::thread::scope(|scope| {
                let poll = scope.spawn(|| (node.lease(1, 20_000), Instant::now()));
                // Until the node waits.
                std::thread::sleep(Duration::from_millis(15));
                let sent = Instant::now();
                assert_eq!(sender.send(&format!("wake-{number}"), b"{}").0, 202);
                let (leases, woken) = poll.join().expect("a poll that is answered");
                node.finish(&leases, Outcome::Exited { status: 0 });
                woken - sent
            })
        })
        .collect()
}
