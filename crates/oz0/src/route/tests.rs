use oz0_fleet::protocol::{StartId, TenantId};
use oz0_fleet::{Facts, Property, Reported};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::from_milliseconds(1_800_000_000_000);
const HOUR: Milliseconds = Milliseconds::seconds(3600);

pub(crate) fn linux(tier: Tier) -> Facts {
    let facts = json!({
        "platform": "linux", "asked": "tier 1", "tier": tier, "kernel": "6.18.44", "user": 1000,
        "mechanism": (tier == Tier::One).then_some("linux"), "failed": (tier == Tier::Zero).then_some(Property::Files),
        "namespaces": "open", "cgroup": "v2", "landlock": 7, "seccomp": "ok",
    });
    serde_json::from_value::<Reported>(facts).unwrap().facts()
}

pub(crate) fn windows() -> Facts {
    let facts = json!({
        "platform": "windows", "asked": "tier 1", "tier": "tier 1", "mechanism": "psec 1.0", "build": "26200.9457",
        "edition": "client", "psec": "usable", "contract": "1.0", "features": 3,
    });
    let facts = serde_json::from_value::<Reported>(facts).unwrap().facts();
    assert_eq!(facts.tier, Tier::One);
    facts
}

fn node(number: u8, facts: Facts) -> Node {
    Node {
        node: NodeId::from_bytes([number; 16]),
        tenant: TenantId::from_bytes([0; 16]),
        name: format!("n{number}").parse().unwrap(),
        state: NodeState::Active,
        labels: BTreeSet::new(),
        reserved: false,
        keep: false,
        enrolled: NOW.before(HOUR),
        seen: NOW.before(Milliseconds::seconds(5)),
        address: "127.0.0.1".into(),
        other_address: None,
        start: Some(StartId::from_bytes([number; 16])),
        reported: Some(NOW.before(HOUR)),
        facts: Some(facts),
        tested: Some(NOW.before(HOUR)),
        test_took_ms: Some(Milliseconds::new(600)),
        most_jobs: 4,
        earned: None,
        failures: 0,
        obstacle: None,
        aside_until: None,
        running: 0,
    }
}

fn with(mut node: Node, change: impl FnOnce(&mut Node)) -> Node {
    change(&mut node);
    node
}

fn labels(words: &[&str]) -> BTreeSet<Label> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn need(tier: Tier) -> Need {
    Need { tier, kind: Kind::Command, labels: BTreeSet::new() }
}

/// T3, T7 and C164, in the words of the specification.
#[test]
fn c164_a_waiting_job_says_why() {
    let nodes = [node(1, windows()), node(2, windows())];
    let waiting = route(&need(Tier::One), &nodes, NOW).waiting();
    assert_eq!(waiting, "needs tier 1; 2 nodes on line, none with tier 1: 2 Windows, routed as tier 0");
    let joined = [&nodes[..], &[node(3, linux(Tier::One))]].concat();
    let routing = route(&need(Tier::One), &joined, NOW);
    assert_eq!(routing.takes.iter().map(|route| route.name.as_str()).collect::<Vec<_>>(), ["n3"]);
    assert_eq!(route(&need(Tier::Zero), &nodes, NOW).takes.len(), 2, "tier 0 work goes to Windows");
}

/// C172: reasons in words, with counts, for all.
#[test]
fn c172_reasons_are_counted() {
    let away = |number, time| with(node(number, linux(Tier::One)), |node| node.seen = NOW.before(time));
    let nodes = [
        with(node(1, windows()), |node| node.facts.as_mut().unwrap().asked = Tier::Zero),
        node(2, linux(Tier::Zero)),
        node(3, linux(Tier::Zero)),
        with(node(4, linux(Tier::One)), |node| node.state = NodeState::Draining),
        away(5, Milliseconds::seconds(7200)),
        with(node(6, linux(Tier::One)), |node| node.facts = None),
        with(node(7, linux(Tier::One)), |node| {
            node.tested = Some(NOW.before(Milliseconds::seconds(30 * 3600)))
        }),
    ];
    let routing = route(&need(Tier::One), &nodes, NOW);
    assert_eq!(
        routing.waiting(),
        "needs tier 1; 5 nodes on line, none takes it: 1 never reported; 1 off line 2 h; 1 draining; \
         2 Linux, tier 0; 1 Windows, routed as tier 0; 1 self-test 30 h old"
    );
    let several = [away(1, HOUR), away(2, Milliseconds::seconds(7200))];
    assert_eq!(route(&need(Tier::One), &several, NOW).waiting(), "needs tier 1; no node on line: 2 off line");
    assert_eq!(route(&need(Tier::Zero), [], NOW).waiting(), "needs tier 0; the tenant has no node");
}

/// C157: set aside after launches that failed, tried with one job after a pause.
#[test]
fn c157_a_node_that_cannot_launch_is_set_aside() {
    let failing = |failures, until| {
        with(node(1, linux(Tier::One)), |node| {
            (node.failures, node.obstacle, node.aside_until) =
                (failures, Some(Obstacle::RelayPort), Some(until));
        })
    };
    let later = NOW.after(Milliseconds::seconds(60));
    assert_eq!(judge(&need(Tier::One), &failing(2, later), NOW), Ok(()));
    let because = judge(&need(Tier::One), &failing(5, later), NOW).unwrap_err();
    assert_eq!(because.to_string(), "not routed: 5 launches failed: no free relay port; tried again in 60 s");
    let trial = failing(5, NOW);
    assert_eq!((judge(&need(Tier::One), &trial, NOW), room(&trial)), (Ok(()), 1));
    let busy = with(trial, |node| node.running = 1);
    assert_eq!(judge(&need(Tier::One), &busy, NOW), Err(Because::Busy { running: 1, most: 1 }));
}

