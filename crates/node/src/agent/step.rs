//! The process between the agent and one command: it launches what is ordered, stands by, and tells. It has one
//! thread until the sandbox has been made, ends with the agent, and knows no edge and no lease.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use oz0_fleet::Tier;
use oz0_sandbox::backend::{Backend as _, Refusal};
use oz0_sandbox::limits::Limit;
use oz0_sandbox::report::{Cause, Ending, Report, Status};
use oz0_sandbox::run::{self, Options};
use oz0_sandbox::text::escape;

use super::order::{EndedBy, How, Order, Told};
use super::{os, plain};
use crate::cli::complain;
use crate::env;

/// It is the agent that asks twice; so long a command may take in between.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Do what is ordered on standard input.
pub fn main() -> ExitCode {
    let failed = |reason: String| {
        complain(&reason, None);
        Status::Sandbox.into()
    };
    let order = match os::bare_standard_input().and_then(|mut input| Order::read(&mut input)) {
        Ok(order) => order,
        Err(error) => return failed(format!("reading the order: {error}")),
    };
    // Held until this process ends, and the first one inside, which is a fork of it.
    let lock = File::create(&order.lock).and_then(|file| file.lock().map(|()| file));
    let _lock = match lock {
        Ok(lock) => lock,
        Err(error) => return failed(format!("locking {}: {error}", escape(&order.lock))),
    };
    let told = match order.tier {
        Tier::One => sandboxed(&order),
        Tier::Zero => plain::run(&order),
    };
    match told.keep(&order.told) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format!("telling how it went: {error}")),
    }
}

fn sandboxed(order: &Order) -> Told {
    let backend = match crate::cli::host() {
        Ok(backend) => backend,
        Err(refusal) => return refused(false, refusal),
    };
    let upstream =
        os::end_with(order.agent).map_err(|error| error.to_string()).and_then(|()| env::upstream());
    let upstream = match upstream {
        Ok(upstream) => upstream,
        Err(reason) => return refused(false, Refusal { code: "node", reason, fix: None }),
    };
    // The container is made while what goes into it is worked out.
    let begun = backend.begin(&order.policy);
    let prepared = match run::prepare(&backend, &order.policy) {
        Ok(prepared) => prepared,
        // These two say something about the machine, all others about what is asked.
        Err(refusal) => return refused(!matches!(refusal.code, "survey" | "protected"), refusal),
    };
    let options = Options { upstream, records: None, patience: Some(PATIENCE) };
    match run::run(&backend, begun, &order.policy, &prepared, options) {
        Ok(report) => ended(&report),
        Err(refusal) => refused(false, refusal),
    }
}

/// A refusal, told.
pub fn refused(of_policy: bool, refusal: Refusal) -> Told {
    let Refusal { code, reason, fix } = refusal;
    Told::Refused { of_policy, code: code.to_owned(), reason, fix }
}

fn ended(report: &Report) -> Told {
    let how = match report.ending {
        Ending::Exited(status) => How::Exited(status.cast_unsigned()),
        Ending::Signalled(signal) => How::Signalled(u8::try_from(signal).unwrap_or(0)),
        Ending::NotStarted(_) => How::NoCommand,
    };
    let killed = report.hits.iter().any(|hit| hit.limit == Limit::Memory);
    let by = match &report.cause {
        Some(Cause::Timeout) => Some(EndedBy::Timeout),
        Some(Cause::Signal(_)) => Some(EndedBy::Agent),
        Some(Cause::Unprotected(_)) => Some(EndedBy::Sandbox),
        // A limit of memory kills; the others hold back, and a command that lives with that has its own ending.
        None => (killed && how != How::Exited(0)).then_some(EndedBy::Limit),
    };
    Told::Ended {
        how,
        by,
        run_ms: u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX),
        block: report.block(),
        mechanism: report.mechanism.clone(),
    }
}
