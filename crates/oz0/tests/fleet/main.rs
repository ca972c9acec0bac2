//! The built program and its library against real databases: SQLite in a folder, and a PostgreSQL that each test starts
//! for itself. Nodes are pretended: real keys, real signed HTTP over loopback, and nothing run.
#![allow(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod edge;
mod faults;
mod leases;
mod nodes;
mod serving;
mod several;
mod sources;
mod support;