/// C173: the least special of those that match; reserved ones only for who asks.
#[test]
fn c173_special_nodes_are_kept_for_who_asks() {
    let plain = node(9, linux(Tier::Zero));
    let gpu = with(node(1, linux(Tier::Zero)), |node| node.labels = labels(&["gpu"]));
    let reserved = with(node(2, linux(Tier::Zero)), |node| {
        node.labels = labels(&["gpu", "big"]);
        node.reserved = true;
    });
    let tier_one = node(3, linux(Tier::One));
    let nodes = [gpu, reserved, tier_one, plain];
    let names = |need: &Need| {
        route(need, &nodes, NOW).takes.iter().map(|route| route.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&need(Tier::Zero)), ["n9", "n1", "n3"]);
    assert_eq!(names(&Need { labels: labels(&["gpu"]), ..need(Tier::Zero) }), ["n1", "n2"]);
    let routing = route(&need(Tier::Zero), &nodes, NOW);
    assert_eq!(routing.others[0].words, "reserved for big, gpu");
}

#[test]
fn a_busy_node_is_no_missing_one() {
    let nodes = [with(node(1, linux(Tier::One)), |node| node.running = 4), node(2, windows())];
    assert_eq!(
        route(&need(Tier::One), &nodes, NOW).waiting(),
        "waits for a free place: 1 node that can take it, busy"
    );
}

fn any_node() -> impl Strategy<Value = Node> {
    let facts = prop_oneof![
        Just(None),
        Just(Some(linux(Tier::One))),
        Just(Some(linux(Tier::Zero))),
        Just(Some(windows()))
    ];
    let state = prop::sample::select(NodeState::ALL.to_vec());
    let seconds = || prop_oneof![Just(0_u64), 0_u64..200, 80_000_u64..100_000];
    let some = prop::sample::subsequence(vec!["big", "gpu", "quiet"], 0..=3);
    (1_u8.., facts, state, (seconds(), seconds(), seconds()), some, any::<bool>(), 0_u16..6, 0_u16..6)
        .prop_map(|(number, facts, state, (seen, tested, aside), words, reserved, failures, running)| {
            with(node(number, linux(Tier::One)), |node| {
                let ago = |time| NOW.before(Milliseconds::seconds(time));
                (node.facts, node.state, node.seen, node.tested) =
                    (facts, state, ago(seen), Some(ago(tested)));
                (node.labels, node.reserved, node.running) = (labels(&words), reserved, running);
                (node.failures, node.obstacle) = (failures, Some(Obstacle::DiskFull));
                node.aside_until = Some(NOW.after(Milliseconds::seconds(aside)));
            })
        })
}

fn any_need() -> impl Strategy<Value = Need> {
    let some = prop::sample::subsequence(vec!["big", "gpu"], 0..=2);
    (prop::sample::select(Tier::ALL.to_vec()), prop::sample::select(Kind::ALL.to_vec()), some)
        .prop_map(|(tier, kind, words)| Need { tier, kind, labels: labels(&words) })
}

proptest! {
    /// T2, T3, T5: tier 1 goes to a node whose fresh report earned it on a platform that is routed so, and nowhere else.
    #[test]
    fn tier_one_goes_only_where_it_was_earned(need in any_need(), node in any_node()) {
        if judge(&need, &node, NOW).is_ok() {
            prop_assert_eq!(node.state, NodeState::Active);
            prop_assert!(node.on_line(NOW) && node.running < node.most_jobs);
            prop_assert!(need.labels.is_subset(&node.labels));
            if need.tier == Tier::One {
                let facts = node.facts.unwrap();
                prop_assert_eq!((facts.platform(), facts.tier), (Platform::Linux, Tier::One));
                prop_assert!(NOW.since(node.tested.unwrap()) <= FRESH);
            }
            prop_assert!(room(&node) >= 1);
        }
    }

    /// Labels never raise: with any labels at all a node takes no tier that it did not take without.
    #[test]
    fn labels_are_never_a_tier(mut need in any_need(), node in any_node()) {
        let took = judge(&need, &node, NOW).is_ok();
        need.labels.clear();
        let plain = with(node, |node| { node.labels.clear(); node.reserved = false; });
        prop_assert!(!took || judge(&need, &plain, NOW).is_ok());
    }

    /// Every node is in exactly one list, and the reason is always told.
    #[test]
    fn every_node_is_told(need in any_need(), nodes in prop::collection::vec(any_node(), 0..8)) {
        let routing = route(&need, &nodes, NOW);
        prop_assert_eq!(routing.takes.len() + routing.others.len(), nodes.len());
        for node in &nodes {
            prop_assert_eq!(
                judge(&need, node, NOW).is_ok(),
                routing.takes.iter().any(|route| route.name == node.name && judge(&need, node, NOW).is_ok())
            );
        }
        prop_assert!(!routing.waiting().is_empty());
        let told: usize = routing.reasons().split("; ").filter_map(|part| part.split(' ').next()?.parse::<usize>().ok()).sum();
        prop_assert!(told >= routing.others.len().min(1));
    }
}
