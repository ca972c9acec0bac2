//! Where there is no tier 1: the probe says so and why, and a run is refused with the same words. A plan cannot
//! be made here, by its type, so nothing can be launched.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use oz0_fleet::{Edition, Facts, Fix, Psec, System, Tier, Windows, check};
use serde::{Deserialize, Serialize};

use super::{Backend, Ended, OnNetwork, Probed, Refusal, Running, Unattainable};
use crate::environ::Environment;
use crate::limits::{Limits, Usage};
use crate::policy::Policy;
use crate::protected::Protected;

/// The backend of a system that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoTierOne;

/// There is no such plan.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum NoPlan {}

impl fmt::Display for NoPlan {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// What is known of this machine without a probe: which system it is.
fn system() -> System {
    match std::env::consts::OS {
        "windows" => System::Windows(Windows {
            build: None,
            edition: Edition::Unknown,
            psec: Psec::NotProbed,
            contract: None,
            features: None,
        }),
        "macos" => System::Macos,
        _ => System::Other,
    }
}

fn facts(system: System) -> Facts {
    Facts::probed(Tier::Zero, system)
}

/// A run's refusal: the first and the last line of the probe's answer.
fn refusal(system: System) -> Refusal {
    let facts = facts(system);
    let fix = Fix::of(&facts);
    Refusal {
        code: fix.map_or("no-tier-1-here", Fix::code),
        reason: check::sandbox(&facts),
        fix: fix.map(Fix::sentence),
    }
}

impl Backend for NoTierOne {
    type Survey = Infallible;
    type Plan = NoPlan;
    type Begun = ();
    type Running = Infallible;

    fn probe(&self) -> Probed {
        Probed { facts: facts(system()), lacking: Vec::new() }
    }

    /// Limits are fitted to nothing: no run is held by them.
    fn machine_memory(&self) -> u64 {
        u64::MAX
    }

    fn begin(&self, _: &Policy) {}

    fn survey(&self, _: &Policy) -> Result<Infallible, Refusal> {
        Err(refusal(system()))
    }

    fn plan(&self, _: &Policy, survey: &Infallible, _: &Protected) -> Result<NoPlan, Refusal> {
        match *survey {}
    }

    fn unattainable(&self, _: &Limits) -> Vec<Unattainable> {
        Vec::new()
    }

    fn environment(&self, _: &Policy, plan: &NoPlan, _: impl FnOnce(SocketAddr) -> String) -> Environment {
        match *plan {}
    }

    fn launch(
        &self,
        (): (),
        plan: &NoPlan,
        _: &Environment,
        _: impl FnOnce(),
    ) -> Result<Infallible, Refusal> {
        match *plan {}
    }
}

impl Running for Infallible {
    fn mechanism(&self) -> Option<serde_json::Value> {
        match *self {}
    }

    fn sweep(&self) {
        match *self {}
    }

    fn wait(&mut self, _: Option<Duration>, _: OnNetwork<'_>) -> std::io::Result<Ended> {
        match *self {}
    }

    fn finish(self) -> Result<Option<(Usage, Limits)>, Refusal> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_refused_in_the_words_of_the_probe() {
        let windows = match facts(system()).system {
            System::Windows(windows) => windows,
            _ => Windows {
                build: None,
                edition: Edition::Client,
                psec: Psec::Absent,
                contract: None,
                features: None,
            },
        };
        for system in [System::Macos, System::Other, System::Windows(windows)] {
            let [sandbox, _, fix] = check::lines(&facts(system));
            let refusal = refusal(system);
            assert!(sandbox.starts_with("Sandbox: tier 0: "), "{sandbox}");
            assert_eq!(refusal.reason, sandbox);
            assert_eq!(format!("Fix: {}", refusal.fix.unwrap()), fix);
        }
    }

    #[test]
    fn no_plan_is_read_from_anything() {
        for text in ["null", "{}", "[]", "\"NoPlan\"", "0"] {
            assert!(serde_json::from_str::<NoPlan>(text).is_err(), "{text}");
        }
    }
}
