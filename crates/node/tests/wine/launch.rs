//! One launch: what is asked of Windows and in which order; and for each step that fails, that nothing ran, that
//! nothing is left, and that it is said.

use serde_json::Value;

use super::support::{Machine, err, out};

const ECHO: [&str; 4] = ["cmd", "/d", "/c", "echo inside"];

/// Output through pipes, and the command's own exit status.
#[test]
fn a_command_runs_and_its_status_is_its_own() {
    for (line, said, status) in [
        ("echo inside", "inside\n", 0),
        ("echo inside & exit 1", "inside \n", 1),
        ("echo inside & exit 42", "inside \n", 42),
    ] {
        let machine = Machine::new("");
        let output = machine.run(&[], &["cmd", "/d", "/c", line]);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", err(&output));
        assert_eq!(out(&output), said);
        machine.nothing_leaked();
    }
    let machine = Machine::new("");
    let output = machine.run(&[], &["cmd", "/d", "/c", "echo aside 1>&2"]);
    assert!(err(&output).starts_with("aside"), "{}", err(&output));
}

/// The order of the whole launch. Nothing runs before it is known to be contained and held.
#[test]
fn a_launch_goes_in_one_order() {
    let machine = Machine::new("");
    assert!(machine.run(&[], &ECHO).status.success());
    let launch = Launch::of(&machine);
    let order = ["create", "attribute", "launch", "token", "assign", "resume", "close"];
    let mut at = 0;
    for line in &launch.lines {
        let call = line["call"].as_str().unwrap();
        if at < order.len() && call == order[at] {
            at += 1;
        } else if let Some(place) = order.iter().position(|step| *step == call) {
            // A token is asked several things; nothing else comes twice or too late.
            assert!(call == "token" || place >= at, "{call} after {}: {:#?}", order[at - 1], launch.lines);
        }
    }
    assert_eq!(at, order.len(), "{:#?}", launch.lines);

    let started = launch.one("launch");
    assert_eq!(started["suspended"], true);
    assert_eq!(started["unicode"], true);
    assert_eq!(started["inherit"], true);
    assert_eq!(started["handles"], 3, "an explicit list of handles");
    // By the bridge it is the node's own program that starts the command, in the container.
    assert!(started["application"].as_str().unwrap().ends_with("oz0-node.exe"), "{started}");
    assert!(started["directory"].as_str().unwrap().ends_with("work"), "{started}");
    assert_eq!(launch.one("resume")["previous"], 1);
    assert_eq!(launch.one("assign")["child"], started["child"]);
    let closed = launch.one("close");
    assert_eq!((&closed["alive"], &closed["open"]), (&Value::from(0), &Value::from(true)));
    machine.nothing_leaked();
}

