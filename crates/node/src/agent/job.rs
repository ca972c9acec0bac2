//! One job from its lease to its ending, in a thread of its own: folder, repository, files, command, log, ending.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use oz0_fleet::Tier;
use oz0_fleet::protocol::{Ending, Lease, Milliseconds, Objection, Obstacle, Outcome, Phase, Work};
use oz0_sandbox::limits::Limits;
use oz0_sandbox::policy::Policy;

use super::Agent;
use super::child::Child;
use super::journal::Taking;
use super::log::Log;
use super::mask::Mask;
use super::order::{EndedBy, How, Order, Told};
use super::table::Why;
use super::work::{self, Here};
use super::{fetch, folder};

/// All processes are gone, and so is whoever could still write; the rest of the log comes at once.
const REST_OF_LOG: Duration = Duration::from_secs(2);

const fn not_started(obstacle: Obstacle) -> Outcome {
    Outcome::NotStarted { obstacle }
}

const fn refused(objection: Objection) -> Outcome {
    Outcome::Refused { objection }
}

/// Take up a job of an answer to a request that was sent at `asked_at`; what cannot be is told at once.
pub fn take(agent: &Arc<Agent>, lease: &Lease, asked_at: Instant) {
    let taking = Taking { job: lease.job, fence: lease.fence };
    match admit(agent, lease, taking, asked_at) {
        Ok(None) => {}
        Ok(Some((work, limits))) => {
            let (agent_too, begun) = (Arc::clone(agent), asked_at);
            let thread = std::thread::Builder::new()
                .name(format!("job {}", taking.job))
                .spawn(move || run(&agent_too, taking, &work, limits, begun));
            if let Err(error) = thread {
                tracing::error!(job = %taking.job, %error, "starting a thread for a job");
                tell(agent, taking, not_started(Obstacle::Processes), asked_at, Duration::ZERO);
                agent.table.end(taking);
            }
        }
        Err(outcome) => tell(agent, taking, outcome, asked_at, Duration::ZERO),
    }
}

/// May it run here? Then it is in the table and in the journal. None: it runs here already.
fn admit(
    agent: &Agent,
    lease: &Lease,
    taking: Taking,
    asked_at: Instant,
) -> Result<Option<(Work, Limits)>, Outcome> {
    let job = lease.job;
    if agent.ending.is_told() {
        return Err(not_started(Obstacle::Draining));
    }
    let work = lease.work().map_err(|error| {
        tracing::warn!(%job, %error, "not understood: this node may be older than the edge");
        refused(Objection::NotUnderstood)
    })?;
    let not_meant = |error: work::NotMeant| {
        tracing::warn!(%job, %error, "refused");
        refused(Objection::Policy)
    };
    let limits = work::limits(&work, agent.machine_memory).map_err(not_meant)?;
    if folder::bad_path(&work.files).is_some() {
        tracing::warn!(%job, "refused: the path of one of its files leads out of its folder");
        return Err(refused(Objection::Policy));
    }
    if work.tier == Tier::One && !agent.tiers.hold_tier_one() {
        return Err(not_started(Obstacle::TierFell));
    }
    let (jobs, used) = agent.table.used();
    let memory = work::memory_mib(&limits);
    if !agent.room.fits(jobs, used, memory) {
        return Err(not_started(Obstacle::Room));
    }
    if let Err(held) = agent.table.begin(taking, asked_at, lease.lease_ms.into(), memory) {
        // The same lease twice is one job; a newer one waits elsewhere until the older has ended here.
        return if held < taking.fence { Err(not_started(Obstacle::Room)) } else { Ok(None) };
    }
    agent.journal.begin(taking).map_err(|error| {
        agent.table.end(taking);
        tracing::error!(%job, %error, "writing the journal");
        not_started(of_disk(&error))
    })?;
    tracing::info!(%job, fence = taking.fence.0, attempt = lease.attempt, tier = %work.tier, "taken");
    Ok(Some((work, limits)))
}

