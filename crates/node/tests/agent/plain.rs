//! Jobs of tier 0: with the node's own permissions, and ended with all that they started.

use std::time::Duration;

use oz0_fleet::protocol::{Objection, Outcome};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::edge::{Edge, script};
use crate::support::{Place, mark, processes_with, tests, wait_for};

tests![
    a_job_of_tier_0_has_the_nodes_permissions_and_none_of_its_variables,
    what_a_job_of_tier_0_leaves_behind_is_ended_with_it,
    a_job_of_tier_0_has_its_time_and_its_memory,
];

fn plain(text: &str) -> Value {
    let mut work = script(text);
    work["tier"] = json!("tier 0");
    work
}

fn a_job_of_tier_0_has_the_nodes_permissions_and_none_of_its_variables(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &["--jobs", "4"]);
    let seen = place.write("outside", "seen from outside\n");
    let job = edge.queue(plain(&format!("cat {}; id -u; env; cat; kill -9 $$", seen.display())));
    assert_eq!(edge.ending(job).outcome, Outcome::Signalled { signal: 9 }, "{}", agent.said());
    let log = String::from_utf8(edge.log(job)).unwrap();
    assert!(log.starts_with(&format!("seen from outside\n{}\n", place.user.uid())), "{log}");
    assert!(log.contains("HOME=") && !log.contains("OZ0_"), "{log}");
    let missing = edge.queue(json!({"kind": "command", "tier": "tier 0", "command": ["no-such-command"],
        "limits": {"memory_mib": 256}}));
    assert_eq!(edge.ending(missing).outcome, Outcome::Refused { objection: Objection::Command });
}

fn what_a_job_of_tier_0_leaves_behind_is_ended_with_it(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &[]);
    let mark = mark();
    // A daemon as daemons are made: a session of its own, its parent gone, no descriptor of the job's.
    let daemon = format!("setsid sh -c 'trap \"\" TERM; sleep {mark}' </dev/null >/dev/null 2>&1 &");
    let job = edge.queue(plain(&format!("({daemon}) ; sleep 0.3; echo up")));
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 0 }, "{}", agent.said());
    assert!(processes_with(&mark).is_empty(), "gone by the time it is told");
    assert_eq!(edge.log(job), b"up\n");
    let deaf = edge.queue(plain(&format!("trap '' TERM; ({daemon}) ; echo up; sleep {mark}")));
    edge.wait_log(deaf, "up");
    wait_for("both", Duration::from_secs(20), || (processes_with(&mark).len() >= 2).then_some(()));
    edge.known().verdicts.insert(deaf, json!({"verdict": "cancel", "grace_ms": 500, "lease_ms": 9000}));
    assert_eq!(edge.ending(deaf).outcome, Outcome::Cancelled, "{}", agent.said());
    assert!(processes_with(&mark).is_empty());
}

fn a_job_of_tier_0_has_its_time_and_its_memory(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &["--jobs", "4"]);
    let mut timed = plain("sleep 600");
    timed["limits"]["run_ms"] = json!(300);
    let mut hungry = plain("python3 -c 'x = b\"x\" * (1 << 30)'");
    hungry["limits"]["memory_mib"] = json!(64);
    let (timed, hungry) = (edge.queue(timed), edge.queue(hungry));
    assert_eq!(edge.ending(timed).outcome, Outcome::TimedOut, "{}", agent.said());
    assert_eq!(edge.ending(hungry).outcome, Outcome::LimitHit, "{}", agent.said());
}
