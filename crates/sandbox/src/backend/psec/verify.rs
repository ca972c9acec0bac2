//! What really confines the process, asked of its token while it is suspended. Nothing is inferred from a probe: a
//! process that is not confined as planned never runs.

use std::os::windows::io::BorrowedHandle;

use serde::Serialize;

use super::plan::Plan;
use super::route::Route;
use super::spec::Network;
use crate::sys::windows::error::CallError;
use crate::sys::windows::token::{LOW, Token};

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mechanism {
    /// The contract that the container was made by.
    pub psec: String,
    /// The token's AppContainer, fresh for every container.
    pub app_container: String,
    /// Never with PSEC: the two are alternatives.
    pub less_privileged: bool,
    /// The integrity level.
    pub integrity: &'static str,
    /// The capabilities, by their SIDs.
    pub capabilities: Vec<String>,
    /// It is in the run's job object.
    pub job: bool,
    /// The way to the proxy.
    pub route: Route,
}

/// A process that is not confined as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Its token cannot be read.
    #[error("the process's token cannot be read, so what confines it is not known: {0}")]
    Unreadable(#[from] CallError),
    /// It is not confined as planned.
    #[error("the process is not confined as planned: {0}")]
    Token(&'static str),
    /// It is not in its job object.
    #[error("the process is not confined as planned: it is not in its job object")]
    NoJob,
}

/// internetClient, internetClientServer and privateNetworkClientServer (Microsoft Learn, Well-known SIDs).
const INTERNET: [&str; 2] = ["S-1-15-3-1", "S-1-15-3-2"];
const PRIVATE_NETWORK: &str = "S-1-15-3-3";

/// Ask the token of a suspended process, and compare it with the plan.
pub fn verify(process: BorrowedHandle<'_>, plan: &Plan, network: &Network) -> Result<Mechanism, Mismatch> {
    let token = Token::of(process)?;
    if !token.is_app_container()? {
        return Err(Mismatch::Token("it is in no AppContainer"));
    }
    if token.is_less_privileged()? {
        return Err(Mismatch::Token("it is in a less-privileged AppContainer, which PSEC does not make"));
    }
    let sid = token.app_container_sid()?.ok_or(Mismatch::Token("its AppContainer has no identity"))?;
    if token.integrity()? != LOW {
        return Err(Mismatch::Token("its integrity level is not low"));
    }
    let capabilities: Vec<String> = token.capabilities()?.iter().map(ToString::to_string).collect();
    let has = |sid: &str| capabilities.iter().any(|capability| capability == sid);
    if INTERNET.into_iter().any(has) {
        return Err(Mismatch::Token("it may reach the internet"));
    }
    if has(PRIVATE_NETWORK) && *network == Network::Closed {
        return Err(Mismatch::Token("it may reach private networks"));
    }
    Ok(Mechanism {
        psec: plan.version.to_string(),
        app_container: sid.to_string(),
        less_privileged: false,
        integrity: "low",
        capabilities,
        job: true,
        route: plan.route,
    })
}
