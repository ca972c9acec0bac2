//! What this machine shows of itself, asked of processes of the node's own program: a self-test launches, and who
//! launches has one thread. What a check saw stays here; of its answer the facts alone are reported.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use oz0_fleet::platform::routed_tier;
use oz0_fleet::protocol::{Milliseconds, SelfTest};
use oz0_fleet::{Facts, Reported, Tier};
use oz0_sandbox::backend::psec::{self, route};
use serde_json::Value;

/// Why a check gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It could not be started.
    #[error("starting the self-test: {0}")]
    Start(io::Error),
    /// It said nothing that can be read.
    #[error("the self-test gave no answer ({0})")]
    Answer(ExitStatus),
}

/// Runs checks.
#[derive(Clone, Debug)]
pub struct Checks {
    /// The node's own program.
    pub binary: PathBuf,
    /// The node's data directory.
    pub data_directory: PathBuf,
    /// Started with `--sandbox psec`.
    psec: bool,
    /// How containers reach their proxy here, once a self-test has found out.
    route: Arc<OnceLock<String>>,
}

impl Checks {
    /// With no route known yet.
    pub fn new(binary: PathBuf, data_directory: PathBuf, psec: bool) -> Checks {
        Checks { binary, data_directory, psec, route: Arc::default() }
    }

    /// Where PSEC confines runs, one self-test a start is enough, and none without `--sandbox psec`: its verdict is
    /// fresh until the node or the machine restarts.
    pub fn once(&self) -> bool {
        psec::HERE
    }

    /// What processes of this node's are handed of the route, so that a build is asked once a start.
    pub fn hand_down(&self, command: &mut Command) {
        command.envs(self.route.get().map(|route| (route::VARIABLE, route)));
    }

    /// One self-test; each of its checks is logged on standard error as it ends.
    pub fn self_test(&self) -> Result<Value, CheckError> {
        self.ask(self.psec || !psec::HERE)
    }

    /// What a probe says, without a self-test.
    fn probe(&self) -> Result<Facts, CheckError> {
        self.ask(false).map(facts)
    }

    fn ask(&self, self_test: bool) -> Result<Value, CheckError> {
        let mut command = Command::new(&self.binary);
        command.args(["sandbox", "check", "--json", "--data-dir"]).arg(&self.data_directory);
        if self_test {
            command.arg("--self-test").stderr(Stdio::inherit());
        } else {
            command.stderr(Stdio::null());
        }
        self.hand_down(&mut command);
        let output = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output());
        let output = output.map_err(CheckError::Start)?;
        let answer: Value =
            serde_json::from_slice(&output.stdout).map_err(|_| CheckError::Answer(output.status))?;
        if let Some(route) = answer["route"].as_str() {
            let _ = self.route.set(route.to_owned());
        }
        reported(answer).ok_or(CheckError::Answer(output.status))
    }
}

/// The facts: which property failed is among them, what a check saw stays on the node.
fn reported(answer: Value) -> Option<Value> {
    let Value::Object(mut answer) = answer else { return None };
    answer.remove("self_test");
    answer.remove("lacking");
    answer.remove("lines");
    answer.remove("route");
    answer.remove("advice");
    answer.contains_key("tier").then_some(Value::Object(answer))
}

/// The same as the edge will read them.
fn facts(answer: Value) -> Facts {
    // Reading never fails on account of what is said.
    serde_json::from_value::<Reported>(answer)
        .map(Reported::facts)
        .unwrap_or_else(|_| Facts::probed(Tier::Zero, oz0_fleet::System::Other))
}

/// What a program's file is known by.
type Fingerprint = Option<(u64, SystemTime)>;

fn fingerprint(program: &Path) -> Fingerprint {
    let metadata = std::fs::metadata(program).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// What the last self-test showed.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    facts: Facts,
    ended: Instant,
    took: Duration,
    program: Fingerprint,
    /// Something has changed since.
    stale: bool,
}

/// The node's tier: what its last self-test showed, as long as that is fresh.
pub struct Tiers {
    checks: Checks,
    fresh: Duration,
    verdict: Mutex<Option<Verdict>>,
}

