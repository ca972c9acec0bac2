//! The Windows backend: PSEC, Windows' process security environment.
//!
//! What is here is pure: the contract as data, and decisions from what Windows answered. It compiles and is tested
//! on every system; what asks Windows lies in `sys`.

pub mod block;
pub mod cmdline;
pub mod contract;
pub mod firewall;
pub mod job;
pub mod links;
pub mod paths;
pub mod plan;
pub mod route;
pub mod spec;
pub mod survey;
pub mod ui;
pub mod verdict;

use self::block::WindowsDefaults;
use crate::environ::Environment;
use crate::policy::Policy;

/// The command's variables: what the caller passes, what Windows programs need, and the proxy's.
pub(crate) fn environment(policy: &Policy, defaults: &WindowsDefaults, url: Option<String>) -> Environment {
    let mut environment = policy.environment.clone();
    block::set_defaults(&mut environment, defaults);
    if let Some(url) = url {
        environment.set_proxy_once(&url);
    }
    environment
}
