//! Several oz0 on one PostgreSQL, a database that is newer, and one that goes away.

use std::time::{Duration, Instant};

use oz0_fleet::protocol::Outcome;

use crate::support::database::Database;
use crate::support::node::{Node, linux};
use crate::support::on_each;
use crate::support::server::{Sender, Server, ask, refused};

#[test]
fn what_one_queues_wakes_a_node_at_another() {
    let database = Database::postgres();
    ask(&database, &["tenant", "create", "acme"]);
    let (one, two) = (Server::start(&database), Server::start(&database));
    let node = Node::join(&database, &two, linux());
    let sender = Sender::new(&database, &one, "deploy");
    std::thread::scope(|scope| {
        // The best of a few: without a word from the database each takes half a second on average.
        let best = (0..5)
            .map(|number| {
                let poll = scope.spawn(|| (node.lease(1, 20_000), Instant::now()));
                std::thread::sleep(Duration::from_millis(200));
                let sent = Instant::now();
                assert_eq!(sender.send(&number.to_string(), b"{}").0, 202);
                let (leases, woken) = poll.join().unwrap();
                assert_eq!(node.finish(&leases, Outcome::Exited { status: 0 }).standings.len(), 1);
                woken - sent
            })
            .min()
            .unwrap();
        assert!(best < Duration::from_millis(150), "{best:?}");
    });
}

/// Many nodes at two servers, many jobs: each is handed out once.
#[test]
fn no_job_is_handed_out_twice() {
    let database = Database::postgres();
    ask(&database, &["tenant", "create", "acme"]);
    let servers = [Server::start(&database), Server::start(&database)];
    let nodes: Vec<Node> =
        (0..6).map(|number| Node::join(&database, &servers[number % 2], linux())).collect();
    let sender = Sender::new(&database, &servers[0], "deploy");
    let mut handed = std::thread::scope(|scope| {
        let polls: Vec<_> = nodes
            .iter()
            .map(|node| {
                scope.spawn(move || {
                    let mut handed = Vec::new();
                    loop {
                        let leases = node.lease(3, 3000);
                        if leases.is_empty() {
                            return handed;
                        }
                        node.finish(&leases, Outcome::Exited { status: 0 });
                        handed.extend(leases.into_iter().map(|lease| (lease.job, lease.fence.0)));
                    }
                })
            })
            .collect();
        for number in 0..120 {
            assert_eq!(sender.send(&number.to_string(), b"{}").0, 202);
        }
        polls.into_iter().flat_map(|poll| poll.join().unwrap()).collect::<Vec<_>>()
    });
    handed.sort_unstable();
    assert_eq!(handed.len(), 120);
    handed.dedup_by_key(|(job, _)| *job);
    assert_eq!(handed.len(), 120);
    assert!(handed.iter().all(|(_, fence)| *fence == 1));
}

on_each! {
    fn a_newer_database_is_left_alone(database) {
        ask(database, &["tenant", "create", "acme"]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            sqlx::any::install_default_drivers();
            let url = database
                .url()
                .unwrap_or_else(|| format!("sqlite://{}", database.data().join("oz0.db").display()));
            let mut connection = <sqlx::AnyConnection as sqlx::Connection>::connect(&url).await.unwrap();
            sqlx::query("UPDATE schema_version SET version = 99").execute(&mut connection).await.unwrap();
        });
        let said = refused(database, &["nodes"]);
        assert!(said.contains("the database has schema 99, this oz0 knows 1: start a newer oz0"), "{said}");
        assert_eq!(database.is_postgres(), database.url().is_some());
    }
}
