//! A command with the node's own permissions, tier 0: started, limited where this machine lets the node, and ended
//! with everything that it started. Nothing is kept from it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use oz0_sandbox::backend::Refusal;
use oz0_sandbox::policy::Policy;

use super::order::{EndedBy, How, Order, Told};
use super::{os, step};

/// Between asking and ending, when its time is over.
const GRACE: Duration = Duration::from_secs(5);

/// From one look for orphans that have ended to the next: they count among the job's processes.
const LOOK: Duration = Duration::from_secs(2);

/// What happens while a command runs.
enum Event {
    Ended,
    Asked,
}

/// Run it, in this process's charge.
pub fn run(order: &Order) -> Told {
    let failed = |code, what: &str, error: &dyn std::fmt::Display| {
        step::refused(false, Refusal { code, reason: format!("{what}: {error}"), fix: None })
    };
    let (events, happened) = mpsc::channel();
    // Before the agent's end can be a signal: from here on it is one that is heard.
    if let Err(error) =
        hear(events.clone()).and_then(|()| os::be_asked_with(order.agent)).and_then(|()| os::adopt_orphans())
    {
        return failed("node", "preparing to start a command", &error);
    }
    let policy = &order.policy;
    let Some(program) = policy.command.first().and_then(|program| find(policy, program)) else {
        let name = policy.command.first().map(oz0_sandbox::text::escape).unwrap_or_default();
        return told(How::NoCommand, None, Duration::ZERO, format!("oz0-node: {name}: no such command\n"));
    };
    let group = os::Group::make(&policy.limits);
    let mut command = Command::new(&policy.node_binary);
    command.args(["stage", "enter", "--parent", &std::process::id().to_string()]);
    for door in group.doors() {
        command.arg("--join").arg(door);
    }
    command.arg("--").arg(&program).args(&policy.command[1..]);
    command.env_clear().current_dir(&policy.work).stdin(Stdio::inherit());
    command.envs(variables(policy));
    let begun = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed("processes", "starting the command", &error),
    };
    drop(command);
    let id = child.id();
    let waiter = thread::Builder::new().spawn(move || {
        os::wait_until_ended(id);
        let _ = events.send(Event::Ended);
    });
    let by = match waiter {
        Ok(_) => stand_by(&happened, id, order.agent, policy.limits.timeout.map(|timeout| begun + timeout)),
        // Without it nobody would know of the end.
        Err(_) => Some(EndedBy::Sandbox),
    };
    os::kill(id);
    group.end();
    let status = child.wait();
    os::end_children();
    let elapsed = begun.elapsed();
    let killed = group.killed();
    drop(group);
    match status {
        Ok(status) => {
            let how = match (os::signal_of(status), status.code()) {
                (Some(signal), _) => How::Signalled(u8::try_from(signal).unwrap_or(0)),
                (None, code) => How::Exited(code.unwrap_or(1).cast_unsigned()),
            };
            let by = by.or((killed && how != How::Exited(0)).then_some(EndedBy::Limit));
            told(how, by, elapsed, block(by))
        }
        Err(error) => failed("node", "waiting for the command", &error),
    }
}

/// Wait for the end, and see to it when it has to come: who brought it about.
fn stand_by(
    happened: &mpsc::Receiver<Event>,
    id: u32,
    agent: u32,
    mut deadline: Option<Instant>,
) -> Option<EndedBy> {
    let mut by = None;
    loop {
        let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
        match happened.recv_timeout(left.min(LOOK)) {
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => return by,
            // The agent asks a second time when the grace is over. Without an agent no lease is kept either.
            Ok(Event::Asked) if by.is_some() || !os::is_parent(agent) => {
                return Some(by.unwrap_or(EndedBy::Agent));
            }
            Ok(Event::Asked) => {
                by = Some(EndedBy::Agent);
                os::ask_group(id);
                deadline = None;
            }
            Err(RecvTimeoutError::Timeout) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {
                os::reap_orphans(id);
            }
            Err(RecvTimeoutError::Timeout) if by.is_some() => return by,
            Err(RecvTimeoutError::Timeout) => {
                by = Some(EndedBy::Timeout);
                os::ask_group(id);
                deadline = Some(Instant::now() + GRACE);
            }
        }
    }
}

fn hear(events: Sender<Event>) -> std::io::Result<()> {
    ctrlc::set_handler(move || drop(events.send(Event::Asked))).map_err(std::io::Error::other)
}

fn told(how: How, by: Option<EndedBy>, elapsed: Duration, block: String) -> Told {
    let run_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    Told::Ended { how, by, run_ms, block, mechanism: None }
}

fn block(by: Option<EndedBy>) -> String {
    match by {
        Some(EndedBy::Timeout) => "oz0-node: limit: the job's time is over, it was ended\n".into(),
        Some(EndedBy::Limit) => "oz0-node: limit: the job's memory is used up, it was ended\n".into(),
        _ => String::new(),
    }
}

/// What the job passes, and what any program needs.
fn variables(policy: &Policy) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let mut environment = policy.environment.clone();
    for name in NEEDED {
        if let Some(value) = crate::env::value(OsStr::new(name)) {
            environment.set_default(name, value);
        }
    }
    environment.variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Of the node's own variables those that say where the user and the system are.
const NEEDED: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TMPDIR",
    "TZ",
    "SystemRoot",
    "SystemDrive",
    "ComSpec",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramData",
];

/// The program of that name, by the job's own PATH where it has one.
fn find(policy: &Policy, program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        let path = policy.work.join(path);
        return path.is_file().then_some(path);
    }
    let search = policy.environment.get("PATH").map(OsStr::to_owned);
    let search = search.or_else(|| crate::env::value(OsStr::new("PATH")))?;
    std::env::split_paths(&search)
        .flat_map(|folder| [folder.join(path), folder.join(path).with_extension("exe")])
        .find(|path| path.is_file())
}

/// The last step before the command: a session of its own, into what limits it, to end with whoever stands by, and on
/// to the program.
pub fn enter(parent: u32, doors: &[PathBuf], command: &[std::ffi::OsString]) -> std::process::ExitCode {
    let joined = os::end_with(parent)
        .and_then(|()| os::leave_session())
        .and_then(|()| doors.iter().try_for_each(|door| std::fs::write(door, "0")))
        .and_then(|()| command.split_first().ok_or_else(|| std::io::Error::other("no command")));
    let error = match joined {
        Ok((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            os::become_program(command)
        }
        Err(error) => error,
    };
    crate::cli::complain(&format!("starting the command: {error}"), None);
    oz0_sandbox::report::Status::NotExecutable.into()
}
