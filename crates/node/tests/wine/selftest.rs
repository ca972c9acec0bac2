//! S5 under Wine, which confines nothing: the self-test has to say so. That each check can fail is what is shown here;
//! that it passes where it should is for a real Windows to show.

use super::support::{Machine, err, out};

/// What holds even here, since Wine has it or the stand-in does it as Windows would, and what Wine cannot keep.
const HELD: [&str; 4] = ["launch", "job_limits", "fail_closed", "environment"];
const NOT_HELD: [&str; 4] = ["files", "egress", "ingress", "protected_paths"];

#[test]
fn the_first_property_that_is_not_held_is_named() {
    let machine = Machine::new("");
    let output = machine.check(&["--psec"]);
    assert_eq!(output.status.code(), Some(1), "{} {}", out(&output), err(&output));
    let text = out(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Sandbox: tier 0: the self-test failed at files");
    assert!(lines[1].starts_with("Windows 26200.9457: PSEC contract 1.0 ("), "{text}");
    assert!(lines[2].starts_with("Self-test launch: ok ("), "{text}");
    assert!(lines[3].starts_with("Self-test files: "), "{text}");
    assert!(!lines[3].starts_with("Self-test files: ok"), "{text}");
    machine.nothing_leaked();
}

#[test]
fn each_check_alone_says_whether_wine_keeps_it() {
    let found = HELD.iter().map(|name| (name, true)).chain(NOT_HELD.iter().map(|name| (name, false)));
    for (name, held) in found {
        let machine = Machine::new("");
        let output = machine.check(&["--psec", "--only", name]);
        let line =
            out(&output).lines().find(|line| line.starts_with("Self-test ")).unwrap_or_default().to_owned();
        println!("{line}");
        assert_eq!(line.starts_with(&format!("Self-test {name}: ok (")), held, "{line}\n{}", err(&output));
        assert_eq!(output.status.success(), held, "{line}");
        machine.nothing_leaked();
    }
}
