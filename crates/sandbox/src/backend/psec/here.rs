//! What the command line asks of PSEC beyond a run, on Windows.

use std::path::Path;

pub use super::host::ask;
use super::{firewall, profile};

/// Takes away the profile of relays and what it was let into.
pub fn remove_profile(binary: &Path) -> Result<(), String> {
    profile::remove(binary).map_err(|error| error.to_string())
}

/// What to tell an administrator when a container gets no answer from its relay, a line each.
pub fn advice(binary: &Path) -> Vec<String> {
    // Without the profile's identifier there is no command, and the rest is said all the same.
    let package = profile::sid().map(|sid| sid.to_string()).unwrap_or_default();
    firewall::advice(&binary.to_string_lossy(), &package)
}
