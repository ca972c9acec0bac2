//! The Windows backend: PSEC, Windows' process security environment.
//!
//! Most of it is pure: the contract as data, and decisions from what Windows answered. That compiles and is tested on
//! every system. What asks Windows does so through `sys` and exists there alone.

pub mod block;
pub mod bridge;
pub mod cmdline;
pub mod contract;
pub mod firewall;
#[cfg(not(windows))]
#[path = "psec/elsewhere.rs"]
mod here;
#[cfg(windows)]
mod here;
pub mod job;
pub mod links;
pub mod paths;
pub mod plan;
mod preview;
pub mod program;
pub mod route;
pub mod spec;
pub mod survey;
pub mod ui;
pub mod verdict;

#[cfg(windows)]
mod folder;
#[cfg(windows)]
mod host;
#[cfg(windows)]
pub mod launch;
#[cfg(windows)]
mod probe;
#[cfg(windows)]
pub mod profile;
#[cfg(windows)]
mod question;
#[cfg(windows)]
mod relay;
#[cfg(windows)]
mod running;
#[cfg(windows)]
mod take;
#[cfg(windows)]
mod verify;

pub use here::{advice, ask, remove_profile};
#[cfg(windows)]
pub use host::{Psec, refusal};
pub use preview::{HERE, PREVIEW, not_previewed};

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
