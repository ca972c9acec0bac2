//! The built binary on Linux, from outside: each test once as root and once as an ordinary user, for what the two
//! can do to a host differs.
//!
//! Started as root, the ordinary user is `nobody`, with a cgroup that is delegated for the time of the tests.
//! Started as an ordinary user, only that user's half runs, and a test says so by its name. Names start with the
//! user: `root::files::…`, `nobody::files::…`.
// The allowance for tests in clippy.toml does not reach the functions of an integration test.
#![allow(clippy::unwrap_used)]

// A test that lists its own cases needs a main everywhere.
#[cfg(target_os = "linux")]
#[path = "suite.rs"]
mod suite;
#[cfg(target_os = "linux")]
use suite::support;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    suite::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
