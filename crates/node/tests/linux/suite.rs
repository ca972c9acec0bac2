//! The tests by module, and how they are run: which user, in which order.

mod bad_input;
mod descriptors;
mod ending;
mod environment;
mod files;
mod limits;
mod links;
mod litter;
mod network;
mod processes;
mod programs;
mod protected;
mod stdio;
pub mod support;
mod system_calls;
mod terminal;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use support::user::User;

/// A module's tests: for every user, and for root alone.
type Tests = (&'static str, &'static [support::Test], &'static [support::Test]);

const ALL: [Tests; 15] = [
    ("bad_input", bad_input::TESTS, bad_input::AS_ROOT),
    ("descriptors", descriptors::TESTS, descriptors::AS_ROOT),
    ("ending", ending::TESTS, ending::AS_ROOT),
    ("environment", environment::TESTS, environment::AS_ROOT),
    ("files", files::TESTS, files::AS_ROOT),
    ("limits", limits::TESTS, limits::AS_ROOT),
    ("links", links::TESTS, links::AS_ROOT),
    ("litter", litter::TESTS, litter::AS_ROOT),
    ("network", network::TESTS, network::AS_ROOT),
    ("processes", processes::TESTS, processes::AS_ROOT),
    ("programs", programs::TESTS, programs::AS_ROOT),
    ("protected", protected::TESTS, protected::AS_ROOT),
    ("stdio", stdio::TESTS, stdio::AS_ROOT),
    ("system_calls", system_calls::TESTS, system_calls::AS_ROOT),
    ("terminal", terminal::TESTS, terminal::AS_ROOT),
];

pub fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let mut add = |user: User, module: &str, tests: &[support::Test]| {
        for &(name, test) in tests {
            trials.push(Trial::test(format!("{}::{module}::{name}", user.word()), move || {
                test(&support::Place::of(user));
                Ok(())
            }));
        }
    };
    for (module, tests, as_root) in ALL {
        for &user in User::all() {
            add(user, module, tests);
            if user == User::Root {
                add(user, module, as_root);
            }
        }
    }
    if User::all() == [User::Caller] {
        let name = "only_this_users_half_runs_because_the_suite_was_not_started_as_root";
        trials.push(Trial::test(name, || {
            assert_ne!(rustix::process::getuid().as_raw(), 0);
            Ok(())
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    support::session::end();
    conclusion.exit_code()
}