fn of_disk(error: &io::Error) -> Obstacle {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Obstacle::DiskFull,
        _ => Obstacle::Folder,
    }
}

fn run(agent: &Arc<Agent>, taking: Taking, work: &Work, limits: Limits, taken: Instant) {
    let credential = work.repository.iter().filter_map(|repository| repository.credential.as_ref());
    let mask = Mask::new(work.secrets.values().chain(credential.map(|credential| &credential.password)));
    let log = match Log::begin(&agent.journal.path(taking, "log"), mask) {
        Ok(log) => Arc::new(log),
        Err(error) => {
            tell(agent, taking, not_started(of_disk(&error)), taken, Duration::ZERO);
            return agent.table.end(taking);
        }
    };
    send(agent, taking, &log);
    let (outcome, ran) = attempt(agent, taking, work, limits, &log);
    log.close();
    agent.folders.clear(taking);
    let stop = agent.table.with(taking.job, |job| {
        job.phase = Phase::Ending;
        job.stop
    });
    if stop.flatten().is_some_and(|stop| stop.why == Why::NotOurs) {
        tracing::warn!(job = %taking.job, "ended: it is no longer this node's");
        log.settle();
        agent.journal.forget(taking);
        return agent.table.end(taking);
    }
    let ending = ending(taking, outcome, taken, ran);
    if let Err(error) = agent.journal.end(&ending) {
        tracing::error!(job = %taking.job, %error, "writing the journal");
    }
    // The log first, as long as the lease goes: whoever sees the ending then sees all of it.
    log.wait_sent(|| agent.table.get(taking.job).map(|job| job.lease_until));
    // In this order: who waits for the last job then waits for its ending too.
    agent.endings.push(ending);
    agent.table.end(taking);
}

/// Send a log from a thread of its own.
pub fn send(agent: &Arc<Agent>, taking: Taking, log: &Arc<Log>) {
    let (agent_too, log_too) = (Arc::clone(agent), Arc::clone(log));
    let sender = std::thread::Builder::new().spawn(move || {
        log_too.send(&agent_too.edge, taking);
        agent_too.journal.forget_log(taking);
    });
    if let Err(error) = sender {
        tracing::error!(job = %taking.job, %error, "starting a thread for a log");
        log.settle();
    }
}

fn ending(taking: Taking, outcome: Outcome, taken: Instant, ran: Duration) -> Ending {
    let start_ms = Milliseconds::from(taken.elapsed().saturating_sub(ran));
    tracing::info!(job = %taking.job, ?outcome, start_ms = start_ms.count(), "ended");
    Ending { job: taking.job, fence: taking.fence, outcome, start_ms, run_ms: ran.into() }
}

/// What did not get as far as a log.
fn tell(agent: &Agent, taking: Taking, outcome: Outcome, taken: Instant, ran: Duration) {
    let ending = ending(taking, outcome, taken, ran);
    if let Err(error) = agent.journal.end(&ending) {
        tracing::error!(job = %taking.job, %error, "writing the journal");
    }
    agent.endings.push(ending);
}

/// How it went, and how long the command ran.
fn attempt(
    agent: &Agent,
    taking: Taking,
    work: &Work,
    limits: Limits,
    log: &Arc<Log>,
) -> (Outcome, Duration) {
    match prepare(agent, taking, work, limits, log) {
        Err(outcome) => (outcome, Duration::ZERO),
        Ok(policy) => {
            agent.table.with(taking.job, |job| job.phase = Phase::Running);
            let input = work.input.as_ref().map(|input| input.body.0.clone()).unwrap_or_default();
            launch(agent, taking, work.tier, policy, input, log)
        }
    }
}

