//! What a node and its control plane say to each other, and in which words.
//!
//! A node finds [`Facts`] about itself and sends them; the control plane reads them through [`Reported`], which
//! keeps only what matches, and both word them by the same functions: [`check`] (the three lines of a check),
//! [`Fix`] (what to do) and [`platform`] (what is routed where). [`protocol`] is how they talk. Nothing here touches a system, opens a
//! connection or knows how a sandbox is made.
#![forbid(unsafe_code)]

mod word;

pub mod check;
mod facts;
mod fix;
pub mod platform;
mod property;
pub mod protocol;
mod tier;

pub use facts::{
    Build, Cgroup, Contract, Edition, Facts, Features, Kernel, Landlock, Linux, Mechanism, Namespaces, Psec,
    Reported, Seccomp, System, User, Windows,
};
pub use fix::Fix;
pub use platform::Platform;
pub use property::Property;
pub use tier::Tier;
pub use word::Unknown;
