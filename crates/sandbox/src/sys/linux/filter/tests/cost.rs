//! What the filter costs: its loading, and a system call under it.

use std::time::{Duration, Instant};

use super::{confine, host, in_child};
use crate::backend::linux::seccomp::program;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// What a child timed itself, in whole units, of which its exit status carries at most 250.
fn measured(unit: Duration, filtered: bool, act: impl Fn() -> Duration) -> Duration {
    let ended = in_child(filtered, || -((act().as_nanos() / unit.as_nanos()).min(250) as libc::c_long));
    match ended {
        super::Ended::Failed(units) => unit * units as u32,
        super::Ended::Returned => Duration::ZERO,
        super::Ended::Killed(signal) => panic!("killed by {signal}"),
    }
}

/// A list of 330 comparisons took 336 µs where ranges took 53 on one machine; the bound is wide because
/// others are slower and busy.
#[test]
fn loading_is_short() {
    let program = program(host());
    let times = (0..101)
        .map(|_| {
            measured(Duration::from_micros(4), false, || {
                let start = Instant::now();
                confine(program).expect("loads");
                start.elapsed()
            })
        })
        .collect();
    let median = median(times);
    eprintln!("no_new_privs and load: median {median:?}");
    assert!(median < Duration::from_millis(1), "loading takes {median:?}");
}

/// What is always allowed is remembered by the kernel, which then skips the program.
#[test]
fn an_allowed_call_costs_little() {
    const ROUNDS: u32 = 20_000;
    let round = |call: libc::c_long| {
        move || {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                // SAFETY: getppid takes no pointer; openat gets a static empty path, which it refuses.
                unsafe { libc::syscall(call, -1, c"".as_ptr(), 0, 0) };
            }
            start.elapsed()
        }
    };
    for (name, call) in [("getppid", libc::SYS_getppid), ("openat", libc::SYS_openat)] {
        let [without, with] = [false, true].map(|filtered| {
            median((0..21).map(|_| measured(Duration::from_micros(250), filtered, round(call))).collect())
        });
        let ratio = with.as_secs_f64() / without.as_secs_f64().max(f64::EPSILON);
        eprintln!("{name}: {:?} without, {:?} under the filter, {ratio:.2}", without / ROUNDS, with / ROUNDS);
        assert!(with < without * 3 + Duration::from_millis(2), "{name}: {without:?} against {with:?}");
    }
}
