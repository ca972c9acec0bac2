//! The Linux backend: namespaces, Landlock, seccomp, cgroups.

pub mod begin;
pub mod cgroup;
pub mod etc;
mod guard;
mod init;
pub mod landlock;
pub mod launch;
mod orders;
pub mod plan;
pub mod probe;
pub mod seccomp;
mod stage;
mod supervise;
pub mod survey;
pub mod verify;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use self::begin::Begun;
use self::launch::LaunchError;
use self::plan::{NetworkPlan, Plan};
use self::survey::Survey;
use crate::backend::{Backend, Ended, OnNetwork, Probed, Refusal, Running, Unattainable};
use crate::environ::{Environment, UnixDefaults};
use crate::limits::{Limits, Usage};
use crate::policy::Policy;
use crate::protected::Protected;

/// The Linux backend.
#[derive(Clone, Copy, Debug)]
pub struct Linux;

impl Backend for Linux {
    type Survey = Survey;
    type Plan = Plan;
    type Begun = Begun;
    type Running = launch::Running;

    fn probe(&self) -> Probed {
        let probe = probe::probe();
        Probed { facts: probe.facts, lacking: probe.lacking.iter().map(probe::Lacking::refusal).collect() }
    }

    fn machine_memory(&self) -> u64 {
        let system = rustix::system::sysinfo();
        u64::from(system.mem_unit).saturating_mul(system.totalram as u64)
    }

    fn begin(&self, policy: &Policy) -> Begun {
        Begun::of(policy)
    }

    fn survey(&self, policy: &Policy) -> Result<Survey, Refusal> {
        let survey = Survey::take(policy).map_err(|error| Refusal {
            code: "survey",
            reason: format!("reading /proc of this process: {error}"),
            fix: Some("run it where /proc is mounted".into()),
        })?;
        plan::check(policy, &survey).map_err(|error| plan_refusal(&error))?;
        Ok(survey)
    }

    fn plan(&self, policy: &Policy, survey: &Survey, protected: &Protected) -> Result<Plan, Refusal> {
        plan::plan(policy, survey, protected).map_err(|error| plan_refusal(&error))
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        vec![
            Unattainable {
                words: "a cgroup with room for the sandbox's first process alone",
                limits: Limits { processes: 1, ..*limits },
            },
            Unattainable {
                words: "a cgroup that the kernel does not take (more processes than it can number)",
                limits: Limits { processes: u32::MAX, ..*limits },
            },
        ]
    }

    fn environment(
        &self,
        policy: &Policy,
        plan: &Plan,
        url: impl FnOnce(SocketAddr) -> String,
    ) -> Environment {
        let mut environment = policy.environment.clone();
        let terminal = policy.caller.terminal.as_ref().filter(|_| plan.terminal);
        environment.set_unix_defaults(&UnixDefaults {
            user: &plan.identity.user,
            home: &plan.home,
            temp: &plan.temp,
            work: &plan.start,
            terminal: terminal.map(|terminal| terminal.as_ref()),
        });
        if let NetworkPlan::Proxy { port } = plan.network {
            environment.set_proxy(&url(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        environment
    }

    fn launch(
        &self,
        begun: Begun,
        plan: &Plan,
        environment: &Environment,
        meanwhile: impl FnOnce(),
    ) -> Result<launch::Running, Refusal> {
        launch::launch(begun, plan, environment, meanwhile).map_err(|error| refusal(&error))
    }
}

fn plan_refusal(error: &plan::PlanError) -> Refusal {
    Refusal { code: error.code(), reason: error.to_string(), fix: None }
}

/// The refusal that a failed launch stands for; the probe gives the same one for the same machine.
fn refusal(error: &LaunchError) -> Refusal {
    let code = match error {
        LaunchError::Lacking(lacking) => return lacking.refusal(),
        LaunchError::Descriptor { .. } => "descriptor",
        LaunchError::Node { .. } => "node",
        LaunchError::Inside { .. } => "inside",
        LaunchError::InitGone => "init",
        LaunchError::Mismatch(_) => "mismatch",
    };
    Refusal { code, reason: error.to_string(), fix: None }
}

impl Running for launch::Running {
    fn mechanism(&self) -> Option<serde_json::Value> {
        self.mechanism.as_ref().and_then(|mechanism| serde_json::to_value(mechanism).ok())
    }

    fn sweep(&self) {
        if let Some((place, _)) = &self.group {
            place.sweep(64);
        }
    }

    fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn wait(&mut self, timeout: Option<Duration>, on_network: OnNetwork<'_>) -> std::io::Result<Ended> {
        supervise::supervise(self, timeout, on_network)
    }

    fn finish(mut self) -> Result<Option<(Usage, Limits)>, Refusal> {
        self.first.kill();
        // It holds the tree too, and nobody is left to keep anything from.
        self.guard = None;
        let Some((_, group)) = self.group.take() else { return Ok(None) };
        // While the kernel takes the rest of the container down.
        let (usage, limits) = (group.usage(), *group.limits());
        self.first.wait_gone();
        group.remove().map_err(|error| Refusal { code: "cgroup", reason: error.to_string(), fix: None })?;
        Ok(Some((usage, limits)))
    }
}
