use serde_json::json;

use super::*;
use crate::facts::tests::{linux, windows};
use crate::{Facts, Mechanism, Platform, Reported, Tier};

fn job() -> JobId {
    JobId::new(Timestamp::from_milliseconds(1_800_000_000_000), [9; 10])
}

#[test]
fn versions_are_agreed_on_by_one_number() {
    let speaks = |oldest, newest| Versions { oldest, newest };
    assert_eq!(speaks(1, 3).agree(speaks(2, 5)), Some(3));
    assert_eq!(speaks(1, 1).agree(speaks(1, 9)), Some(1));
    assert_eq!(speaks(1, 2).agree(speaks(3, 4)), None);
    assert_eq!(speaks(3, 4).agree(speaks(1, 2)), None);
    assert_eq!(speaks(5, 1).agree(speaks(1, 5)), None, "a range the wrong way round is none");
    assert!(speaks(1, 3).speaks(3) && !speaks(1, 3).speaks(4));
}

#[test]
fn later_jobs_sort_later() {
    let at = |time, chance| JobId::new(Timestamp::from_milliseconds(time), [chance; 10]);
    assert!(at(1, 255) < at(2, 0));
    assert!(at(255, 0) < at(256, 0));
}

#[test]
fn a_report_is_sent_as_facts_and_read_strictly() {
    let facts = linux().with_verdict(Ok(Mechanism::Linux));
    let report = Report {
        speaks: Versions::OURS,
        facts,
        self_test: Some(SelfTest { age_ms: Milliseconds::new(12), took_ms: Milliseconds::new(600) }),
        most_jobs: 4,
    };
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.len() < LONGEST_REQUEST);
    let read: Report<Reported> = serde_json::from_str(&text).unwrap();
    assert_eq!((read.facts.facts(), read.most_jobs, read.self_test), (facts, 4, report.self_test));

    // What a node adds of its own is nowhere in what is kept.
    let hostile = json!({
        "speaks": {"oldest": 1, "newest": 7}, "most_jobs": 1, "name": "<script>",
        "facts": {"platform": "<script>", "asked": "tier 1", "tier": "tier 1", "mechanism": "linux"},
    });
    let read: Report<Reported> = serde_json::from_value(hostile).unwrap();
    assert_eq!(read.facts.facts().platform(), Platform::Other);
    assert_eq!(read.facts.facts().tier, Tier::Zero);
    assert!(!format!("{read:?}").contains("script"));
}

#[test]
fn a_windows_report_survives_the_way() {
    let report = Report { speaks: Versions::OURS, facts: windows(), self_test: None, most_jobs: 2 };
    let read: Report<Reported> = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    let facts: Facts = read.facts.facts();
    assert_eq!(facts, windows());
}

#[test]
fn a_new_field_is_ignored_in_a_message_and_refused_in_work() {
    let ending = json!({
        "job": job(), "fence": 2, "how": "exited", "status": 3, "start_ms": 1, "run_ms": 2, "colour": "red"
    });
    let read: Ending = serde_json::from_value(ending).unwrap();
    assert_eq!(read.outcome, Outcome::Exited { status: 3 });

    let work = json!({"kind": "command", "tier": "tier 1", "command": ["true"]});
    let lease = |work: &serde_json::Value| -> Lease {
        let lease = json!({"job": job(), "fence": 1, "attempt": 1, "lease_ms": 30_000, "work": work});
        serde_json::from_str(&lease.to_string()).unwrap()
    };
    assert_eq!(lease(&work).work().unwrap().command, ["true"]);
    for (field, value) in [("mounts", json!([])), ("tier", json!("tier 2")), ("kind", json!("daemon"))] {
        let mut newer = work.clone();
        newer[field] = value;
        assert!(lease(&newer).work().is_err(), "{field}");
    }
    let mut newer = work;
    newer["limits"] = json!({"memory_mib": 1, "gpus": 1});
    assert!(lease(&newer).work().is_err());
}

#[test]
fn an_ending_that_is_not_understood_is_no_ending() {
    for how in ["exploded", "done", "", "Exited"] {
        let ending = json!({"job": job(), "fence": 1, "how": how, "start_ms": 0, "run_ms": 0});
        assert!(serde_json::from_value::<Ending>(ending).is_err(), "{how}");
    }
}

#[test]
fn every_outcome_is_terminal_or_tried_again() {
    let obstacle = Outcome::NotStarted { obstacle: Obstacle::RelayPort };
    for (outcome, terminal) in [
        (Outcome::Exited { status: 0 }, Some(Terminal::Done)),
        (Outcome::Exited { status: 1 }, Some(Terminal::Failed)),
        (Outcome::Signalled { signal: 9 }, Some(Terminal::Failed)),
        (Outcome::LimitHit, Some(Terminal::Failed)),
        (Outcome::TimedOut, Some(Terminal::TimedOut)),
        (Outcome::Cancelled, Some(Terminal::Cancelled)),
        (Outcome::Refused { objection: Objection::Policy }, Some(Terminal::Refused)),
        (obstacle, None),
        (Outcome::Lost, None),
    ] {
        assert_eq!(outcome.terminal(), terminal, "{outcome:?}");
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome, "{text}");
    }
}

#[test]
fn secrets_do_not_show() {
    let enrol = Enrol {
        token: Secret::new("oz0-token-geheim".into()),
        key: Base64(vec![1, 2, 3]),
        speaks: Versions::OURS,
    };
    assert!(!format!("{enrol:?}").contains("geheim"));
}
