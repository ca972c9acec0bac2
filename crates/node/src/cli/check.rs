//! `oz0-node sandbox check`: what this machine has, what a run would be confined by, and with `--self-test`
//! whether the eight properties hold.

use std::process::ExitCode;

use clap::Args;
use oz0_fleet::check::{self, Check};
use oz0_fleet::{Facts, Property, System, Tier};
use oz0_sandbox::backend::psec::route::Route;
use oz0_sandbox::backend::{self, Backend, Probed, Refusal, psec};
use oz0_sandbox::report::Status;
use oz0_sandbox::selftest::{self, Finding, Lab, Node, Staged};
use serde::Serialize;

use super::{NodeArguments, answer, answer_json, complain, refuse};
use crate::env;

/// Why `--psec` and `--sandbox psec` are refused here.
pub const NO_PSEC: &str = "PSEC is a part of Windows 11; on this system `oz0-node sandbox check --self-test` looks \
                           at what confines runs here";

/// What may be typed.
#[derive(Args)]
pub struct CheckArguments {
    /// Look at the eight properties too, in containers of their own.
    #[arg(long)]
    self_test: bool,
    /// Look at one property alone, by hand.
    #[arg(long, value_name = "PROPERTY", value_parser = property)]
    only: Option<Property>,
    /// Windows alone: the same as --self-test, in PSEC.
    #[arg(long)]
    psec: bool,
    /// Print facts and findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

fn property(text: &str) -> Result<Property, String> {
    text.parse().map_err(|_| format!("one of the eight: {}", Property::ALL.map(Property::word).join(", ")))
}

/// For programs.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    check: Check,
    /// The three lines.
    lines: [String; 3],
    /// What is missing here, each with the step that failed and the system's answer.
    lacking: &'a [Refusal],
    #[serde(flatten)]
    tested: Option<&'a Tested>,
}

/// What the self-test found, when it ran.
#[derive(Serialize)]
struct Tested {
    /// Property by property.
    #[serde(rename = "self_test")]
    findings: Vec<Finding>,
    /// How a container reaches its proxy here, where that is asked: the node hands it to what it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<Route>,
    /// What an administrator may have to do, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<String>,
}

/// Check.
pub fn main(arguments: CheckArguments) -> ExitCode {
    if arguments.psec && !psec::HERE {
        complain(NO_PSEC, None);
        return Status::Sandbox.into();
    }
    let handed_down = match env::psec_route() {
        Ok(route) => route,
        Err(reason) => return refuse(&super::bad_route(reason), arguments.json),
    };
    // Before anything else: what is tried is tried in forks of a process with one thread.
    let Probed { facts, lacking } = backend::host(handed_down).probe();
    for refusal in &lacking {
        complain(&refusal.reason, None);
    }
    if !arguments.self_test && !arguments.psec && arguments.only.is_none() {
        return tell(&facts, &lacking, None, arguments.json);
    }
    // A self-test is what earns tier 1, so it is asked for.
    let facts = Facts { asked: Tier::One, ..facts };
    if psec::HERE && check::runs_by_hand(&facts).is_none() {
        // Nothing to test in: the probe's reason is the answer.
        tell(&facts, &lacking, None, arguments.json);
        return ExitCode::FAILURE;
    }
    let node = match node(&arguments.node) {
        Ok(node) => node,
        Err(reason) => {
            complain(&reason, None);
            return Status::Sandbox.into();
        }
    };
    let route = route(handed_down, &node);
    let backend = backend::host(route);
    let launcher = Staged::new(&backend, &node.binary);
    let lab = match Lab::new(&launcher, &node) {
        Ok(lab) => lab,
        Err(error) => {
            complain(&format!("the self-test was not begun: {error}"), None);
            return Status::Sandbox.into();
        }
    };
    let findings = selftest::run(&lab, arguments.only, |finding| complain(&finding.to_string(), None));
    drop(lab);
    let failed = findings.iter().find(|finding| !finding.verdict.holds());
    // One property alone says nothing about the tier, unless it fails.
    let facts = match (failed, arguments.only) {
        (Some(finding), _) => facts.with_verdict(Err(finding.property)),
        (None, Some(_)) => facts,
        (None, None) => {
            check::runs_by_hand(&facts).map_or(facts, |mechanism| facts.with_verdict(Ok(mechanism)))
        }
    };
    let advice = match failed {
        Some(finding) if finding.property == Property::Egress && route == Some(Route::Relay) => {
            psec::advice(&node.binary)
        }
        _ => Vec::new(),
    };
    let failed = failed.is_some();
    let told = tell(&facts, &lacking, Some(&Tested { findings, route, advice }), arguments.json);
    if failed { ExitCode::FAILURE } else { told }
}

/// The route that every launch of this self-test takes, asked once where there is one to ask for. Without an answer
/// the first check meets the same question and says what was in its way.
fn route(handed_down: Option<Route>, node: &Node) -> Option<Route> {
    if handed_down.is_some() || !psec::HERE {
        return handed_down;
    }
    psec::ask(&node.binary).inspect_err(|refusal| complain(&refusal.reason, None)).ok()
}

fn node(arguments: &NodeArguments) -> Result<Node, String> {
    Ok(Node {
        binary: std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?,
        data_directory: env::data_directory(arguments.data_dir.clone()),
        temporary: std::env::temp_dir(),
    })
}

/// The answer, on stdout.
fn tell(facts: &Facts, lacking: &[Refusal], tested: Option<&Tested>, json: bool) -> ExitCode {
    let lines = check::lines(facts);
    if json {
        return answer_json(&Answer { check: Check::of(facts), lines, lacking, tested });
    }
    let [sandbox, found, fix] = lines;
    let mut text = vec![sandbox, found];
    match tested {
        None => text.push(fix),
        Some(Tested { findings, advice, .. }) => {
            text.extend(findings.iter().map(Finding::to_string));
            text.push(closing(facts, findings));
            if findings.iter().any(|finding| !finding.verdict.holds()) {
                text.push(fix);
            }
            text.extend_from_slice(advice);
        }
    }
    answer(&text.join("\n"))
}

/// The closing line of a self-test.
fn closing(facts: &Facts, findings: &[Finding]) -> String {
    let here = match facts.system {
        System::Linux(linux) => {
            linux.kernel.map_or_else(|| "Linux".to_owned(), |kernel| format!("Linux {kernel}"))
        }
        System::Windows(windows) => {
            let contract =
                windows.contract.map_or_else(String::new, |contract| format!(" contract {contract}"));
            let build = windows.build.map_or_else(String::new, |build| format!(" {build}"));
            format!("PSEC{contract} on Windows{build}")
        }
        _ => facts.platform().name().to_owned(),
    };
    let held = findings.iter().filter(|finding| finding.verdict.holds()).count();
    match findings.iter().find(|finding| !finding.verdict.holds()) {
        Some(finding) => format!(
            "{here} did not pass the node's self-test: {} of {} checks hold, {} does not; work is routed as {}",
            held,
            Property::ALL.len(),
            finding.property,
            oz0_fleet::platform::routed_tier(facts)
        ),
        None if held < Property::ALL.len() => {
            format!("{here}: {held} of {} checks was looked at, and holds", Property::ALL.len())
        }
        None => format!(
            "{here} passed the node's self-test: {held} checks; work is routed as {}{}",
            oz0_fleet::platform::routed_tier(facts),
            // Which it is not until Windows is opened in the one table.
            if psec::HERE { " until it runs in PSEC" } else { "" },
        ),
    }
}
