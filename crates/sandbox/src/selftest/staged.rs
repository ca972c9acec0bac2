//! The launcher of this host's own backend: the plan is made here and carried out by a fresh process of the
//! node's binary, which is handed it as a job on standard input. The first process of a run is a fork of the one
//! that launches, which therefore has one thread, and its end ends the run; this process has many threads.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::launcher::{Launcher, Order, Particulars, Unattainable};
use super::session::{Started, Told};
use crate::backend::{Backend, Refusal};
use crate::limits::{Kind, Limits, Usage};
use crate::policy::Policy;
use crate::report::{Report, Status};
use crate::run::{self, Options};
use crate::sys::attempt;

/// What the fresh process is handed. There is no Debug: the environment's values are in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job<P> {
    /// The policy, for what a plan does not hold.
    pub policy: Policy,
    /// All that will be done.
    pub plan: P,
    /// Where to tell how it went.
    #[serde(with = "crate::text::path")]
    pub report: PathBuf,
}

/// What the fresh process tells.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Telling<'a> {
    Report(&'a Report),
    Refusal(&'a Refusal),
}

/// Of what was told, this much is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Heard {
    Report { usage: Option<Usage> },
    Refusal { reason: String },
}

/// A job that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It cannot be read.
    #[error("reading the job on standard input: {0}")]
    Input(io::Error),
    /// It is none.
    #[error("standard input holds no job: {0}")]
    Form(serde_json::Error),
    /// What came of it cannot be told.
    #[error("writing {}: {error}", crate::text::escape(.path))]
    Report {
        /// The file.
        path: PathBuf,
        /// What the OS answered.
        error: io::Error,
    },
}

/// Launches by the backend `B`, from a process of the node's binary.
pub struct Staged<'a, B, C = Unchanged> {
    backend: &'a B,
    binary: &'a Path,
    change: C,
}

/// What may change a plan between planning and launching.
pub trait Change<P>: Sync {
    /// Change it.
    fn change(&self, plan: &mut P);
}

/// Nothing does.
pub struct Unchanged;

impl<P> Change<P> for Unchanged {
    fn change(&self, _: &mut P) {}
}

impl<P, F: Fn(&mut P) + Sync> Change<P> for F {
    fn change(&self, plan: &mut P) {
        self(plan);
    }
}

impl<'a, B: Backend> Staged<'a, B> {
    /// Launch by `backend`, from processes of `binary`.
    pub fn new(backend: &'a B, binary: &'a Path) -> Self {
        Staged { backend, binary, change: Unchanged }
    }

    /// The same with every plan changed before it is launched.
    pub fn changed<C: Change<B::Plan>>(self, change: C) -> Staged<'a, B, C> {
        Staged { backend: self.backend, binary: self.binary, change }
    }
}

impl<B: Backend + Sync, C: Change<B::Plan>> Launcher for Staged<'_, B, C> {
    fn start(&self, order: &Order<'_>) -> Result<Started, Refusal> {
        let prepared = run::prepare(self.backend, order.policy)?;
        let mut policy = order.policy.clone();
        // The plan holds the limits. Of the policy's, only the time is read after planning; the others may be
        // such that no reader takes them.
        policy.limits = Limits { timeout: policy.limits.timeout, ..Limits::of(Kind::Command) };
        let mut job = Job { policy, plan: prepared.plan, report: order.report.to_path_buf() };
        self.change.change(&mut job.plan);
        let failed = |reason: String| Refusal { code: "stage", reason, fix: None };
        let input = serde_json::to_vec(&job).map_err(|error| failed(format!("writing the job: {error}")))?;
        let mut command = Command::new(self.binary);
        command.args(["stage", "run"]).envs(order.own.iter().copied());
        let report = order.report.to_path_buf();
        Started::new(command, &input, move |status, complaint| tell(&report, status, &complaint))
            .map_err(|error| failed(format!("starting {}: {error}", crate::text::escape(self.binary))))
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        self.backend.unattainable(limits)
    }

    fn particulars(&self) -> Particulars {
        self.backend.particulars()
    }
}

fn tell(report: &Path, status: ExitStatus, complaint: &str) -> Told {
    let heard = fs::read(report).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let status = status.code();
    match heard {
        Some(Heard::Report { usage }) => Told::Command { status, usage },
        Some(Heard::Refusal { reason }) => Told::Sandbox { status, reason },
        None => {
            let last = complaint.lines().last().unwrap_or("without a word");
            Told::Sandbox {
                status,
                reason: format!("the launching process ended: {}", crate::text::escape(last)),
            }
        }
    }
}

/// Do the job that comes on `input`, in this process, which must have one thread. Gives the exit status.
pub fn perform<B: Backend>(backend: &B, mut input: impl Read) -> Result<i32, JobError>
where
    B::Plan: DeserializeOwned,
{
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(JobError::Input)?;
    let job: Job<B::Plan> = serde_json::from_slice(&bytes).map_err(JobError::Form)?;
    drop(bytes);
    attempt::empty_input().map_err(JobError::Input)?;
    let Job { policy, plan, report } = job;
    let begun = backend.begin(&policy);
    let done = run::with_plan(&policy, plan)
        .and_then(|prepared| run::run(backend, begun, &policy, &prepared, Options::default()));
    let (telling, status) = match &done {
        Ok(done) => (Telling::Report(done), done.status()),
        Err(refusal) => (Telling::Refusal(refusal), Status::Sandbox as i32),
    };
    let written = File::create(&report).and_then(|file| Ok(serde_json::to_writer(file, &telling)?));
    written.map_err(|error| JobError::Report { path: report, error })?;
    Ok(status)
}
