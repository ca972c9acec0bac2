//! Windows calls that no library gives safely: one call a block, owned results.
//!
//! What systems older than Windows 11 lack is resolved at run time ([`library`]), so that the program starts on any
//! Windows 10, 11 or Server and says what is missing. Values of Windows' own headers come from the crate `windows`,
//! which is made of Microsoft's metadata; those that it lacks name their source.
#![allow(dead_code, reason = "the PSEC backend takes it up part by part")]

pub mod acl;
pub mod attempt;
pub mod attributes;
pub mod console;
pub mod error;
pub mod files;
pub mod firewall;
pub mod handle;
pub mod job;
pub mod known;
#[cfg(test)]
mod lab;
pub mod library;
pub mod machine;
pub mod port;
pub mod private;
pub mod process;
pub mod processmodel;
pub mod profile;
pub mod sid;
pub mod stamps;
pub mod token;
pub mod unix_socket;
pub mod version;
pub mod wide;