/// R5: exactly what the caller passes, what Windows' programs need, and nothing of the node's own.
#[test]
fn the_environment_is_explicit() {
    let machine = Machine::new("");
    let output =
        machine.run(&["--env", "GREETING=hello"], &["cmd", "/d", "/c", "echo %GREETING% %OZ0_SOMETHING%"]);
    assert_eq!(out(&output), "hello %OZ0_SOMETHING%\n", "{}", err(&output));
    let launch = Launch::of(&machine);
    let names: Vec<String> = serde_json::from_value(launch.one("launch")["variables"].clone()).unwrap();
    for needed in ["SystemRoot", "LOCALAPPDATA", "PATH", "GREETING"] {
        assert!(names.iter().any(|name| name.eq_ignore_ascii_case(needed)), "{needed}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("OZ0_") || name == "STANDIN"), "{names:?}");
    let mut sorted = names.clone();
    sorted.sort_by_key(|name| name.to_uppercase());
    assert_eq!(names, sorted);
}

/// E1, E3 on the bridge route: a specification without network, the work folder writable, the node's binary readable,
/// the data directory denied, and the interface closed as far as programs bear it.
#[test]
fn the_specification_of_a_plain_run_grants_what_was_asked() {
    let machine = Machine::new("");
    let data = machine.path("data");
    std::fs::create_dir(&data).unwrap();
    let read = machine.path("sdk");
    std::fs::create_dir(&read).unwrap();
    let options = ["--data-dir", data.to_str().unwrap(), "--read", read.to_str().unwrap()];
    let output = machine.run(&options, &ECHO);
    assert!(output.status.success(), "{}", err(&output));
    let made = Launch::of(&machine).one("create");
    let specification = &made["specification"];
    assert_eq!(specification["version"], serde_json::json!([1, 0]));
    assert_eq!(made["flags"], 0);
    let list = |name: &str| -> Vec<String> {
        serde_json::from_value(specification[name].clone()).unwrap_or_default()
    };
    let names = |list: Vec<String>| -> Vec<String> {
        list.iter().map(|path| path.rsplit('\\').next().unwrap().to_lowercase()).collect()
    };
    assert!(names(list("read_write")).contains(&"work".to_owned()), "{specification}");
    assert!(names(list("read_only")).contains(&"sdk".to_owned()), "{specification}");
    assert!(names(list("deny")).contains(&"data".to_owned()), "{specification}");
    assert!(specification["capabilities"].is_null(), "{specification}");
    let network = &specification["network"];
    assert!(
        network["proxy"].is_null() && network["peer"].is_null() && network["ingress"].is_null(),
        "{network}"
    );
    assert_eq!(
        network["egress"],
        serde_json::json!({"allow_by_default": false, "allow": null, "deny": null})
    );
    // Clipboard, settings, display, desktops, leaving and injection.
    let ui = specification["ui"].as_u64().unwrap();
    assert_eq!(ui & 0x2de, 0x2de, "{ui:#x}");
}

/// P6: without another word the node's data lies in the user's local folder, and no run can read it.
#[test]
fn the_nodes_data_lies_in_the_local_folder() {
    let machine = Machine::new("");
    let data = machine.path("local").join("orchestrator-zero-node");
    std::fs::create_dir_all(&data).unwrap();
    let mut node = machine.node(&[&["sandbox", "run", "--"][..], &ECHO].concat());
    let output = node.env_remove("OZ0_DATA_DIR").output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let deny = Launch::of(&machine).one("create")["specification"]["deny"].clone();
    let deny: Vec<String> = serde_json::from_value(deny).unwrap();
    let ends = r"\local\orchestrator-zero-node";
    assert!(deny.iter().any(|path| path.to_lowercase().ends_with(ends)), "{deny:?}");
}

/// Each step fails once. Nothing ran, nothing is left, and the words say which step and what Windows answered.
#[test]
fn a_launch_that_fails_at_any_step_has_run_nothing() {
    for (settings, said) in [
        ("launch=5", "CreateProcessW: error 5"),
        ("launch=203", "CreateProcessW: error 203"),
        ("launch=1260", "1260"),
        ("token=no-appcontainer", "AppContainer"),
        ("token=lpac", "less"),
        ("token=refused", "error 5"),
        ("assign=5", "AssignProcessToJobObject: error 5"),
        ("resume=5", "ResumeThread: error 5"),
        ("die_before_resume=yes", ""),
    ] {
        let machine = Machine::new(settings);
        let output = machine.run(&[], &ECHO);
        assert_eq!(output.status.code(), Some(125), "{settings}: {} {}", out(&output), err(&output));
        assert!(output.stdout.is_empty(), "{settings}: {}", out(&output));
        let words = err(&output);
        assert!(words.contains("oz0-node: ") && words.contains(said), "{settings}: {words}");
        machine.nothing_ran();
        // What was started was ended before it could run.
        for started in machine.calls("launch").iter().filter(|line| line["error"] == 0) {
            let ended = machine.calls("terminate");
            assert!(
                ended.iter().any(|line| line["child"] == started["child"]),
                "{settings}: {:#?}",
                machine.ledger()
            );
        }
    }
}

/// A path that was not touched since the start of Windows fails once; it is tried once more, and no more than that.
#[test]
fn a_cold_path_is_tried_once_more() {
    for code in ["0x80070003", "0xc000003a"] {
        let machine = Machine::new(&format!("create_once={code}"));
        let output = machine.run(&[], &ECHO);
        assert_eq!(out(&output), "inside\n", "{code}: {}", err(&output));
        machine.nothing_leaked();
        let always = Machine::new(&format!("create={code}"));
        assert_eq!(always.run(&[], &ECHO).status.code(), Some(125));
        assert!(always.calls("create").len() <= 4, "{:#?}", always.calls("create"));
        always.nothing_ran();
    }
}

/// R1: on Windows a run is a preview, and says so.
#[test]
fn a_run_wants_the_preview() {
    let machine = Machine::new("");
    let mut node = machine.node(&["sandbox", "run", "--", "cmd", "/d", "/c", "echo", "ran"]);
    let output = node.env_remove("OZ0_SANDBOX_PSEC_PREVIEW").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains("OZ0_SANDBOX_PSEC_PREVIEW=1"), "{}", err(&output));
    assert!(output.stdout.is_empty());
    machine.nothing_ran();
    assert!(machine.calls("launch").is_empty());
    let shared = machine.run(&["--share-net"], &ECHO);
    assert_eq!(shared.status.code(), Some(125), "{}", err(&shared));
    assert!(err(&shared).contains("--share-net"), "{}", err(&shared));
    assert!(machine.calls("launch").is_empty());
}

/// The calls of the launch whose child was the command: from the environment that it was made in on.
struct Launch {
    lines: Vec<Value>,
}

impl Launch {
    fn of(machine: &Machine) -> Launch {
        let ledger = machine.ledger();
        let contained = |line: &Value| {
            line["call"] == "launch" && line["container"] == "environment" && line["error"] == 0
        };
        let started =
            ledger.iter().rposition(contained).unwrap_or_else(|| panic!("nothing was started: {ledger:#?}"));
        let by = ledger[started]["pid"].clone();
        let made =
            ledger[..started].iter().rposition(|line| line["call"] == "create" && line["pid"] == by).unwrap();
        // A list of handles is an attribute as well.
        let other = |line: &&Value| line["call"] == "attribute" && line["name"] != "security_environment";
        let of_it = ledger[made..].iter().filter(|line| line["pid"] == by && !other(line));
        Launch { lines: of_it.cloned().collect() }
    }

    fn one(&self, call: &str) -> Value {
        let all: Vec<&Value> = self.lines.iter().filter(|line| line["call"] == call).collect();
        assert_eq!(all.len(), 1, "{call}: {:#?}", self.lines);
        all[0].clone()
    }
}
