//! Ways to make a sandbox, and the choice of this system's. What is above knows only these traits.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use oz0_egress::Listener;
use oz0_fleet::Facts;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::environ::Environment;
use crate::limits::{Limits, Usage};
use crate::policy::Policy;
use crate::protected::Protected;
use crate::report::{Cause, Ending};

#[cfg(target_os = "linux")]
pub mod linux;
pub mod none;
pub mod psec;

/// One way to make a sandbox.
pub trait Backend {
    /// What this machine looks like, as far as a plan depends on it.
    type Survey;
    /// Everything that will be done, as data.
    type Plan: Serialize + DeserializeOwned + std::fmt::Display;
    /// What has been begun for a run that has no plan yet. Dropping it leaves nothing behind.
    type Begun;
    /// What has been started.
    type Running: Running;

    /// What this machine has of what the backend needs. Each part is tried, and nothing is changed.
    fn probe(&self) -> Probed;

    /// The machine's memory in bytes, by which defaults are fitted.
    fn machine_memory(&self) -> u64;

    /// Begin what any plan of this policy will need, so that it goes on while the rest is worked out. Called while
    /// the program has one thread. A failure shows at the launch, after whatever is wrong with the policy.
    fn begin(&self, policy: &Policy) -> Self::Begun;

    /// What this machine looks like for a policy; refused when the policy names what cannot be granted.
    fn survey(&self, policy: &Policy) -> Result<Self::Survey, Refusal>;

    /// All that will be done.
    fn plan(
        &self,
        policy: &Policy,
        survey: &Self::Survey,
        protected: &Protected,
    ) -> Result<Self::Plan, Refusal>;

    /// Limits like these that no process can be put under, each in another way.
    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable>;

    /// What the self-test's checks have to know of this backend.
    fn particulars(&self) -> Particulars {
        Particulars::default()
    }

    /// The command's variables: what the policy passes and what this system's programs need; the proxy's when
    /// the plan has one, with `url` for its address.
    fn environment(
        &self,
        policy: &Policy,
        plan: &Self::Plan,
        url: impl FnOnce(std::net::SocketAddr) -> String,
    ) -> Environment;

    /// Do it, in what was begun; where the plan asks for something else, that is made instead. `meanwhile` runs on the
    /// node's side while the container is being made, before the command starts.
    fn launch(
        &self,
        begun: Self::Begun,
        plan: &Self::Plan,
        environment: &Environment,
        meanwhile: impl FnOnce(),
    ) -> Result<Self::Running, Refusal>;
}

/// A run that has been started; dropping it ends every process of it.
pub trait Running {
    /// What really confines the command, as read from the running process.
    fn mechanism(&self) -> Option<serde_json::Value>;

    /// Clear away what dead runs left, a bounded amount. Called after the command has started.
    fn sweep(&self);

    /// Give it that long to end after a first signal, where the default is not meant.
    fn set_patience(&mut self, _: Duration) {}

    /// Stand by until every process that could still do something for the run has ended. `on_network` is called once,
    /// when a program of the run first asks for a connection or a name: with where they are asked for.
    fn wait(&mut self, timeout: Option<Duration>, on_network: OnNetwork<'_>) -> std::io::Result<Ended>;

    /// What was used, against the limits as they were held. Ends everything and removes what was made.
    fn finish(self) -> Result<Option<(Usage, Limits)>, Refusal>;
}

/// What [`Running::wait`] calls when the network is first asked for.
pub type OnNetwork<'a> = &'a mut dyn FnMut(Listener, Option<UdpSocket>);

/// How it ended, and why when the sandbox ended it.
pub type Ended = (Ending, Option<Cause>);

/// What a probe found.
#[derive(Clone, Debug, Serialize)]
pub struct Probed {
    /// What the node reports.
    pub facts: Facts,
    /// What is missing, each as a run would refuse: with the step that failed and what the system answered,
    /// which stay on the node.
    pub lacking: Vec<Refusal>,
}

/// What a check has to know of a backend to look at all of a property; the default is a backend that has nothing of
/// the kind.
#[derive(Clone, Copy, Default)]
pub struct Particulars {
    /// egress: by which way the proxy is reached, where there are several.
    pub way: Option<&'static str>,
    /// ingress: a process inside does not reach what it serves itself.
    pub own_loopback_closed: bool,
    /// ingress: what outside the container has to hold besides: what was found, or why it does not.
    pub outside: Option<fn() -> Result<String, String>>,
    /// files: ordinary runs have an entry against the data directory on top of its own access list, and the list has
    /// to keep them out by itself.
    pub data_directory_by_its_list: bool,
    /// files: what of a data directory's access list is worth saying, although it decides nothing.
    pub about_data_directory: Option<fn(&Path) -> Option<String>>,
}

/// Limits that no process can be put under on this machine: what the check of fail_closed asks for.
#[derive(Clone, Copy, Debug)]
pub struct Unattainable {
    /// What is in the way.
    pub words: &'static str,
    /// The limits.
    pub limits: Limits,
}

/// Less protection than asked: why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// A stable word for programs.
    pub code: &'static str,
    /// What was tried and what the system answered.
    pub reason: String,
    /// What to do.
    pub fix: Option<String>,
}

/// Where a program that the run does not see lies on the node, for the message.
pub fn find_outside(program: &Path, search: Option<&str>) -> Option<std::path::PathBuf> {
    if program.components().count() != 1 {
        return program.exists().then(|| program.to_path_buf());
    }
    std::env::split_paths(search?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// This system's backend. The route is what is already known of PSEC's; elsewhere there is none to know.
#[cfg(target_os = "linux")]
pub fn host(_: Option<psec::route::Route>) -> impl Backend {
    linux::Linux
}

/// This system's backend. The route is what is already known of PSEC's; elsewhere there is none to know.
#[cfg(windows)]
pub fn host(route: Option<psec::route::Route>) -> impl Backend {
    psec::Psec::new(route)
}

/// This system's backend. The route is what is already known of PSEC's; elsewhere there is none to know.
#[cfg(not(any(target_os = "linux", windows)))]
pub fn host(_: Option<psec::route::Route>) -> impl Backend {
    none::NoTierOne
}
