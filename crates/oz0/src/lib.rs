//! The control plane: takes work in ([`edge`]), routes it ([`route`]) to nodes by the tier that their self-test earned,
//! and keeps what came of it ([`store`]). It shares `oz0-fleet` with the node and knows nothing of how anything is
//! confined.
#![forbid(unsafe_code)]

pub mod chance;
pub mod cli;
pub mod edge;
pub mod management;
mod metrics;
pub mod name;
pub mod route;
pub mod serve;
pub mod store;
pub mod template;
