//! Becoming a node, reporting, and what an edge refuses.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use oz0_fleet::protocol::{NodeState, path};
use serde_json::json;

use crate::agent::{Agent, command, data};
use crate::edge::{Edge, TOKEN};
use crate::support::{Place, finish, tests};

tests![
    a_node_enrols_once_and_reports_at_each_start,
    a_token_is_no_argument_and_is_nowhere_to_be_read,
    c176_a_node_says_its_id_and_goes_on_by_itself_when_the_edge_is_there,
    a_token_that_is_none_ends_the_start_with_the_reason,
    a_wrong_clock_is_told_with_its_error,
    c175_a_key_of_two_machines_takes_nothing_and_waits,
    a_revoked_node_ends_and_says_what_to_do,
    a_data_directory_has_one_agent,
    jobs_lie_outside_the_data_directory,
];

fn a_node_enrols_once_and_reports_at_each_start(place: &Place) {
    let edge = Edge::start();
    let mut first = Agent::reported(place, &edge, &[]);
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.ends(Duration::from_secs(30)), Some(0));
    // The token is used up: a start that enrolled again would be refused.
    edge.known().refuse.insert(path::ENROL, json!({"code": "token", "reason": "it was used"}));
    let second = Agent::reported(place, &edge, &[]);
    let known = edge.known();
    assert_eq!((known.enrolments, known.starts.len()), (1, 2), "{}", second.said());
    let key = fs::metadata(data(place).join("identity/node.key")).unwrap();
    assert_eq!((key.mode() & 0o7777, key.len()), (0o600, 32));
}

fn a_token_is_no_argument_and_is_nowhere_to_be_read(place: &Place) {
    let edge = Edge::start();
    let typed = finish(&mut command(place, &edge, &["--enrol", TOKEN]));
    typed.exits(125);
    typed.says("--enrol @FILE");
    typed.says_not(TOKEN);
    assert_eq!(edge.known().enrolments, 0);
    // In the variable it is taken, and given to no other process.
    let mut with_variable = command(place, &edge, &[]);
    with_variable.env("OZ0_ENROL_TOKEN", TOKEN);
    let agent = Agent::of(with_variable);
    edge.wait("a report", |known| (!known.reports.is_empty()).then_some(()));
    assert_eq!(edge.known().enrolments, 1);
    assert!(!agent.said().contains(TOKEN));
    let words = fs::read(format!("/proc/{}/cmdline", agent.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&words).contains(TOKEN));
    for kept in ["enrolled.json", "agent.lock"] {
        assert!(!fs::read_to_string(data(place).join(kept)).unwrap().contains(TOKEN));
    }
}

fn c176_a_node_says_its_id_and_goes_on_by_itself_when_the_edge_is_there(place: &Place) {
    let edge = Edge::start();
    edge.known().away = true;
    let token = place.write("token", TOKEN);
    let agent = Agent::of(command(place, &edge, &["--enrol", &format!("@{}", token.display())]));
    agent.wait_said("node-");
    agent.wait_said("the edge is away");
    assert_eq!(edge.known().enrolments, 0);
    edge.known().away = false;
    edge.wait("a report", |known| (!known.reports.is_empty()).then_some(()));
}

fn a_token_that_is_none_ends_the_start_with_the_reason(place: &Place) {
    let edge = Edge::start();
    let token = place.write("token", "another");
    let refused = finish(&mut command(place, &edge, &["--enrol", &format!("@{}", token.display())]));
    refused.exits(125);
    refused.says("the token is none (token)").says("node-");
    let without = finish(&mut command(place, &edge, &[]));
    without.exits(125);
    without.says("is not enrolled").says("oz0 node token");
    let missing = finish(&mut command(place, &edge, &["--enrol", "@/nowhere/token"]));
    missing.exits(125);
    missing.says("/nowhere/token");
}

fn a_wrong_clock_is_told_with_its_error(place: &Place) {
    let edge = Edge::start();
    let later = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 + 600_500;
    edge.known()
        .refuse
        .insert(path::ENROL, json!({"code": "clock", "reason": "too far", "edge_time": later}));
    let token = place.write("token", TOKEN);
    let agent = Agent::of(command(place, &edge, &["--enrol", &format!("@{}", token.display())]));
    agent.wait_said("this machine's clock is 10 min behind");
    // Set right, it goes on.
    edge.known().refuse.clear();
    edge.wait("a report", |known| (!known.reports.is_empty()).then_some(()));
}

fn c175_a_key_of_two_machines_takes_nothing_and_waits(place: &Place) {
    let edge = Edge::start();
    edge.known().refuse.insert(path::LEASE, json!({"code": "held", "reason": "two machines have this key"}));
    let mut agent = Agent::reported(place, &edge, &[]);
    agent.wait_said("two machines have this key");
    agent.wait_said("Held");
    edge.known().state = Some(NodeState::Held);
    let asked = |known: &crate::edge::Known| known.paths.iter().filter(|path| *path == "/node/lease").count();
    let before = asked(&edge.known());
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(asked(&edge.known()), before, "it asks slowly");
    agent.signal(rustix::process::Signal::TERM);
    assert_eq!(agent.ends(Duration::from_secs(30)), Some(0));
}

fn a_revoked_node_ends_and_says_what_to_do(place: &Place) {
    let edge = Edge::start();
    edge.known().refuse.insert(path::LEASE, json!({"code": "revoked", "reason": "an operator revoked it"}));
    let mut agent = Agent::reported(place, &edge, &[]);
    assert_eq!(agent.ends(Duration::from_secs(60)), Some(125));
    agent.wait_said("make a new token");
    assert!(!data(place).join("enrolled.json").exists());
}

fn a_data_directory_has_one_agent(place: &Place) {
    let edge = Edge::start();
    let _first = Agent::reported(place, &edge, &[]);
    let second = finish(&mut command(place, &edge, &[]));
    second.exits(125);
    second.says("another agent uses this data directory");
}

fn jobs_lie_outside_the_data_directory(place: &Place) {
    let edge = Edge::start();
    let inside = data(place).join("work");
    let refused = finish(&mut command(place, &edge, &["--jobs-dir", inside.to_str().unwrap()]));
    // An option twice is refused too: so it is typed once.
    refused.exits(125);
    let mut once = place.node();
    once.args(["run", "--edge", &edge.url, "--data-dir"]).arg(data(place)).arg("--jobs-dir").arg(&inside);
    let refused = finish(&mut once);
    refused.exits(125);
    refused.says("cannot lie below the node's data directory");
}
