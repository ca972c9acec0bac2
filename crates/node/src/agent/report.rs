//! The agent's own loop: test, report, and again when it is time or something has changed; and at the end the drain.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use oz0_fleet::protocol::{Accepted, Code, Report, Versions, path};

use super::pace::{Pace, spread};
use super::standing::State;
use super::table::Why;
use super::{Agent, AgentError, finish, lease};

const LIMIT: Duration = Duration::from_secs(20);
/// From one look at what a self-test stands on to the next.
const LOOK: Duration = Duration::from_secs(60);
/// A self-test that failed is repeated after this, and then after ever longer: a machine that is busy just then is no
/// reason to stay without a tier until the timer.
const AGAIN: Duration = Duration::from_secs(15);
/// A start that may take nothing asks again after this.
const SLOWLY: Duration = Duration::from_secs(60);
/// Between asking jobs to end and ending them, when the node has no more time.
const GRACE: Duration = Duration::from_secs(5);
/// How long the edge is told of the last endings before the node goes; what is not told then the next start tells.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Run until told to end, or until the edge no longer knows this node.
pub fn run(agent: &Arc<Agent>, drain: Duration) -> Result<(), AgentError> {
    // Before anything is taken: without facts there is nothing to be.
    agent.tiers.test()?;
    let spawn = |name: &str, body: fn(&Arc<Agent>)| {
        let agent = Arc::clone(agent);
        thread::Builder::new().name(name.into()).spawn(move || body(&agent))
    };
    let started = spawn("ends", |agent| lease::keep(agent))
        .and_then(|_| spawn("renews", |agent| lease::renew(agent)))
        .and_then(|_| spawn("tells", |agent| finish::tell(agent)))
        .and_then(|_| spawn("takes", lease::poll))
        .and_then(|_| spawn("is told", wake_when_told));
    started.map_err(|error| AgentError::Data { what: "starting the agent's threads", error })?;
    let shut = report_until_the_end(agent);
    let drain = if shut.is_some() { Duration::ZERO } else { drain };
    end(agent, drain);
    match shut {
        None => Ok(()),
        Some(code) => {
            let key = match code {
                Code::Revoked => "; this key stays revoked: move identity/node.key away first",
                _ => "",
            };
            Err(AgentError::Shut(agent.edge.node().to_string(), code.word(), key))
        }
    }
}

/// Whoever waits for the edge's word waits for this one too.
fn wake_when_told(agent: &Arc<Agent>) {
    while !agent.ending.wait(Duration::from_secs(3600)) {}
    agent.standing.wake();
    agent.table.wake();
}

/// Report and test again, until told to end; or the code with which the edge has shut this node out.
fn report_until_the_end(agent: &Agent) -> Option<Code> {
    let mut pace = Pace::default();
    let mut again = AGAIN;
    loop {
        if agent.ending.is_told() {
            return None;
        }
        if let State::Shut(code) = agent.standing.state() {
            return Some(code);
        }
        let pause = match report(agent) {
            Ok(accepted) => {
                pace.worked();
                let mut due = Duration::from(accepted.report_again_ms).min(agent.every);
                if agent.tiers.failed() {
                    due = due.min(again);
                    again = (again * 2).min(agent.every);
                } else {
                    again = AGAIN;
                }
                wait_for_a_reason(agent, Instant::now() + due);
                continue;
            }
            Err(trouble) => {
                agent.meet(&trouble, "reporting", pace.failures());
                if agent.standing.state() == State::Held { spread(SLOWLY) } else { pace.pause() }
            }
        };
        agent.ending.wait(pause);
    }
}

fn report(agent: &Agent) -> Result<Accepted, super::Trouble> {
    let Some((facts, self_test)) = agent.tiers.report() else {
        return Err(super::Trouble::Away("there is no self-test to report".into()));
    };
    let (speaks, self_test) = (Versions::OURS, Some(self_test));
    let report = Report { speaks, facts, self_test, most_jobs: agent.room.jobs };
    let accepted: Accepted = agent.edge.ask(path::REPORT, &report, LIMIT)?;
    agent.edge.speak(accepted.speak);
    agent.standing.reported(accepted.state);
    agent.table.wake();
    tracing::info!(
        tier = %facts.tier, routed = %accepted.routed, state = %accepted.state, age_ms = self_test.map(|test| test.age_ms.count()),
        "reported"
    );
    Ok(accepted)
}

/// Wait until a report is due, wanted, or would say something new; before it, the self-test is repeated.
fn wait_for_a_reason(agent: &Agent, due: Instant) {
    let begun = Instant::now();
    loop {
        let left = due.saturating_duration_since(Instant::now());
        agent.standing.wait(left.min(LOOK));
        match agent.standing.state() {
            // The edge asks for what is known.
            State::Unreported => return,
            State::Shut(_) => return,
            // Whether that is over is in the answer to a report.
            State::Held | State::Draining if begun.elapsed() >= SLOWLY => return,
            _ if agent.ending.is_told() => return,
            _ => {}
        }
        if Instant::now() >= due || agent.tiers.changed() {
            if let Err(error) = agent.tiers.test() {
                // No verdict, no tier 1; it is tried again with the next look.
                tracing::error!(%error, "the self-test");
            }
            return;
        }
    }
}

/// Finish what there is, at most so long; what is left then is ended. A second word ends all at once.
fn end(agent: &Agent, drain: Duration) {
    tracing::info!(jobs = agent.table.used().0, "ending: no new jobs are taken");
    let until = Instant::now() + drain;
    let known = 1;
    let hurried = || agent.ending.times() > known;
    while !hurried() && Instant::now() < until && !agent.table.wait_empty(Duration::from_millis(50)) {}
    let grace = if hurried() { Duration::ZERO } else { GRACE };
    let now = Instant::now();
    agent.table.for_each(|_, job| job.stop(Why::NodeEnds, now + grace));
    let until = now + grace + GRACE;
    while Instant::now() < until && !agent.table.wait_empty(Duration::from_millis(50)) {
        if hurried() {
            agent.table.for_each(|_, job| job.stop(Why::NodeEnds, Instant::now()));
        }
    }
    let patience = if hurried() { Duration::from_secs(1) } else { LAST_WORDS };
    if !agent.endings.wait_empty(patience) {
        tracing::warn!("the edge was not told of every ending: the next start does it");
    }
}