/// The folder with what is to lie in it, and the policy of the command.
fn prepare(
    agent: &Agent,
    taking: Taking,
    work: &Work,
    limits: Limits,
    log: &Arc<Log>,
) -> Result<Policy, Outcome> {
    let failed = |error: io::Error| {
        tracing::error!(job = %taking.job, %error, "making a job's folder");
        not_started(of_disk(&error))
    };
    let not_meant = |error: work::NotMeant| {
        log.write(format!("oz0-node: refused: {error}\n").as_bytes());
        refused(Objection::Policy)
    };
    let here = Here {
        binary: &agent.binary,
        data_directory: &agent.data_directory,
        machine_memory: agent.machine_memory,
        caller: &agent.caller,
    };
    // All that can be refused is, before anything is made.
    let folder = agent.folders.path(taking);
    let policy = work::policy(work, limits, &folder, &here).map_err(not_meant)?;
    let fetch = work.repository.as_ref().map(|repository| fetch::step(repository, &folder, &here));
    let fetch = fetch.transpose().map_err(not_meant)?;
    agent.folders.make(taking).map_err(failed)?;
    if let Some((policy, input)) = fetch {
        // In a sandbox wherever there is one, also for a job that runs without.
        let tier = if agent.tiers.hold_tier_one() { Tier::One } else { work.tier };
        match launch(agent, taking, tier, policy, input, log).0 {
            Outcome::Exited { status: 0 } => {}
            Outcome::Cancelled => return Err(Outcome::Cancelled),
            Outcome::Lost => return Err(Outcome::Lost),
            _ => {
                log.write(b"oz0-node: the repository could not be fetched\n");
                return Err(not_started(Obstacle::Fetch));
            }
        }
    }
    folder::write(&folder, &work.files).map_err(failed)?;
    Ok(policy)
}

/// Run one command to its end, every process of it, with what it writes in the log.
fn launch(
    agent: &Agent,
    taking: Taking,
    tier: Tier,
    policy: Policy,
    input: Vec<u8>,
    log: &Arc<Log>,
) -> (Outcome, Duration) {
    if let Some(why) = stopped(agent, taking) {
        return (outcome_of_stop(why, false), Duration::ZERO);
    }
    let told = agent.journal.path(taking, "told");
    let _ = std::fs::remove_file(&told);
    let lock = agent.journal.path(taking, "lock");
    let order = Order { agent: std::process::id(), tier, policy, told, lock };
    let begun = Instant::now();
    let (child, output) = match Child::start(&agent.binary, &agent.tiers, &order, input) {
        Ok((child, output)) => (Arc::new(child), output),
        Err(error) => {
            tracing::error!(job = %taking.job, %error, "starting a process");
            return (not_started(Obstacle::Processes), Duration::ZERO);
        }
    };
    agent.table.with(taking.job, |job| (job.child, job.asked) = (Some(Arc::clone(&child)), false));
    let (done, filled) = mpsc::channel();
    let log_too = Arc::clone(log);
    let filling = std::thread::Builder::new().spawn(move || {
        log_too.fill(output);
        drop(done);
    });
    if filling.is_err() {
        child.kill();
    }
    let waited = child.wait();
    let _: Result<(), _> = filled.recv_timeout(REST_OF_LOG);
    agent.table.with(taking.job, |job| job.child = None);
    if let Err(error) = waited {
        tracing::error!(job = %taking.job, %error, "waiting for a process");
    }
    let told = Told::of(&order.told);
    outcome(told, stopped(agent, taking), begun.elapsed(), taking, log)
}

fn stopped(agent: &Agent, taking: Taking) -> Option<Why> {
    agent.table.get(taking.job)?.stop.map(|stop| stop.why)
}

/// What a job that was ended by the node is told as.
const fn outcome_of_stop(why: Why, began: bool) -> Outcome {
    match why {
        Why::Cancelled => Outcome::Cancelled,
        Why::NodeEnds if !began => not_started(Obstacle::Draining),
        // Not ours: nothing is told of it.
        Why::NodeEnds | Why::LeaseOver | Why::NotOurs => Outcome::Lost,
    }
}

