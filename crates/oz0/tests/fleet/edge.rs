//! From a sender to a node and back: routing by earned tier, and what is refused.

use oz0_fleet::protocol::{Outcome, Settled};
use serde_json::{Value, json};

use crate::support::node::{Node, linux, token, windows};
use crate::support::on_each;
use crate::support::server::{Sender, Server, agent, answered, ask, oz0, refused};

fn id(answer: &Value) -> String {
    answer["job"].as_str().unwrap().to_owned()
}

on_each! {
    /// T4, then the whole way: refused while no node earned tier 1, taken at once when one joins, leased by it alone,
    /// its log kept, finished once.
    fn a_webhook_goes_the_whole_way(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let sender = Sender::new(database, &server, "deploy");

        let (status, answer) = sender.send("d1", b"{}");
        assert_eq!((status, &answer["code"]), (503, &json!("no_tier1_node")), "{answer}");
        let windows = Node::join(database, &server, windows());
        let (status, answer) = sender.send("d1", b"{}");
        assert_eq!((status, &answer["code"]), (503, &json!("no_tier1_node")), "{answer}");
        assert!(answer["fix"].as_str().unwrap().contains("add a Linux node"), "{answer}");
        assert_eq!(ask(database, &["jobs"]), json!([]), "nothing is kept half");

        let linux = Node::join(database, &server, linux());
        let (status, answer) = sender.send("d1", b"{\"n\":1}");
        assert_eq!(status, 202, "{answer}");
        let job = id(&answer);
        let (status, again) = sender.send("d1", b"{\"n\":1}");
        assert_eq!((status, &again["known"], id(&again)), (200, &json!(true), job.clone()));

        assert!(windows.lease(8, 0).is_empty(), "routed as tier 0 whatever it shows");
        let leases = linux.lease(8, 0);
        assert_eq!(leases.len(), 1);
        let work = leases[0].work().unwrap();
        assert_eq!((leases[0].job.to_string(), work.command), (job.clone(), vec!["true".to_owned()]));
        assert_eq!(work.input.unwrap().body.0, b"{\"n\":1}");
        assert!(linux.lease(8, 0).is_empty(), "it is handed out once");

        let (lease, fence) = (leases[0].job, leases[0].fence);
        assert_eq!(linux.log(lease, fence, 0, b"hello ").1["next"], 6);
        assert_eq!(linux.log(lease, fence, 3, b"lo world").1["next"], 11, "what overlaps lands once");
        assert_eq!(linux.log(lease, fence, 40, b"gap").1["next"], 11, "a gap is not taken");
        assert_eq!(windows.log(lease, fence, 11, b"mine").0, 404, "another node's");

        let ok = Outcome::Exited { status: 0 };
        assert_eq!(linux.finish(&leases, ok).standings[0].settled, Settled::Kept);
        assert_eq!(linux.finish(&leases, ok).standings[0].settled, Settled::Known);
        let late = linux.finish(&leases, Outcome::TimedOut);
        assert_eq!(late.standings[0].settled, Settled::Late, "the first ending stays");
        let shown = ask(database, &["job", "show", &job]);
        assert_eq!((&shown["job"]["state"], &shown["waiting"]), (&json!("done"), &Value::Null), "{shown}");
        let log = oz0(database).args(["job", "logs", &job]).output().unwrap();
        assert_eq!(log.stdout, b"hello world");
        server.stop();
    }

    /// What a hostile or broken sender gets: a clear 4xx, and no job.
    fn what_is_not_right_is_refused(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        Node::join(database, &server, linux());
        let sender = Sender::new(database, &server, "deploy");
        let json = "application/json";
        let same = |signature: String| signature;
        for (name, (status, answer), expected, code) in [
            ("signature", sender.send_as("a", b"{}", 0, json, |_| "v1,AAAA".into()), 401, "bad_signature"),
            ("version", sender.send_as("a", b"{}", 0, json, |signature| signature.replace("v1,", "v2,")), 401, "bad_signature"),
            ("old", sender.send_as("a", b"{}", 400, json, same), 401, "clock"),
            ("type", sender.send_as("a", b"{}", 0, "text/plain", same), 415, "content_type"),
            ("length", sender.send("a", &vec![b' '; 1 << 21]), 413, "too_large"),
            ("id", sender.send(&"a".repeat(300), b"{}"), 400, "bad_request"),
        ] {
            assert_eq!((status, answer["code"].as_str()), (expected, Some(code)), "{name}: {answer}");
        }
        // One of several signatures is enough: senders change their secrets.
        let several = sender.send_as("b", b"{}", 0, json, |signature| format!("v1,AAAA {signature}"));
        assert_eq!(several.0, 202, "{}", several.1);
        let other = agent().post(format!("{}/in/trigger-00000000000000000000000000", server.base)).send("{}");
        assert_eq!(answered(other).0, 404);
        assert_eq!(ask(database, &["jobs"]).as_array().unwrap().len(), 1);
    }

    /// C164, T1, T4, T7: inside work at tier 0 runs anywhere; what asks for tier 1 waits and says why; a dry run says it
    /// before.
    fn a_session_submits_asks_and_cancels(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let node = Node::join(database, &server, windows());
        let given = ask(database, &["tenant", "token"]);
        let bearer = format!("Bearer {}", given["token"].as_str().unwrap());
        let post = |path: &str, body: Value| {
            answered(agent().post(format!("{}{path}", server.base)).header("authorization", &bearer).send(body.to_string()))
        };
        let get = |path: &str| {
            answered(agent().get(format!("{}{path}", server.base)).header("authorization", &bearer).call())
        };
        let work = |tier: &str| json!({"work": {"kind": "command", "tier": tier, "command": ["true"]}});

        let waiting = "needs tier 1; 1 node on line, none with tier 1: 1 Windows, routed as tier 0";
        let (status, routed) = post("/v1/route", work("tier 1"));
        assert_eq!((status, routed["waiting"].as_str()), (200, Some(waiting)), "{routed}");
        let (status, one) = post("/v1/jobs", work("tier 1"));
        assert_eq!(status, 202, "{one}");
        let one = format!("/v1/jobs/{}", id(&one));
        assert_eq!(get(&one).1["waiting"], waiting);
        assert!(node.lease(8, 0).is_empty());

        let (_, zero) = post("/v1/jobs", work("tier 0"));
        let leases = node.lease(8, 0);
        assert_eq!(leases.iter().map(|lease| lease.job.to_string()).collect::<Vec<_>>(), [id(&zero)]);

        assert_eq!(post(&format!("{one}/cancel"), json!({})).1["state"], "cancelled");
        assert_eq!(post(&format!("/v1/jobs/{}/cancel", id(&zero)), json!({})).1["state"], "leased");
        let held = json!({"held": [{"job": leases[0].job, "fence": leases[0].fence, "phase": "running"}]});
        assert_eq!(node.post("/node/renew", &held).1["renewals"][0]["verdict"], "cancel");
        node.finish(&leases, Outcome::Cancelled);
        assert_eq!(get(&format!("/v1/jobs/{}", id(&zero))).1["state"], "cancelled");

        let wrong = agent().get(format!("{}/v1/jobs", server.base)).header("authorization", "Bearer x").call();
        assert_eq!(answered(wrong).0, 401);
        let (status, answer) = post("/v1/jobs", json!({"work": {"kind": "command", "tier": "tier 2", "command": ["a"]}}));
        assert_eq!((status, &answer["code"]), (400, &json!("bad_request")));

        // Another tenant's jobs are not there.
        ask(database, &["tenant", "create", "other"]);
        let given = ask(database, &["tenant", "token", "--tenant", "other"]);
        let other = format!("Bearer {}", given["token"].as_str().unwrap());
        let call = agent().get(format!("{}{one}", server.base)).header("authorization", &other).call();
        assert_eq!(answered(call).0, 404);
    }

    /// Everything that was accepted is there after the power went, and ends once.
    fn what_was_accepted_survives(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        Node::join(database, &server, linux());
        let sender = Sender::new(database, &server, "deploy");
        let jobs: Vec<String> = (0..20).map(|number| id(&sender.send(&format!("d{number}"), b"{}").1)).collect();
        server.kill();

        let server = Server::start(database);
        let node = Node::join(database, &server, linux());
        let again = sender.to(&server).send("d3", b"{}");
        assert_eq!((again.0, id(&again.1)), (200, jobs[3].clone()));
        let leases = node.lease(64, 0);
        assert_eq!(leases.iter().map(|lease| lease.job.to_string()).collect::<Vec<_>>(), jobs);
        node.finish(&leases, Outcome::Exited { status: 1 });
        let listed = ask(database, &["jobs"]);
        assert!(listed.as_array().unwrap().iter().all(|job| job["state"] == "failed"), "{listed}");
    }

    /// A poll is answered as soon as there is a job, and when the server ends.
    fn a_node_that_waits_is_woken(database) {
        ask(database, &["tenant", "create", "acme"]);
        let server = Server::start(database);
        let node = Node::join(database, &server, linux());
        let sender = Sender::new(database, &server, "deploy");
        std::thread::scope(|scope| {
            let poll = scope.spawn(|| (node.lease(1, 20_000), std::time::Instant::now()));
            std::thread::sleep(std::time::Duration::from_millis(300));
            let sent = std::time::Instant::now();
            assert_eq!(sender.send("d1", b"{}").0, 202);
            let (leases, woken) = poll.join().unwrap();
            assert_eq!(leases.len(), 1);
            assert!(woken - sent < std::time::Duration::from_millis(900), "before the clockwork looked");
            let poll = scope.spawn(|| node.lease(1, 20_000));
            std::thread::sleep(std::time::Duration::from_millis(300));
            server.stop();
            assert!(poll.join().unwrap().is_empty());
        });
    }
}

#[test]
fn plain_http_stays_on_this_machine() {
    let database = crate::support::database::Database::sqlite();
    let said = refused(&database, &["serve", "--listen", "0.0.0.0:0"]);
    assert!(said.starts_with("oz0: plain HTTP at 0.0.0.0:0 would show tokens"), "{said}");
}

#[test]
fn a_tenant_that_sends_too_much_waits() {
    let database = crate::support::database::Database::sqlite();
    ask(&database, &["tenant", "create", "acme"]);
    let server = Server::with(&database, &["--rate", "1", "--burst", "3"]);
    Node::join(&database, &server, linux());
    let sender = Sender::new(&database, &server, "deploy");
    let answers: Vec<u16> = (0..5).map(|number| sender.send(&number.to_string(), b"{}").0).collect();
    assert_eq!(answers[..3], [202, 202, 202]);
    assert_eq!(answers[4], 429, "{answers:?}");
    let said = refused(&database, &["node", "token", "--name", "Not A Name"]);
    assert!(said.contains("not a name"), "{said}");
    assert!(token(&database).starts_with("oz0-node-"));
}
