//! The built node under Wine, against stand-ins for what Wine lacks of Windows (`testing/standins`). That a stand-in
//! confines nothing is the point of some tests: a check that it cannot keep has to fail. What is shown here is what the
//! node asks of Windows, in which order, and what it does with every answer; whether Windows then confines is for a
//! real machine to show.
//!
//! Tests in `server` run in a prefix that says Windows Server; `./test` starts them so.
#![cfg(windows)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is the report of a test")]

mod ending;
mod imports;
mod launch;
mod network;
mod probe;
mod refused;
mod selftest;
mod server;
mod support;
