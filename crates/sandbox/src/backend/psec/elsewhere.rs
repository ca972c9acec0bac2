//! What the command line asks of PSEC beyond a run, where there is none.

use std::path::Path;

use super::route::Route;
use crate::backend::Refusal;

/// There is no container to ask.
pub fn ask(_: &Path) -> Result<Route, Refusal> {
    let reason = "there is no PSEC here, hence no route".to_owned();
    Err(Refusal { code: "route", reason, fix: None })
}

/// There is no profile of relays here.
pub fn remove_profile(_: &Path) -> Result<(), String> {
    Err("there is no PSEC here, hence no relay and no profile".to_owned())
}

/// No relay, no advice.
pub fn advice(_: &Path) -> Vec<String> {
    Vec::new()
}
