//! How a run ends when the command is not what ends it: nothing that it started is left.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::support::{Machine, err, eventually, out};

#[test]
fn a_timeout_ends_all_of_it() {
    let machine = Machine::new("");
    machine.scripts();
    let begun = Instant::now();
    let output = machine.run(&["--timeout", "4s"], &["cmd", "/d", "/c", "go-on.bat"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(!output.status.success());
    assert!(err(&output).contains("--timeout"), "{}", err(&output));
    assert!(machine.work().join("alive").exists(), "it never ran: {}", err(&output));
    assert!(!machine.goes_on());
    machine.nothing_leaked();
}

/// The node is killed: its job object goes with it, and with that all that ran.
#[test]
fn when_the_node_is_killed_so_is_the_run() {
    let machine = Machine::new("");
    machine.scripts();
    let mut node = machine.node(&["sandbox", "run", "--", "cmd", "/d", "/c", "go-on.bat"]);
    let mut node = node.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the command runs", || machine.work().join("alive").exists());
    assert!(machine.goes_on(), "the control: it goes on while the node is there");
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(!machine.goes_on());
}

/// What the command leaves running ends with it.
#[test]
fn what_the_command_started_ends_with_it() {
    let machine = Machine::new("");
    machine.scripts();
    let output = machine.run(&[], &["cmd", "/d", "/c", "leave.bat"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "done\n");
    assert!(machine.work().join("alive").exists(), "it never ran: {}", err(&output));
    assert!(!machine.goes_on());
    machine.nothing_leaked();
}
