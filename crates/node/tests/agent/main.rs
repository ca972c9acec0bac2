//! The agent of the built binary against a pretend edge on loopback, with real jobs: each test once as root and once
//! as an ordinary user, as in the suite of Linux, whose place for a test it uses.
// The allowance for tests in clippy.toml does not reach the functions of an integration test.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod agent;
#[cfg(target_os = "linux")]
mod edge;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod enrolment;
#[cfg(target_os = "linux")]
mod jobs;
#[cfg(target_os = "linux")]
mod leases;
#[cfg(target_os = "linux")]
#[allow(dead_code, unused_imports, reason = "the other suite uses all of it")]
#[path = "../linux"]
mod linux {
    pub mod support;
}
#[cfg(target_os = "linux")]
mod logs;
#[cfg(target_os = "linux")]
mod plain;

#[cfg(target_os = "linux")]
use linux::support;

#[cfg(target_os = "linux")]
const ALL: [(&str, &[support::Test], &[support::Test]); 6] = [
    ("enrolment", enrolment::TESTS, enrolment::AS_ROOT),
    ("jobs", jobs::TESTS, jobs::AS_ROOT),
    ("leases", leases::TESTS, leases::AS_ROOT),
    ("ends", ends::TESTS, ends::AS_ROOT),
    ("logs", logs::TESTS, logs::AS_ROOT),
    ("plain", plain::TESTS, plain::AS_ROOT),
];

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use libtest_mimic::Trial;
    use support::user::User;

    let arguments = libtest_mimic::Arguments::from_args();
    let mut trials = Vec::new();
    for (module, tests, as_root) in ALL {
        for &user in User::all() {
            let roots: &[support::Test] = if user == User::Root { as_root } else { &[] };
            for &(name, test) in tests.iter().chain(roots) {
                trials.push(Trial::test(format!("{}::{module}::{name}", user.word()), move || {
                    test(&support::Place::of(user));
                    Ok(())
                }));
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    support::session::end();
    conclusion.exit_code()
}

/// The pretend edge and its jobs are Linux's; a list without tests is asked for all the same.
#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), Vec::new()).exit_code()
}
