//! P1 and P2: what the node asks of a machine, in which order, and its three lines.

use super::support::{Machine, err, out};

/// What is asked by a probe that meets nothing in its way, in order.
const ASKED: [&str; 7] = ["api_set", "load_library", "version", "support", "create", "attribute", "close"];

fn lines(machine: &Machine) -> [String; 3] {
    let output = machine.node(&["sandbox", "check"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.try_into().unwrap_or_else(|lines| panic!("three lines: {lines:#?}"))
}

fn asked(machine: &Machine) -> Vec<String> {
    let all = machine.ledger().into_iter().map(|line| line["call"].as_str().unwrap().to_owned());
    all.filter(|call| ASKED.contains(&call.as_str())).collect()
}

/// The machine that was seen with contract 1.0.
#[test]
fn contract_1_0_with_flags_3() {
    let machine = Machine::new("version=1.0\nsupport=0x3");
    let found =
        "Windows 26200.9457: PSEC contract 1.0 (deny paths, flags 0x2, which MXC v1.0.0 does not name)";
    let [sandbox, second, fix] = lines(&machine);
    assert_eq!(
        sandbox,
        format!(
            "Sandbox: tier 0: {found}; this node does not run work in it; --sandbox psec runs the node's self-test at \
             start"
        )
    );
    assert_eq!(second, found);
    assert_eq!(
        fix,
        "Fix: PSEC (contract 1.0) is here, this node runs no work in it, started with --sandbox psec it reports tier 1 \
         when its self-test passes; meanwhile tier-1 work runs on Linux or macOS nodes"
    );
    assert_eq!(asked(&machine), ASKED);
    // From System32 alone, and with the least that can be asked for.
    assert_eq!(machine.calls("load_library")[0]["flags"], 0x800);
    let made = &machine.calls("create")[0];
    assert_eq!(made["specification"]["version"], serde_json::json!([1, 0]));
    assert_eq!(made["flags"], 0);
    machine.nothing_ran();
}

/// Contract 1.1 with all that was reported of it; a specification of 1.0 is enough for the question.
#[test]
fn contract_1_1_with_flags_f() {
    let machine = Machine::new("version=1.1\nsupport=0xf");
    let found = "Windows 26200.9457: PSEC contract 1.1 (deny paths, enumerate paths, ingress, flags 0x2, which MXC \
                 v1.0.0 does not name)";
    let [sandbox, second, fix] = lines(&machine);
    assert!(
        sandbox.starts_with(&format!("Sandbox: tier 0: {found}; this node does not run work in it")),
        "{sandbox}"
    );
    assert_eq!(second, found);
    assert!(fix.starts_with("Fix: PSEC (contract 1.1) is here"), "{fix}");
    assert_eq!(asked(&machine), ASKED);
    machine.nothing_ran();
}

/// P3: every machine without it, with the step that failed and what Windows answered kept on the node.
#[test]
fn every_other_machine_is_told_as_it_is() {
    let off = ("Sandbox: tier 0: PSEC is switched off", "Fix: PSEC is on the disk and switched off");
    let absent = ("Sandbox: tier 0: build 26200.9457 has no PSEC", "Fix: this build has no PSEC");
    let broken = ("Sandbox: tier 0: PSEC does not work here", "Fix: PSEC is here and does not work");
    let policy =
        ("Sandbox: tier 0: the administrator's policy forbids PSEC", "Fix: the administrator's policy");
    for (settings, (first, third), step, steps) in [
        ("psec=absent", absent, "IsApiSetImplemented", 1),
        ("missing=CreateProcessSecurityEnvironment", absent, "no CreateProcessSecurityEnvironment", 2),
        ("missing=CloseProcessSecurityEnvironment", absent, "no CloseProcessSecurityEnvironment", 2),
        ("query=0x80004001", off, "E_NOTIMPL", 3),
        ("create=0x80004001", off, "CreateProcessSecurityEnvironment: HRESULT 0x80004001 (E_NOTIMPL)", 5),
        ("create=0x80070078", off, "ERROR_CALL_NOT_IMPLEMENTED", 5),
        ("create=0x800704ec", policy, "ERROR_ACCESS_DISABLED_BY_POLICY", 5),
        ("create=0x80070005", broken, "E_ACCESSDENIED", 5),
        ("create_null=yes", broken, "CreateProcessSecurityEnvironment", 5),
        ("attribute=50", off, "error 50", 7),
        ("attribute=120", off, "error 120", 7),
        ("version=2.0", broken, "no contract 1.x is offered", 3),
    ] {
        let machine = Machine::new(settings);
        let output = machine.node(&["sandbox", "check"]).output().unwrap();
        assert!(output.status.success(), "{settings}: {}", err(&output));
        let text = out(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{settings}: {text}");
        assert!(lines[0].starts_with(first), "{settings}: {text}");
        assert!(lines[2].starts_with(third), "{settings}: {text}");
        assert!(err(&output).contains(step), "{settings}: {}", err(&output));
        assert_eq!(asked(&machine), ASKED[..steps], "{settings}");
        machine.nothing_ran();
        // P7: a run refuses with the same.
        let run = machine.run(&[], &["cmd", "/d", "/c", "echo", "ran"]);
        assert_eq!(run.status.code(), Some(125), "{settings}: {}", err(&run));
        assert!(run.stdout.is_empty(), "{settings}");
        assert!(err(&run).contains(step), "{settings}: {}", err(&run));
        let fix = third.strip_prefix("Fix: ").unwrap();
        assert!(err(&run).contains(fix), "{settings}: {}", err(&run));
        machine.nothing_ran();
    }
}

/// Without the question for the contract it is 1.0.
#[test]
fn without_the_export_for_the_version_it_is_the_first_contract() {
    let machine = Machine::new("version=1.1\nmissing=IsProcessSecurityEnvironmentVersionSupported");
    assert!(lines(&machine)[1].contains("PSEC contract 1.0 ("));
    assert!(machine.calls("version").is_empty());
}

/// The same in JSON, with stable codes; P4's opposite: on the node itself step and code are shown.
#[test]
fn json_has_the_facts_with_stable_words() {
    let machine = Machine::new("create=0x80004001");
    let output = machine.node(&["sandbox", "check", "--json"]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["platform"], "windows");
    assert_eq!(answer["tier"], "tier 0");
    assert_eq!(answer["lacking"][0]["code"], "psec-off");
    assert!(answer["lacking"][0]["reason"].as_str().unwrap().contains("0x80004001"));
}
