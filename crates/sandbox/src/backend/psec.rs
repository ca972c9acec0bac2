//! The Windows backend: PSEC, Windows' process security environment.
//!
//! What is here is pure: the contract as data, and decisions from what Windows answered. It compiles and is tested
//! on every system; what asks Windows lies in `sys`.

pub mod block;
pub mod cmdline;
pub mod contract;
pub mod firewall;
pub mod job;
pub mod paths;
pub mod route;
pub mod spec;
pub mod ui;
pub mod verdict;
