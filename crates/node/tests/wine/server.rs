//! Windows Server is recognised first and not probed. Run in a prefix whose registry says so.

use super::support::{Machine, err, out};

#[test]
fn a_server_is_tier_0_and_is_asked_nothing() {
    let machine = Machine::new("");
    let output = machine.node(&["sandbox", "check"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).starts_with("Sandbox: tier 0: "), "{}", out(&output));
    for call in ["api_set", "load_library", "version", "support", "create"] {
        assert!(machine.calls(call).is_empty(), "{call}: {:#?}", machine.ledger());
    }
}

#[test]
fn a_server_runs_nothing() {
    let machine = Machine::new("");
    let output = machine.run(&[], &["cmd", "/d", "/c", "echo", "ran"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    machine.nothing_ran();
    assert!(machine.calls("launch").is_empty());
}
