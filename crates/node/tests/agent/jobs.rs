//! Jobs of tier 1, from lease to ending.

use std::time::Duration;

use oz0_fleet::protocol::{Objection, Obstacle, Outcome};
use serde_json::json;

use crate::agent::{Agent, journal, left};
use crate::edge::{Edge, script};
use crate::support::{Place, mark, processes_with, tests, wait_for};

tests![
    a_job_runs_in_a_folder_of_its_own_and_ends_as_its_command_did,
    each_way_to_end_has_its_word,
    what_is_not_understood_is_refused_and_the_next_job_runs,
    two_jobs_run_at_once_and_capacity_says_what_is_left,
    a_job_sees_neither_the_data_directory_nor_the_environment_of_the_node,
    a_job_reaches_no_host_that_is_not_allowed_and_its_log_says_so,
    a_repository_that_cannot_be_fetched_is_tried_elsewhere,
];

fn a_job_runs_in_a_folder_of_its_own_and_ends_as_its_command_did(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &[]);
    let mut work =
        script("cat; echo; ls -A; cat given/file; ./tool; echo $GREETING; pwd; touch made; exit 7");
    work["input"] = json!({"body": "aGVsbG8gaW5wdXQ="});
    work["environment"] = json!({"GREETING": "hello environment"});
    work["files"] = json!([
        {"path": "given/file", "contents": "aGVsbG8gZmlsZQo="},
        {"path": "tool", "contents": "IyEvYmluL3NoCmVjaG8gaGVsbG8gdG9vbAo=", "executable": true},
    ]);
    let job = edge.queue(work);
    let ending = edge.ending(job);
    assert_eq!(ending.outcome, Outcome::Exited { status: 7 }, "{}", agent.said());
    let log = String::from_utf8(edge.log(job)).unwrap();
    for words in ["hello input\ngiven\ntool\n", "hello file\n", "hello tool\n", "hello environment\n"] {
        assert!(log.contains(words), "{words:?} in: {log}");
    }
    assert!(log.contains(&format!("/jobs/{job}.1\n")), "{log}");
    assert!(ending.run_ms.count() < 60_000 && ending.start_ms.count() < 60_000);
    wait_for("nothing left", Duration::from_secs(10), || {
        (left(place).is_empty() && journal(place).is_empty()).then_some(())
    });
    assert!(agent.said().contains("confined by"), "the mechanism is told: {}", agent.said());
}

fn each_way_to_end_has_its_word(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &["--jobs", "8"]);
    let mut timed = script("sleep 600");
    timed["limits"]["run_ms"] = json!(300);
    let mut hungry = script("python3 -c 'x = b\"x\" * (1 << 30)'");
    hungry["limits"]["memory_mib"] = json!(64);
    let mut wrong = script("true");
    wrong["limits"]["processes"] = json!(1);
    let mut outside = script("true");
    outside["files"] = json!([{"path": "../x", "contents": ""}]);
    let cases = [
        (script("true"), Outcome::Exited { status: 0 }),
        (script("kill -SEGV $$"), Outcome::Signalled { signal: 11 }),
        (timed, Outcome::TimedOut),
        (hungry, Outcome::LimitHit),
        (
            json!({"kind": "command", "tier": "tier 1", "command": ["no-such-command"], "limits": {"memory_mib": 256}}),
            Outcome::Refused { objection: Objection::Command },
        ),
        (wrong, Outcome::Refused { objection: Objection::Policy }),
        (outside, Outcome::Refused { objection: Objection::Policy }),
    ];
    let jobs: Vec<_> = cases.into_iter().map(|(work, outcome)| (edge.queue(work), outcome)).collect();
    for (job, outcome) in jobs {
        let ending = edge.ending(job);
        let log = String::from_utf8_lossy(&edge.log(job)).into_owned();
        assert_eq!(ending.outcome, outcome, "{log}\n{}", agent.said());
        if outcome == Outcome::LimitHit {
            assert!(log.contains("oz0-node: limit: memory"), "{log}");
        }
    }
}