/// What became of it, by what the process said that stood by it.
fn outcome(
    told: Option<Told>,
    stop: Option<Why>,
    elapsed: Duration,
    taking: Taking,
    log: &Log,
) -> (Outcome, Duration) {
    let of_stop = || stop.map_or(Outcome::Lost, |why| outcome_of_stop(why, true));
    match told {
        // It was ended itself.
        None => (of_stop(), elapsed),
        Some(Told::Refused { of_policy, code, reason, fix }) => {
            tracing::warn!(job = %taking.job, code, reason, "the sandbox refused");
            let fix = fix.map(|fix| format!("oz0-node: fix: {fix}\n")).unwrap_or_default();
            log.write(format!("oz0-node: refused ({code}): {reason}\n{fix}").as_bytes());
            let outcome = match code.as_str() {
                _ if of_policy => refused(Objection::Policy),
                "proxy" | "random" => not_started(Obstacle::Proxy),
                "relay-port" => not_started(Obstacle::RelayPort),
                "processes" => not_started(Obstacle::Processes),
                _ => not_started(Obstacle::Launch),
            };
            (outcome, Duration::ZERO)
        }
        Some(Told::Ended { how, by, run_ms, block, mechanism }) => {
            log.write(block.as_bytes());
            let mechanism = mechanism.map(|mechanism| mechanism.to_string()).unwrap_or_default();
            tracing::debug!(job = %taking.job, mechanism, "confined by");
            let outcome = match (how, by) {
                (How::NoCommand, _) => refused(Objection::Command),
                (_, Some(EndedBy::Timeout)) => Outcome::TimedOut,
                (_, Some(EndedBy::Limit | EndedBy::Sandbox)) => Outcome::LimitHit,
                (_, Some(EndedBy::Agent)) => of_stop(),
                // By itself, whatever was wanted of it just then.
                (How::Exited(status), None) => Outcome::Exited { status },
                (How::Signalled(signal), None) => Outcome::Signalled { signal },
            };
            (outcome, Duration::from_millis(run_ms))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oz0_fleet::protocol::{Fence, JobId};

    #[test]
    fn an_ending_is_what_was_told_and_else_what_was_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::begin(&folder.path().join("log"), Mask::new([])).unwrap();
        let taking = Taking { job: JobId::from_bytes([1; 16]), fence: Fence(1) };
        let of = |told, stop| outcome(told, stop, Duration::ZERO, taking, &log).0;
        let ended = |how, by| Some(Told::Ended { how, by, run_ms: 1, block: String::new(), mechanism: None });
        let refusal = |of_policy, code: &str| {
            Some(Told::Refused { of_policy, code: code.into(), reason: "x".into(), fix: None })
        };
        for (told, stop, expected) in [
            (ended(How::Exited(0), None), None, Outcome::Exited { status: 0 }),
            (ended(How::Exited(3), None), Some(Why::Cancelled), Outcome::Exited { status: 3 }),
            (ended(How::Signalled(9), None), None, Outcome::Signalled { signal: 9 }),
            (ended(How::Signalled(15), Some(EndedBy::Agent)), Some(Why::Cancelled), Outcome::Cancelled),
            (ended(How::Exited(0), Some(EndedBy::Agent)), Some(Why::LeaseOver), Outcome::Lost),
            (ended(How::Signalled(15), Some(EndedBy::Timeout)), None, Outcome::TimedOut),
            (ended(How::Signalled(9), Some(EndedBy::Limit)), None, Outcome::LimitHit),
            (ended(How::NoCommand, None), None, refused(Objection::Command)),
            (refusal(true, "survey"), None, refused(Objection::Policy)),
            (refusal(false, "cgroup-not-delegated"), None, not_started(Obstacle::Launch)),
            (refusal(false, "proxy"), None, not_started(Obstacle::Proxy)),
            (None, None, Outcome::Lost),
            (None, Some(Why::Cancelled), Outcome::Cancelled),
            (None, Some(Why::NodeEnds), Outcome::Lost),
        ] {
            assert_eq!(of(told, stop), expected);
        }
    }
}
