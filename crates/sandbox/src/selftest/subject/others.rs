//! Looking into other processes: what a process that can, reads the node's variables and memory by.

use super::processes;
use crate::selftest::act::{Answer, Attempt, Refused, Seen, Spied};
use crate::sys::attempt;

pub(super) fn spy(whom: Spied) -> Answer {
    match whom {
        Spied::Others => match attempt::others() {
            Ok(pids) => Answer::Done(Seen::Spied(pids.into_iter().flat_map(attempts).collect())),
            Err(error) => Answer::untried("listing processes", error),
        },
        Spied::OwnChild => match processes::holding(0) {
            Ok(mut child) => {
                let ready = processes::holds(&mut child);
                let pid = i32::try_from(child.id()).unwrap_or(0);
                let seen = attempts(pid);
                processes::release(vec![child]);
                if ready {
                    Answer::Done(Seen::Spied(seen))
                } else {
                    Answer::untried("starting a process", "it ended at once")
                }
            }
            Err(error) => Answer::untried("starting a process", error),
        },
    }
}

/// Everything on one process.
fn attempts(process: i32) -> Vec<Attempt> {
    let looks = attempt::look_into(process).into_iter();
    let seen = looks.map(|(what, result)| {
        let refused = result.err().map(|error| Refused::from_error(&error));
        Attempt { process, what: what.to_owned(), refused }
    });
    seen.collect()
}
