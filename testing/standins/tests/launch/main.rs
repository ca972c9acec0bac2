//! The stand-in as a program under Wine meets it: a launch in the right order is written down, and what is set to fail
//! fails. The calls are made by hand here: the product's own are tested against this, not this against them.
#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod by_hand;

use by_hand::{Outcome, Program};

/// The smallest specification, contract 1.0.
const SMALLEST: [u8; 24] =
    [0x10, 0, 0, 0, b'P', b'S', b'E', b'C', 6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0];
/// One with `C:\a` to read and write, worked out by hand.
const WITH_A_PATH: [u8; 56] = [
    24, 0, 0, 0, 80, 83, 69, 67, 14, 0, 12, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0,
    4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 67, 58, 92, 97, 0, 0, 0, 0,
];
const VARIABLES: &str = "GREETING=hello\0LOCALAPPDATA=C:\\standin\\local\0SystemRoot=C:\\windows\0";

/// Each test is a process of its own under nextest; under `cargo test` they would share one set of settings.
fn program(settings: &str) -> Program {
    Program::new(settings)
}

fn calls(program: &Program) -> Vec<String> {
    program.ledger().iter().map(|line| line["call"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_launch_is_written_down_in_order() {
    let program = program("");
    let outcome = program.launch("happy");
    assert_eq!(outcome, Outcome { failed: None, output: "hello\r\n".to_owned(), code: Some(7) });
    let calls = calls(&program);
    let wanted = [
        "api_set",
        "load_library",
        "version",
        "support",
        "create",
        "job_limits",
        "attribute",
        "launch",
        "token",
        "assign",
        "resume",
        "close",
        "end",
    ];
    assert_eq!(calls, wanted);
    let ledger = program.ledger();
    assert_eq!(ledger[4]["specification"]["version"], serde_json::json!([1, 0]));
    assert_eq!(ledger[7]["suspended"], true);
    assert_eq!(ledger[10]["previous"], 1);
    assert_eq!(ledger[11]["alive"], 0);
    for left in ["environments", "lists", "alive", "suspended", "handles", "tokens"] {
        assert_eq!(ledger[12][left], 0, "{left}");
    }
}

#[test]
fn each_failure_that_is_set_is_met_where_it_belongs() {
    for (settings, failed) in [
        ("psec=absent", "api_set 0"),
        ("missing=CreateProcessSecurityEnvironment", "export 127"),
        ("create=0x80004001", "create 0x80004001"),
        ("create_null=yes", "create null"),
        ("attribute=50", "attribute 50"),
        ("launch=1260", "launch 1260"),
        ("token=no-appcontainer", "token 0"),
        ("token=refused", "token refused 5"),
        ("assign=5", "assign 5"),
        ("resume=5", "resume 5"),
    ] {
        let program = program(settings);
        let outcome = program.launch("happy");
        assert_eq!(outcome.failed.as_deref(), Some(failed), "{settings}");
        assert_eq!((outcome.output.as_str(), outcome.code), ("", None), "{settings}");
    }
}

#[test]
fn what_is_left_is_counted() {
    let program = program("");
    let outcome = program.launch("leave");
    assert_eq!(outcome.failed, None);
    let ledger = program.ledger();
    let end = ledger.last().unwrap();
    assert_eq!((&end["environments"], &end["suspended"], &end["alive"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!(end["handles"], 2);
}

#[test]
fn a_child_that_dies_first_is_seen_dead() {
    let program = program("die_before_resume=yes");
    let outcome = program.launch("happy");
    // What has ended can be put in no job, on Windows too.
    assert_eq!(outcome.failed.as_deref(), Some("assign 5"));
    assert_eq!(outcome.output, "");
}

#[test]
fn a_cold_path_is_cold_once() {
    let program = program("create_once=0x80070003");
    assert_eq!(program.launch("twice").code, Some(7));
    let hresults: Vec<_> = program
        .ledger()
        .iter()
        .filter(|line| line["call"] == "create")
        .map(|line| line["hresult"].clone())
        .collect();
    assert_eq!(hresults, ["0x80070003", "0x00000000"]);
}

#[test]
fn a_block_without_what_windows_wants_is_203() {
    for variables in ["SystemRoot=C:\\windows\0", "LOCALAPPDATA=C:\\standin\\local\0"] {
        let program = program("");
        assert_eq!(
            program.launch_with("happy", variables).failed.as_deref(),
            Some("launch 203"),
            "{variables}"
        );
    }
}

#[test]
fn an_attribute_of_the_wrong_size_or_too_many_are_refused() {
    assert_eq!(program("").launch("size").failed.as_deref(), Some("attribute 24"));
    assert_eq!(program("").launch("places").failed.as_deref(), Some("attribute 31"));
    assert_eq!(program("").launch("closed").failed.as_deref(), Some("launch 6"));
    // A handle that is not inheritable is refused, which Wine alone would take.
    assert_eq!(program("").launch("handle").failed.as_deref(), Some("launch 87"));
}

#[test]
fn a_profile_is_made_once_and_deleted() {
    let program = program("");
    assert_eq!(program.run("profile"), "0x00000000 0x800700b7 same 0x00000000 0x00000000 0x80070057");
    let refused = Program::new("profile=0x80070005");
    assert!(refused.run("profile").starts_with("0x80070005 "));
}

#[test]
fn sockets_by_path_work_and_refuse_as_documented() {
    assert_eq!(program("").run("unix"), "ping 10048 10061 10022 10044");
}

#[test]
fn the_child_has_a_temp_of_its_own_that_goes_with_the_environment() {
    let program = program("");
    let outcome = program.launch("temp");
    let folder = outcome.output.trim();
    assert!(folder.starts_with(r"C:\standin\local\P\Packages\sandbox.{"), "{folder}");
    assert!(!std::path::Path::new(folder).exists());
}

/// What a test starts: this same binary, so that settings are read afresh.
#[test]
#[ignore = "started by the others"]
fn act() {
    by_hand::act();
}
