//! The backend's trait on Windows: each part hands on to the file that does it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use oz0_fleet::Tier;

use super::launch::{self, LaunchError};
use super::plan::{self, Plan, PlanError};
use super::route::Route;
use super::running::Running;
use super::survey::Survey;
use super::{probe, question, take};
use crate::backend::{Backend, Particulars, Probed, Refusal, Unattainable};
use crate::environ::Environment;
use crate::limits::Limits;
use crate::policy::{Network, Policy};
use crate::protected::Protected;
use crate::sys::windows::acl::{self, Access};
use crate::sys::windows::firewall::{self, Firewall};
use crate::sys::windows::machine;
use crate::sys::windows::sid::Sid;

/// The backend of Windows.
#[derive(Clone, Copy, Debug)]
pub struct Psec {
    /// The way to the proxy, where the node has handed it down; none where each survey has to ask.
    route: Option<Route>,
}

impl Psec {
    /// With the route that is already known.
    pub fn new(route: Option<Route>) -> Psec {
        Psec { route }
    }
}

/// Ask how a container reaches its proxy here. `binary` is the node's own program.
pub fn ask(binary: &Path) -> Result<Route, Refusal> {
    question::put(binary, &probe::verdict())
}

impl Backend for Psec {
    type Survey = Survey;
    type Plan = Plan;
    type Begun = ();
    type Running = Running;

    fn probe(&self) -> Probed {
        // A node is asked for tier 1 by `--sandbox psec` alone.
        probe::verdict().probed(Tier::Zero)
    }

    fn machine_memory(&self) -> u64 {
        machine::memory().unwrap_or(u64::MAX)
    }

    fn begin(&self, _: &Policy) {}

    fn survey(&self, policy: &Policy) -> Result<Survey, Refusal> {
        let verdict = probe::verdict();
        let route = || self.route.map_or_else(|| question::put(&policy.node_binary, &verdict), Ok);
        take::take(policy, &verdict, route)
    }

    fn plan(&self, policy: &Policy, survey: &Survey, protected: &Protected) -> Result<Plan, Refusal> {
        plan::plan(policy, survey, protected).map_err(|error: PlanError| Refusal {
            code: error.code(),
            reason: error.to_string(),
            fix: None,
        })
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        vec![
            Unattainable {
                words: "a job object without room for a process",
                limits: Limits { processes: 0, ..*limits },
            },
            Unattainable {
                words: "a job object without room for memory",
                limits: Limits { memory: 0, ..*limits },
            },
        ]
    }

    fn particulars(&self) -> Particulars {
        Particulars {
            way: self.route.map(|route| match route {
                Route::Bridge => "by the bridge inside the container",
                Route::Relay => "by the relay, since this build closes a container's own loopback",
            }),
            own_loopback_closed: self.route == Some(Route::Relay),
            // With the relay's capability PSEC itself does not stop another machine.
            outside: (self.route != Some(Route::Bridge)).then_some(firewall_blocks),
            data_directory_by_its_list: true,
            about_data_directory: Some(about_data_directory),
        }
    }

    fn environment(
        &self,
        policy: &Policy,
        plan: &Plan,
        url: impl FnOnce(SocketAddr) -> String,
    ) -> Environment {
        // Which port it is, the bridge inside or the relay outside finds.
        let proxied = matches!(policy.network, Network::Proxy { .. });
        let url = proxied.then(|| url(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
        super::environment(policy, &plan.defaults, url)
    }

    fn launch(
        &self,
        (): (),
        plan: &Plan,
        environment: &Environment,
        meanwhile: impl FnOnce(),
    ) -> Result<Running, Refusal> {
        launch::launch(plan, environment, meanwhile).map_err(|error| refusal(&error))
    }
}

/// The refusal that a failed launch stands for; the probe gives the same one for the same machine.
pub fn refusal(error: &LaunchError) -> Refusal {
    let code = match error {
        LaunchError::Lacking(lacking) => return lacking.refusal(),
        LaunchError::Handle(_) => "descriptor",
        LaunchError::Load(_) | LaunchError::Create(_) => "psec-failed",
        LaunchError::Job(_) | LaunchError::Assign(_) => "job",
        LaunchError::Folder(_) | LaunchError::Socket { .. } | LaunchError::Call { .. } => "node",
        LaunchError::Relay(_) => "relay",
        LaunchError::Block(_) => "environment",
        LaunchError::CommandLine(_) => "command_line",
        LaunchError::Start(_) | LaunchError::Resume(_) => "start",
        LaunchError::Mismatch(_) => "mismatch",
    };
    Refusal { code, reason: error.to_string(), fix: None }
}

/// On the relay route the firewall's default is what keeps other machines from a listener inside. A rule that lets a
/// program in is not seen by this.
fn firewall_blocks() -> Result<String, String> {
    let profiles = match firewall::read() {
        Firewall::Known(profiles) => profiles,
        Firewall::CannotTell(error) => {
            return Err(format!("Windows Firewall does not say what it blocks ({error})"));
        }
    };
    let open: Vec<&str> =
        profiles.iter().filter(|profile| !profile.holds()).map(|profile| profile.name).collect();
    if open.is_empty() {
        Ok("Windows Firewall is on and blocks inbound by default (domain, private, public)".to_owned())
    } else {
        Err(format!(
            "Windows Firewall is off or does not block inbound by default ({}): on the relay route nothing else keeps \
             other machines from a listener in the container",
            open.join(", ")
        ))
    }
}

/// Who else is on a data directory's access list, for a person: whether a container reads it was tried.
fn about_data_directory(folder: &Path) -> Option<String> {
    let list = match acl::read(folder) {
        Ok(list) => list,
        Err(error) => return Some(format!("its access list could not be read ({error})")),
    };
    let lets_in = |sid: &Sid| list.allows(sid, Access::ReadExecute.mask());
    if lets_in(&Sid::all_application_packages()) {
        Some("its access list lets in ALL APPLICATION PACKAGES".to_owned())
    } else if lets_in(&Sid::everyone()) {
        Some("its access list has an entry for Everyone, which lets no container in".to_owned())
    } else {
        None
    }
}
