//! How an agent ends: told once, told twice, killed.

use std::time::{Duration, Instant};

use oz0_fleet::protocol::{Obstacle, Outcome};
use rustix::process::Signal;

use crate::agent::{Agent, journal, left};
use crate::edge::{Edge, script};
use crate::support::{Place, mark, processes_with, tests, wait_for};

tests![
    told_to_end_it_takes_nothing_new_and_waits_for_its_jobs,
    a_drain_has_a_bound,
    told_twice_it_ends_at_once,
    killed_it_leaves_no_process_and_the_next_start_tells_what_was_lost,
];

fn told_to_end_it_takes_nothing_new_and_waits_for_its_jobs(place: &Place) {
    let edge = Edge::start();
    let mut agent = Agent::start(place, &edge, &["--jobs", "4"]);
    let job = edge.queue(script("echo up; sleep 3; echo done"));
    edge.wait_log(job, "up");
    agent.signal(Signal::TERM);
    agent.wait_said("no new jobs");
    let late = edge.queue(script("true"));
    assert_eq!(agent.ends(Duration::from_secs(60)), Some(0), "{}", agent.said());
    assert_eq!(edge.ending(job).outcome, Outcome::Exited { status: 0 });
    assert_eq!(edge.log(job), b"up\ndone\n");
    // It came in answer to a question from before, or not at all.
    let known = edge.known();
    let told = known.endings.iter().find(|ending| ending.job == late);
    assert!(told.is_none_or(|ending| ending.outcome == Outcome::NotStarted { obstacle: Obstacle::Draining }));
    assert!(left(place).is_empty());
}

fn a_drain_has_a_bound(place: &Place) {
    let edge = Edge::start();
    let mut agent = Agent::start(place, &edge, &["--drain", "1s"]);
    let mark = mark();
    let job = edge.queue(script(&format!("trap '' TERM; echo up; sleep {mark}")));
    edge.wait_log(job, "up");
    agent.signal(Signal::TERM);
    assert_eq!(agent.ends(Duration::from_secs(60)), Some(0), "{}", agent.said());
    assert!(processes_with(&mark).is_empty());
    assert_eq!(edge.ending(job).outcome, Outcome::Lost);
}

fn told_twice_it_ends_at_once(place: &Place) {
    let edge = Edge::start();
    let mut agent = Agent::start(place, &edge, &[]);
    let mark = mark();
    let job = edge.queue(script(&format!("trap '' TERM; echo up; sleep {mark}")));
    edge.wait_log(job, "up");
    agent.signal(Signal::TERM);
    agent.wait_said("no new jobs");
    let begun = Instant::now();
    agent.signal(Signal::TERM);
    assert_eq!(agent.ends(Duration::from_secs(60)), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(processes_with(&mark).is_empty());
}

fn killed_it_leaves_no_process_and_the_next_start_tells_what_was_lost(place: &Place) {
    let edge = Edge::start();
    let mut agent = Agent::start(place, &edge, &["--jobs", "4"]);
    let mark = mark();
    let text = format!("trap '' TERM HUP; setsid sleep {mark} & echo up; sleep {mark}");
    let sandboxed = edge.queue(script(&text));
    let mut plain = script(&text);
    plain["tier"] = "tier 0".into();
    let plain = edge.queue(plain);
    edge.wait_log(sandboxed, "up");
    edge.wait_log(plain, "up");
    // More than the edge has of it: the rest goes with the next start.
    agent.kill();
    wait_for("their end", Duration::from_secs(10), || processes_with(&mark).is_empty().then_some(()));
    assert!(!journal(place).is_empty());
    let mut next = Agent::start(place, &edge, &[]);
    for job in [sandboxed, plain] {
        assert_eq!(edge.ending(job).outcome, Outcome::Lost, "{}", next.said());
    }
    wait_for("nothing left", Duration::from_secs(10), || {
        (left(place).is_empty() && journal(place).is_empty()).then_some(())
    });
    assert_eq!(edge.known().enrolments, 1);
    next.signal(Signal::TERM);
    assert_eq!(next.ends(Duration::from_secs(30)), Some(0));
}
