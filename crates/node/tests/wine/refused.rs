//! A machine that is not for tier 1: nothing runs on it, whatever it lacks.

use super::support::{Machine, err};

#[test]
fn a_machine_without_psec_runs_nothing() {
    let machine = Machine::new("psec=absent");
    let output = machine.run(&[], &["cmd", "/d", "/c", "echo", "ran"]);
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(output.stdout.is_empty());
    assert!(err(&output).contains("oz0-node: "), "{}", err(&output));
    machine.nothing_ran();
    assert!(machine.calls("create").is_empty() && machine.calls("launch").is_empty());
}
