//! Reports of friends and of strangers.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::check::{Check, lines};
use crate::facts::tests::{linux, linux_with, windows, windows_with};
use crate::facts::{Cgroup, Landlock, Mechanism, Namespaces, Seccomp, User};
use crate::{Property, platform};

fn read(text: &str) -> Facts {
    serde_json::from_str::<Reported>(text).unwrap().facts()
}

fn read_value(value: &Value) -> Facts {
    read(&value.to_string())
}

fn nothing() -> Facts {
    Facts::probed(Tier::Zero, System::Other)
}

/// Everything that may ever be printed of a report.
fn printed(facts: &Facts) -> String {
    let json = serde_json::to_string(&Check::of(facts)).unwrap();
    format!("{}\n{}\n{json}\n{facts:?}", lines(facts).join("\n"), platform::shown(facts))
}

/// C139: only the exact known value counts; the same rules on the receiving side.
#[test]
fn c139_other_spellings_are_not_good_enough() {
    let honest = serde_json::to_value(linux().with_verdict(Ok(Mechanism::Linux))).unwrap();
    assert_eq!(read_value(&honest).tier, Tier::One);
    for field in ["tier", "asked", "platform", "mechanism", "namespaces", "cgroup", "seccomp"] {
        let word = honest[field].as_str().unwrap();
        let mut others = vec![
            json!(word.to_uppercase()),
            json!(format!("{word} ")),
            json!(format!(" {word}")),
            json!(format!("{word}\n")),
            json!(format!("{word}\0")),
            json!("base-container"),
            json!("appcontainer-dacl"),
            json!(""),
            Value::Null,
            json!(17),
            json!(-1),
            json!(1.5),
            json!(true),
            json!([word]),
            json!({ "word": word }),
            json!("{"),
        ];
        others.push(json!(word.replacen(' ', "-", 1) + if word.contains(' ') { "" } else { "s" }));
        for other in others {
            let mut report = honest.clone();
            report[field] = other.clone();
            assert_eq!(read_value(&report).tier, Tier::Zero, "{field}: {other}");
        }
        let mut report = honest.clone();
        report.as_object_mut().unwrap().remove(field);
        assert_eq!(read_value(&report).tier, Tier::Zero, "{field} left out");
    }
}

