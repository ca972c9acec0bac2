//! Logs: whole, binary, masked, bounded.

use oz0_fleet::protocol::Outcome;
use serde_json::json;

use crate::agent::{Agent, data};
use crate::edge::{Edge, script};
use crate::support::{Place, tests};

tests![
    a_binary_log_arrives_whole_and_secrets_are_masked_wherever_they_are_cut,
    a_log_has_the_room_that_the_edge_gives
];

fn a_binary_log_arrives_whole_and_secrets_are_masked_wherever_they_are_cut(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &[]);
    // A MiB of every byte, and between its pieces the secret, cut in two with a pause in between.
    let program = r#"
import os, sys, time
secret = os.environ['SECRET'].encode()
piece = bytes(range(256)) * 256
out = os.fdopen(1, 'wb', 0)
for number in range(16):
    out.write(piece)
    out.write(secret[:number % len(secret)])
    time.sleep(0.02)
    out.write(secret[number % len(secret):])
err = os.fdopen(2, 'wb', 0)
err.write(b'\nerr ' + secret + b'\n')
"#;
    let mut work = script("");
    work["command"] = json!(["/usr/bin/python3", "-c", program]);
    work["secrets"] = json!({"SECRET": "correct horse battery staple"});
    let job = edge.queue(work);
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 0 }, "{}", agent.said());
    let piece: Vec<u8> = (0..=255).cycle().take(65_536).collect();
    let mut expected = Vec::new();
    for _ in 0..16 {
        expected.extend_from_slice(&piece);
        expected.extend_from_slice(b"***");
    }
    expected.extend_from_slice(b"\nerr ***\n");
    let log = edge.log(job);
    assert_eq!(log.len(), expected.len());
    assert!(log == expected, "the bytes are the same");
    assert!(!agent.said().contains("battery"));
    let jobs = data(place).join("jobs");
    for entry in std::fs::read_dir(jobs).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("battery"));
    }
}

fn a_log_has_the_room_that_the_edge_gives(place: &Place) {
    let edge = Edge::start();
    edge.known().room = Some(100_000);
    let agent = Agent::start(place, &edge, &[]);
    let job = edge.queue(script("head -c 5000000 /dev/zero; exit 4"));
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 4 }, "{}", agent.said());
    assert_eq!(edge.log(job).len(), 100_000);
}
