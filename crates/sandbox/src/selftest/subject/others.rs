//! Looking into other processes: what a process that can, reads the node's variables and memory by.

use std::fs;
use std::io;

use super::processes;
use crate::selftest::act::{Answer, Attempt, Refused, Seen, Spied};
use crate::sys::attempt;

/// What of another process is opened. Each of them is enough to read what it knows, or to act through it.
const FILES: [&str; 4] = ["environ", "mem", "maps", "auxv"];

pub(super) fn spy(whom: Spied) -> Answer {
    match whom {
        Spied::Others => match others() {
            Ok(pids) => Answer::Done(Seen::Spied(pids.into_iter().flat_map(attempts).collect())),
            Err(error) => Answer::untried("listing /proc", error),
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

fn others() -> io::Result<Vec<i32>> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid: Option<i32> = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        pids.extend(pid.filter(|pid| *pid != own));
    }
    Ok(pids)
}

/// Everything on one process. One that has ended meanwhile is not a refusal, and not a success.
fn attempts(process: i32) -> Vec<Attempt> {
    let folder = format!("/proc/{process}");
    let mut seen = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        let refused = match result {
            Ok(()) => None,
            Err(error) => Some(Refused::from_error(&error)),
        };
        seen.push(Attempt { process, what: what.to_owned(), refused });
    };
    for file in FILES {
        // Some of them open and then give nothing; mem alone is not read, since where is not known.
        let path = format!("{folder}/{file}");
        let read = if file == "mem" { fs::File::open(path).map(drop) } else { fs::read(path).and_then(some) };
        note(file, read);
    }
    note("fd", fs::read_dir(format!("{folder}/fd")).and_then(one_leads_on));
    note("root", fs::read_dir(format!("{folder}/root")).map(drop));
    note("ptrace", attempt::seize(process));
    seen
}

/// An empty answer is what the system gives for what it does not show.
fn some(bytes: Vec<u8>) -> io::Result<()> {
    if bytes.is_empty() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

/// The numbers of its descriptors root may list; what counts is whether one of them leads anywhere.
fn one_leads_on(descriptors: fs::ReadDir) -> io::Result<()> {
    let mut last = io::ErrorKind::PermissionDenied.into();
    for descriptor in descriptors {
        match descriptor.and_then(|descriptor| fs::read_link(descriptor.path())) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}
