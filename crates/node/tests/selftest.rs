//! `sandbox check` and `oz0-node run` as a person and a program meet them, with the built binary.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is the report of a test")]

#[path = "holes/nobody.rs"]
mod nobody;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use oz0_fleet::Property;
use serde_json::Value;

fn node(arguments: &[&str], temporary: &Path) -> Command {
    let mut command = Command::new(nobody::binary());
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("TMPDIR", temporary);
    command.env("OZ0_SOMETHING", "of the node").current_dir("/").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("no data yet");
    let all = [&["sandbox", "check", "--data-dir", data.to_str().unwrap()], arguments].concat();
    node(&all, folder.path()).output().unwrap()
}

/// S5: three and eight lines and a closing one, in order, progress on stderr, status 0 only when all hold.
fn a_passed_self_test_is_told_in_full() {
    let output = check(&["--self-test"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "Sandbox: tier 1 (linux)");
    assert!(lines[1].starts_with("Linux ") && lines[1].contains("namespaces ok"), "{}", lines[1]);
    for (property, line) in Property::ALL.iter().zip(&lines[2..10]) {
        assert!(line.starts_with(&format!("Self-test {property}: ok (")), "{line}");
        assert!(err.contains(line), "progress lacks {line}");
    }
    assert!(lines[10].contains("8 checks") && lines[10].ends_with("routed as tier 1"), "{}", lines[10]);
    assert_eq!(lines.len(), 11);
    assert!(lines[3].contains("no data directory"), "{}", lines[3]);
}

#[test]
fn a_passed_self_test_is_told_in_full_to_root() {
    assert!(rustix::process::geteuid().is_root(), "these tests are run by root, as CI does");
    a_passed_self_test_is_told_in_full();
}

#[test]
fn a_passed_self_test_is_told_in_full_to_nobody() {
    if nobody::is_this() {
        return a_passed_self_test_is_told_in_full();
    }
    nobody::again("a_passed_self_test_is_told_in_full_to_nobody");
}

#[test]
fn a_check_alone_is_three_lines_and_claims_no_tier() {
    let output = check(&[]);
    assert!(output.status.success());
    let out = text(&output.stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].starts_with("Sandbox: tier 0"), "{out}");
    assert!(lines[1].starts_with("Linux ") && lines[2].starts_with("Fix: "), "{out}");
}

#[test]
fn json_has_the_facts_and_the_findings_with_stable_words() {
    let output = check(&["--json", "--only", "launch"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["platform"], "linux");
    assert_eq!(answer["self_test"][0]["property"], "launch");
    assert_eq!(answer["self_test"][0]["verdict"], "holds");
    assert!(answer["self_test"][0]["milliseconds"].is_u64());
    // One property alone earns no tier.
    assert_eq!(answer["tier"], "tier 0");
    assert!(output.status.success());
}

/// S6: PSEC is Windows' own.
#[test]
fn psec_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["sandbox", "check", "--psec"][..],
        &["run", "--sandbox", "psec"],
        &["node", "run", "--sandbox", "psec"],
    ] {
        let output = node(arguments, folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(text(&output.stderr).contains("Windows"), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    let unknown = node(&["sandbox", "check", "--only", "Launch"], folder.path()).output().unwrap();
    assert_eq!(unknown.status.code(), Some(125));
    assert!(text(&unknown.stderr).contains("fail_closed"), "it names the eight");
}

/// S2: with a data directory, its listing and its key are what is tried, and neither appears in a report.
#[test]
fn the_agent_makes_its_key_tests_itself_and_reports_facts_alone_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let arguments = ["run", "--self-test-every", "1s", "--data-dir", data.to_str().unwrap()];
    let mut agent =
        node(&arguments, folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reports = BufReader::new(agent.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let report: Value = serde_json::from_str(&reports.next().unwrap().unwrap()).unwrap();
        assert_eq!(report["tier"], "tier 1", "{report}");
        assert_eq!(report["mechanism"], "linux");
        assert!(report.get("self_test").is_none() && report.get("lines").is_none());
    }
    let pid = rustix::process::Pid::from_raw(agent.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let begun = Instant::now();
    let output = agent.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(fs::metadata(data.join("identity/node.key")).unwrap().len() == 32);
    let log = text(&output.stderr);
    assert!(log.contains("listing refused, reading identity/node.key refused"), "{log}");
}

/// What a killed self-test leaves, the next one of the same user removes; what is in use stays.
#[test]
fn a_folder_left_by_a_killed_self_test_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let arguments = ["sandbox", "check", "--self-test", "--data-dir", data.to_str().unwrap()];
    let mut killed =
        node(&arguments, folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let labs = || fs::read_dir(folder.path()).unwrap().count();
    let deadline = Instant::now() + Duration::from_secs(20);
    while labs() == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(labs(), 1);
    let output = node(&["sandbox", "check", "--only", "launch"], folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(labs(), 0);
}

/// The launching process takes its job from standard input alone, and an act that it does not know is not tried.
#[test]
fn what_is_no_job_and_no_act_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for input in ["", "{}", "null", r#"{"policy":1,"plan":2,"report":"/x"}"#] {
        let mut launching = node(&["stage", "run"], folder.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        launching.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = launching.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{input}");
        assert!(text(&output.stderr).starts_with("oz0-node: standard input holds no job"), "{input}");
        assert!(output.stdout.is_empty());
    }
    let subject =
        node(&["stage", "subject", r#"{"erase":"/"}"#, "\"find_proxy\""], folder.path()).output().unwrap();
    let answers = text(&subject.stdout);
    assert_eq!(answers.lines().count(), 2);
    assert!(answers.lines().all(|line| line.starts_with(r#"{"untried":"#)), "{answers}");
}