fn what_is_not_understood_is_refused_and_the_next_job_runs(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &[]);
    let mut newer = script("true");
    newer["mounts"] = json!(["/"]);
    let (newer, known) = (edge.queue(newer), edge.queue(script("true")));
    assert_eq!(edge.ending(newer).outcome, Outcome::Refused { objection: Objection::NotUnderstood });
    assert_eq!(edge.ending(known).outcome, Outcome::Exited { status: 0 });
}

fn two_jobs_run_at_once_and_capacity_says_what_is_left(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &["--jobs", "2", "--jobs-memory", "1G"]);
    let (one, two) = (mark(), mark());
    let mut large = script(&format!("sleep {two}"));
    large["limits"]["memory_mib"] = json!(700);
    let first = edge.queue(script(&format!("sleep {one}")));
    let second = edge.queue(large);
    for mark in [&one, &two] {
        wait_for("both", Duration::from_secs(30), || (!processes_with(mark).is_empty()).then_some(()));
    }
    {
        let known = edge.known();
        let mut told: Vec<_> =
            known.capacities.iter().map(|asked| (asked.capacity.jobs, asked.capacity.memory_mib)).collect();
        told.dedup();
        assert_eq!(told, [(2, 1024), (1, 768)], "with both there is nothing to ask for");
    }
    // The edge hands out a job that nobody asked for.
    edge.known().verdicts.insert(second, json!({"verdict": "cancel", "grace_ms": 0, "lease_ms": 9000}));
    assert_eq!(edge.ending(second).outcome, Outcome::Cancelled);
    let mut larger = script("true");
    larger["limits"]["memory_mib"] = json!(900);
    let third = edge.queue(larger);
    assert_eq!(edge.ending(third).outcome, Outcome::NotStarted { obstacle: Obstacle::Room });
    assert!(processes_with(&two).is_empty() && !processes_with(&one).is_empty(), "{}", agent.said());
    edge.known().verdicts.insert(first, json!({"verdict": "stop"}));
    wait_for("its end", Duration::from_secs(30), || processes_with(&one).is_empty().then_some(()));
}

fn a_job_sees_neither_the_data_directory_nor_the_environment_of_the_node(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &[]);
    let other = edge.queue(script("echo other > file; sleep 3"));
    let data = crate::agent::data(place);
    let jobs = crate::agent::jobs(place);
    let text = format!(
        "cat {}/identity/node.key; ls {}; cat {}/*/file; env; cat /proc/1/environ; echo; exit 0",
        data.display(),
        data.display(),
        jobs.display()
    );
    let job = edge.queue(script(&text));
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 0 });
    let log = String::from_utf8_lossy(&edge.log(job)).into_owned();
    assert!(!log.contains("OZ0_") && !log.contains("other\n") && !log.contains("identity\n"), "{log}");
    assert!(log.contains("node.key: "), "reading it was refused: {log}");
    edge.ending(other);
}

fn a_job_reaches_no_host_that_is_not_allowed_and_its_log_says_so(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &[]);
    let job = edge.queue(script("curl -fsS -m 10 http://host.invalid/"));
    assert!(matches!(edge.ending(job).outcome, Outcome::Exited { status } if status != 0));
    let log = String::from_utf8_lossy(&edge.log(job)).into_owned();
    assert!(log.contains("oz0-node: denied: host.invalid:80"), "{log}");
}

fn a_repository_that_cannot_be_fetched_is_tried_elsewhere(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &[]);
    let mut work = script("echo never; cat .git/config");
    work["repository"] = json!({
        "url": "https://host.invalid/a.git", "revision": "main",
        "credential": {"user": "somebody", "password": "hunter2hunter2"},
    });
    let job = edge.queue(work);
    assert_eq!(edge.ending(job).outcome, Outcome::NotStarted { obstacle: Obstacle::Fetch });
    let log = String::from_utf8_lossy(&edge.log(job)).into_owned();
    assert!(log.contains("host.invalid") && !log.contains("never") && !log.contains("hunter2"), "{log}");
    assert!(!agent.said().contains("hunter2"));
}