impl Tiers {
    /// Nothing is shown yet. A verdict is fresh for two turns of the timer.
    pub fn new(checks: Checks, every: Duration) -> Tiers {
        let fresh = if checks.once() { Duration::MAX } else { every.saturating_mul(2) };
        Tiers { checks, fresh, verdict: Mutex::default() }
    }

    /// Test. Without an answer there is no tier 1 any more.
    pub fn test(&self) -> Result<(), CheckError> {
        if self.checks.once() && self.verdict().is_some_and(|verdict| !verdict.stale) {
            return Ok(());
        }
        let (begun, program) = (Instant::now(), fingerprint(&self.checks.binary));
        let answer = self.checks.self_test();
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = Instant::now();
        let new = match answer {
            Ok(answer) => Verdict { facts: facts(answer), ended, took: ended - begun, program, stale: false },
            Err(error) => {
                if let Some(verdict) = &mut *verdict {
                    verdict.stale = true;
                }
                return Err(error);
            }
        };
        if let Some(old) = verdict.filter(|old| old.facts.tier > new.facts.tier) {
            tracing::warn!(was = %old.facts.tier, is = %new.facts.tier, failed = ?new.facts.failed, "the tier fell");
        }
        *verdict = Some(new);
        Ok(())
    }

    /// What processes of this node's are handed of the route.
    pub fn hand_down(&self, command: &mut Command) {
        self.checks.hand_down(command);
    }

    fn verdict(&self) -> Option<Verdict> {
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has anything changed that a self-test stands on: the program, or what confines runs?
    pub fn changed(&self) -> bool {
        let Some(old) = *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) else { return true };
        let what = if old.stale {
            "it gave no answer"
        } else if fingerprint(&self.checks.binary) != old.program {
            "the node's program was replaced"
        } else if self.checks.probe().is_ok_and(|facts| facts.system != old.facts.system) {
            "what confines runs here has changed"
        } else {
            return false;
        };
        tracing::info!(why = what, "the self-test is repeated");
        if let Some(verdict) = &mut *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) {
            verdict.stale = true;
        }
        true
    }

    /// Did the last self-test fail at one of the eight?
    pub fn failed(&self) -> bool {
        let verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        verdict.is_some_and(|verdict| verdict.facts.failed.is_some())
    }

    /// May a job of tier 1 start here now?
    pub fn hold_tier_one(&self) -> bool {
        self.verdict.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|verdict| {
            let fresh = !verdict.stale && verdict.ended.elapsed() <= self.fresh;
            fresh
                && fingerprint(&self.checks.binary) == verdict.program
                && routed_tier(&verdict.facts) == Tier::One
        })
    }

    /// What is reported.
    pub fn report(&self) -> Option<(Facts, SelfTest)> {
        let verdict = (*self.verdict.lock().unwrap_or_else(PoisonError::into_inner))?;
        let age_ms = Milliseconds::from(verdict.ended.elapsed());
        Some((verdict.facts, SelfTest { age_ms, took_ms: verdict.took.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_check_saw_stays_on_the_node() {
        let answer = json!({ "tier": "tier 0", "failed": "files", "self_test": [{ "saw": "/home/x" }], "lines": [], "lacking": [] });
        assert_eq!(reported(answer), Some(json!({ "tier": "tier 0", "failed": "files" })));
        assert_eq!(reported(json!({ "refusal": {} })), None);
        assert_eq!(reported(json!([])), None);
    }

    #[test]
    fn no_verdict_is_no_tier_one() {
        let nowhere = PathBuf::from("/nowhere/oz0-node");
        let checks = Checks::new(nowhere.clone(), nowhere, false);
        let tiers = Tiers::new(checks, Duration::from_secs(60));
        assert!(!tiers.hold_tier_one() && tiers.changed() && tiers.report().is_none());
        assert!(matches!(tiers.test(), Err(CheckError::Start(_))));
        assert!(!tiers.hold_tier_one());
    }
}
