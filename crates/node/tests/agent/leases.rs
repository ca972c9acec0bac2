//! Leases: kept, lost, cancelled, and an edge that is away.

use std::time::{Duration, Instant};

use oz0_fleet::protocol::{Obstacle, Outcome, path};
use serde_json::json;

use crate::agent::Agent;
use crate::edge::{Edge, LEASE, script};
use crate::support::{Place, mark, processes_with, tests, wait_for};

tests![
    a_job_outlasts_its_first_lease,
    a_lease_that_cannot_be_kept_ends_the_job_before_its_end,
    an_edge_that_comes_back_in_time_finds_the_job_running,
    a_cancelled_job_has_its_grace_and_then_ends,
    what_is_no_longer_this_nodes_ends_at_once_and_is_not_told,
    c169_a_job_that_runs_here_is_not_started_twice,
];

fn a_job_outlasts_its_first_lease(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &[]);
    let seconds = LEASE.as_secs() + 4;
    let job = edge.queue(script(&format!("sleep {seconds}; echo done")));
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 0 });
    let renewals = edge.known().renewals[&job];
    assert!((3..=12).contains(&renewals), "at a third of the lease: {renewals}");
}

fn a_lease_that_cannot_be_kept_ends_the_job_before_its_end(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &[]);
    // It would not end by itself, nor when asked, and has a process in a session of its own.
    let mark = mark();
    let text = format!("trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep {mark}' & sleep {mark}");
    edge.known().deaf_to.extend([path::RENEW, path::LOG]);
    let job = edge.queue(script(&text));
    wait_for("the job", Duration::from_secs(30), || (!processes_with(&mark).is_empty()).then_some(()));
    wait_for("its end", Duration::from_secs(30), || processes_with(&mark).is_empty().then_some(()));
    let lived = edge.known().leased_at[&job].elapsed();
    assert!(lived < LEASE, "{lived:?} of {LEASE:?}: {}", agent.said());
    assert!(lived > Duration::from_secs(1), "it was ended long before: {lived:?}");
    assert_eq!(edge.ending(job).outcome, Outcome::Lost);
}

fn an_edge_that_comes_back_in_time_finds_the_job_running(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &[]);
    let job = edge.queue(script("echo one; sleep 6; echo two; sleep 6; echo three"));
    edge.wait_log(job, "one");
    edge.known().away = true;
    std::thread::sleep(Duration::from_secs(3));
    edge.known().away = false;
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 0 });
    assert_eq!(edge.log(job), b"one\ntwo\nthree\n", "each piece once");
}

fn a_cancelled_job_has_its_grace_and_then_ends(place: &Place) {
    let edge = Edge::start();
    let agent = Agent::start(place, &edge, &["--jobs", "4"]);
    let mark = mark();
    let polite = edge.queue(script("trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.05; done"));
    let deaf = edge.queue(script(&format!("trap '' TERM; echo up; setsid sleep {mark} & sleep {mark}")));
    edge.wait_log(polite, "up");
    edge.wait_log(deaf, "up");
    let begun = Instant::now();
    let cancel = json!({"verdict": "cancel", "grace_ms": 7000, "lease_ms": LEASE.as_millis() as u64});
    {
        let mut known = edge.known();
        known.verdicts.extend([(polite, cancel.clone()), (deaf, cancel)]);
        known.cancel.extend([polite, deaf]);
    }
    assert_eq!(edge.ending(polite).outcome, Outcome::Cancelled, "{}", agent.said());
    let asked = begun.elapsed();
    edge.wait_log(polite, "asked");
    assert_eq!(edge.ending(deaf).outcome, Outcome::Cancelled);
    assert!(begun.elapsed() > Duration::from_secs(7), "{:?}", begun.elapsed());
    assert!(asked < Duration::from_secs(6), "who ends when asked is not waited for: {asked:?}");
    assert!(processes_with(&mark).is_empty());
}

fn what_is_no_longer_this_nodes_ends_at_once_and_is_not_told(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &[]);
    let mark = mark();
    let job = edge.queue(script(&format!("trap '' TERM; sleep {mark}")));
    wait_for("the job", Duration::from_secs(30), || (!processes_with(&mark).is_empty()).then_some(()));
    edge.known().verdicts.insert(job, json!({"verdict": "stop"}));
    wait_for("its end", Duration::from_secs(30), || processes_with(&mark).is_empty().then_some(()));
    let next = edge.queue(script("true"));
    assert_eq!(edge.ending(next).outcome, Outcome::Exited { status: 0 });
    assert!(!edge.known().endings.iter().any(|ending| ending.job == job));
}

fn c169_a_job_that_runs_here_is_not_started_twice(place: &Place) {
    let edge = Edge::start();
    let _agent = Agent::start(place, &edge, &["--jobs", "4"]);
    let mark = mark();
    let work = script(&format!("echo up; sleep {mark}"));
    let job = edge.queue(work.clone());
    edge.wait_log(job, "up");
    edge.hand_out(job, 1, work.clone());
    edge.hand_out(job, 2, work);
    let refused =
        edge.wait("an answer", |known| known.endings.iter().find(|ending| ending.job == job).copied());
    assert_eq!(refused.fence.0, 2);
    assert_eq!(refused.outcome, Outcome::NotStarted { obstacle: Obstacle::Room });
    wait_for("the older's end", Duration::from_secs(30), || processes_with(&mark).is_empty().then_some(()));
    assert_eq!(edge.log(job), b"up\n");
    assert!(!edge.known().logs.contains_key(&(job, 2)));
}
