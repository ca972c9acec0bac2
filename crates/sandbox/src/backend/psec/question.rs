//! The question for the route, asked of Windows itself: a container that may reach nothing listens on its own loopback
//! and dials itself. What its answer means is [`super::route`]'s.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::windows::io::AsHandle as _;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::launch::{Confined, Contained, job};
use super::paths::WindowsPath;
use super::plan::{Files, JobPlan, Plan};
use super::route::{Dialled, Route, decide};
use super::spec::Network;
use super::survey::Place;
use super::ui::Ui;
use super::verdict::Verdict;
use super::{folder::RunFolder, take};
use crate::backend::Refusal;
use crate::environ::Environment;
use crate::limits::{Kind, Limits};
use crate::selftest::act::{Act, Answer, RefusalKind};
use crate::sys::windows::job::Ended;
use crate::sys::windows::{machine, process};

/// A first launch takes more than a second, and a dial that nobody answers three.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer that is read.
const LONGEST: u64 = 4096;

/// Ask, in a container of its own that is gone afterwards. `binary` is the node's own program.
pub fn put(binary: &Path, verdict: &Verdict) -> Result<Route, Refusal> {
    let dialled = dial(binary, verdict)?;
    decide(&dialled).map_err(|error| Refusal {
        code: "route",
        reason: error.to_string(),
        fix: Some(format!("set {}=bridge or relay where it is known", super::route::VARIABLE)),
    })
}

fn dial(binary: &Path, verdict: &Verdict) -> Result<Dialled, Refusal> {
    let offered = verdict.offered().ok_or_else(|| take::refusal(verdict))?;
    let failed = |what: &str, error: &dyn std::fmt::Display| Refusal {
        code: "route",
        reason: format!("asking a container for its loopback: {what}: {error}"),
        fix: None,
    };
    let defaults = take::defaults()?;
    let normal = |path: &Path| WindowsPath::of(path).map_err(|error| failed("a path", &error));
    let work = take::runs(&defaults)?.join(take::name()?);
    let folder = RunFolder::make(&work).map_err(|error| failed("its folder", &error))?;
    let binary = match take::place(binary) {
        Place::Found { real, .. } => normal(&real)?,
        _ => normal(binary)?,
    };
    let limits = Limits::of(Kind::Command);
    let act = serde_json::to_string(&Act::DialItself).map_err(|error| failed("the act", &error))?;
    let words: Vec<OsString> = [&binary.to_string(), "stage", "subject", &act].map(OsString::from).into();
    let plan = Plan {
        version: offered.contract.min(super::contract::FIRST),
        job: JobPlan {
            memory: limits.memory,
            processes: limits.processes,
            cpu: limits.cpu,
            processors: machine::processors(),
        },
        ui: Ui::DEFAULT,
        files: Files {
            read_write: vec![normal(folder.path())?],
            read_only: vec![binary.clone()],
            deny: Vec::new(),
        },
        route: Route::Bridge,
        sockets: normal(folder.path())?,
        node_binary: binary.clone(),
        defaults,
        variables: Vec::new(),
        start: normal(folder.path())?,
        command: words.clone(),
        notes: Vec::new(),
    };
    let mut variables = Environment::default();
    super::block::set_defaults(&mut variables, &plan.defaults);
    let nothing = process::null_input().map_err(|error| failed("no input", &error))?;
    let silence = process::null_output().map_err(|error| failed("no output", &error))?;
    let (output, own_output) = io::pipe().map_err(|error| failed("a pipe", &error))?;
    let job = job(&plan).map_err(|error| failed("its job", &error))?;
    let contained = Contained {
        plan: &plan,
        application: &binary.to_path(),
        words: &words,
        network: Network::Closed,
        environment: &variables,
        standard: [nothing.as_handle(), own_output.as_handle(), silence.as_handle()],
    };
    let started = contained.start(&job, || {}).map_err(|error| super::refusal(&error))?;
    drop(own_output);
    let heard = line(output);
    let Confined { process, container, .. } = started;
    let ended = job.end(0, Duration::from_secs(10));
    let status = process.wait(Some(Duration::ZERO)).ok().flatten();
    drop((process, job));
    drop(container);
    match ended {
        Ok(Ended::Empty) => {}
        Ok(Ended::Left(left)) => {
            return Err(failed("its end", &format!("processes {left:?} are still there")));
        }
        Err(error) => return Err(failed("its end", &error)),
    }
    Ok(match heard {
        Ok(line) => said(&line),
        Err(why) => Dialled::NoReport(match status {
            Some(status) => format!("{why}, status {status:#x}"),
            None => why,
        }),
    })
}

/// What the subject's one line says.
fn said(line: &str) -> Dialled {
    match serde_json::from_str::<Answer>(line) {
        Ok(Answer::Done(_)) => Dialled::Connected,
        Ok(Answer::Refused(refused)) if refused.kind == RefusalKind::TimedOut => Dialled::TimedOut,
        Ok(Answer::Refused(refused)) => match refused.code {
            Some(code) => Dialled::Failed(code),
            None => Dialled::NoReport(refused.to_string()),
        },
        Ok(Answer::Untried(why)) => Dialled::NotListening(why),
        Err(_) => Dialled::NoReport("it said something else".to_owned()),
    }
}

fn line(output: io::PipeReader) -> Result<String, String> {
    let (say, said) = mpsc::channel();
    let reader = move || {
        let mut line = String::new();
        let read = BufReader::new(output.take(LONGEST)).read_line(&mut line);
        let _ = say.send(read.map(|_| line));
    };
    thread::Builder::new().spawn(reader).map_err(|error| error.to_string())?;
    match said.recv_timeout(PATIENCE) {
        Ok(Ok(line)) if line.is_empty() => Err("it ended without a word".to_owned()),
        Ok(Ok(line)) => Ok(line),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no word in 30 s".to_owned()),
    }
}
