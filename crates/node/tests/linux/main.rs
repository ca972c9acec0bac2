//! The built binary on Linux, from outside: each test once as root and once as an ordinary user, for what the two
//! can do to a host differs.
//!
//! Started as root, the ordinary user is `nobody`, with a cgroup that is delegated for the time of the tests.
//! Started as an ordinary user, only that user's half runs, and a test says so by its name. Names start with the
//! user: `root::files::…`, `nobody::files::…`.
// The allowance for tests in clippy.toml does not reach the functions of an integration test.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod bad_input;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod links;
#[cfg(target_os = "linux")]
mod litter;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod protected;
#[cfg(target_os = "linux")]
mod stdio;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(target_os = "linux")]
mod terminal;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
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

/// The list is made when the tests start, on other systems too; there it is empty.
#[cfg(not(target_os = "linux"))]
fn main() {}