#[test]
fn whatever_is_no_report_is_an_empty_one() {
    for text in ["null", "17", "-1", "1.5", "true", "\"tier 1\"", "[]", "[{\"tier\":\"tier 1\"}]", "{}"] {
        assert_eq!(read(text), nothing(), "{text}");
    }
    for text in ["", "{", "{\"tier\":", "{\"tier\":\"tier 1\"}}", "\u{0}", "{'tier':'tier 1'}"] {
        assert!(serde_json::from_str::<Reported>(text).is_err(), "{text}");
    }
    let deep = format!("{{\"platform\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(read(&deep), nothing());
}

#[test]
fn a_field_said_twice_is_not_said() {
    let facts = read(r#"{"platform":"linux","namespaces":"open","namespaces":"open","cgroup":"v1"}"#);
    let System::Linux(linux) = facts.system else { panic!("{facts:?}") };
    assert_eq!((linux.namespaces, linux.cgroup), (None, Some(Cgroup::V1)));
}

#[test]
fn fields_of_another_platform_and_unknown_ones_are_dropped() {
    let mut report = serde_json::to_value(linux()).unwrap();
    for (field, value) in [
        ("build", json!("26200.9457")),
        ("psec", json!("usable")),
        ("contract", json!("1.0")),
        ("message", json!("call +1 555 0100")),
        ("fix", json!("<a href=x>")),
        ("routed", json!("tier 1")),
    ] {
        report[field] = value;
    }
    assert_eq!(read_value(&report), linux());
}

#[test]
fn a_report_inside_a_larger_message_is_read_alike() {
    #[derive(serde::Deserialize)]
    struct Message {
        node: u32,
        facts: Reported,
    }
    let text = format!("{{\"node\":7,\"facts\":{}}}", serde_json::to_string(&windows()).unwrap());
    let message: Message = serde_json::from_str(&text).unwrap();
    assert_eq!((message.node, message.facts.facts()), (7, windows()));
    let message: Message = serde_json::from_str("{\"node\":7,\"facts\":\"none\"}").unwrap();
    assert_eq!(message.facts.facts(), nothing());
}

fn some_linux() -> impl Strategy<Value = Facts> {
    (
        proptest::option::of((0u16..9999, 0u16..9999, 0u16..9999)),
        proptest::option::of(0u32..u32::MAX),
        proptest::option::of(proptest::sample::select(Namespaces::ALL.to_vec())),
        proptest::option::of(proptest::sample::select(Cgroup::ALL.to_vec())),
        proptest::option::of(0u64..100),
        proptest::option::of(proptest::sample::select(Seccomp::ALL.to_vec())),
    )
        .prop_map(|(kernel, user, namespaces, cgroup, landlock, seccomp)| {
            linux_with(|linux| {
                *linux = Linux {
                    kernel: kernel.map(|(major, minor, patch)| crate::Kernel { major, minor, patch }),
                    user: user.and_then(User::new),
                    namespaces,
                    cgroup,
                    landlock: landlock.and_then(Landlock::new),
                    seccomp,
                }
            })
        })
}

fn some_windows() -> impl Strategy<Value = Facts> {
    (
        proptest::option::of((0u32..999_999, 0u32..999_999)),
        proptest::sample::select(Edition::ALL.to_vec()),
        proptest::sample::select(Psec::ALL.to_vec()),
        proptest::option::of((0u16..999, 0u16..999)),
        proptest::option::of(any::<u64>()),
    )
        .prop_map(|(build, edition, psec, contract, features)| {
            windows_with(|windows| {
                *windows = Windows {
                    build: build.map(|(number, revision)| crate::Build { number, revision }),
                    edition,
                    psec,
                    contract: contract.map(|(major, minor)| crate::Contract { major, minor }),
                    features: features.map(crate::Features),
                }
            })
        })
}

fn some_facts() -> impl Strategy<Value = Facts> {
    let systems = prop_oneof![
        some_linux(),
        some_windows(),
        Just(Facts::probed(Tier::One, System::Macos)),
        Just(nothing())
    ];
    let verdicts = prop_oneof![
        Just(None),
        proptest::sample::select(Property::ALL.to_vec()).prop_map(|property| Some(Err(property))),
        Just(Some(Ok(Mechanism::Linux))),
        Just(Some(Ok(Mechanism::Seatbelt))),
    ];
    (systems, verdicts, proptest::sample::select(Tier::ALL.to_vec())).prop_map(|(facts, verdict, asked)| {
        let facts = Facts { asked, ..facts };
        verdict.map_or(facts, |verdict| facts.with_verdict(verdict))
    })
}

/// Anything JSON can say, with our own field names and words strewn in.
fn anything() -> impl Strategy<Value = Value> {
    let fields: Vec<String> = Field::ALL.iter().map(|field| field.to_string()).collect();
    let keys = prop_oneof![3 => proptest::sample::select(fields), 1 => "EVIL[ -~<>\\n]{0,20}"];
    let mut words: Vec<String> =
        ["tier 1", "tier 0", "linux", "psec 1.0", "windows", "26200.9457", "1.0", "0x3"]
            .map(str::to_owned)
            .to_vec();
    words.extend(["open", "v1", "v2", "ok", "usable", "client", "6.18.44", "egress"].map(str::to_owned));
    let leaves = prop_oneof![
        6 => proptest::sample::select(words).prop_map(Value::from),
        2 => "EVIL\\PC{0,40}".prop_map(Value::from),
        2 => ("(tier 1|linux|1\\.0|6\\.1\\.1|0x3)", "EVIL[ -~]{0,9}").prop_map(|(word, more)| json!(word + &more)),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let values = leaves.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("EVIL[a-z]{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    proptest::collection::vec((keys, values), 0..20)
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
}

proptest! {
    /// What an honest node says is understood whole, and is shorter than the bound.
    #[test]
    fn an_honest_report_comes_through(facts in some_facts()) {
        let text = serde_json::to_string(&Check::of(&facts)).unwrap();
        prop_assert!(text.len() <= Reported::LONGEST, "{}", text.len());
        prop_assert_eq!(read(&text), facts.rechecked());
    }

    /// No text of a sender's is printable, and reading twice changes nothing.
    #[test]
    fn nothing_of_a_strangers_text_is_ever_printed(report in anything()) {
        let facts = read_value(&report);
        let printed = printed(&facts);
        prop_assert!(!printed.contains("EVIL"), "{printed}");
        prop_assert!(printed.len() < 4096 && printed.is_ascii(), "{printed}");
        prop_assert_eq!(read(&serde_json::to_string(&facts).unwrap()), facts);
    }

    /// Tier 1 only where everything that it rests on is in the report.
    #[test]
    fn tier_one_is_only_believed_whole(report in anything()) {
        let facts = read_value(&report);
        if facts.tier == Tier::One {
            prop_assert!(facts.failed.is_none() && facts.mechanism.is_some() && facts.asked == Tier::One);
            match facts.system {
                System::Linux(linux) => prop_assert!(linux.is_complete()),
                System::Windows(windows) => prop_assert!(windows.psec == Psec::Usable),
                System::Macos => {}
                System::Other => prop_assert!(false),
            }
        } else {
            prop_assert_eq!(facts.mechanism, None);
        }
    }

    /// Any bytes at all: an answer or an error, never a panic.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(reported) = serde_json::from_slice::<Reported>(&bytes) {
            prop_assert_eq!(reported.facts().tier, Tier::Zero);
        }
    }
}
