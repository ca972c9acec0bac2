//! `oz0 job` and `oz0 jobs`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use oz0_fleet::protocol::{JobId, Timestamp};
use serde_json::json;

use super::table::table;
use super::trigger::read_template;
use super::{Answers, CliError, OfTenant, Result};
use crate::chance::now;
use crate::store::Store;
use crate::store::jobs::{Cancel, Job, JobState};

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Show one job, and why it waits
    Show {
        /// Which
        job: JobId,
    },
    /// Print a job's log, of its last attempt
    Logs {
        /// Which
        job: JobId,
        /// Go on until the job has ended
        #[arg(short, long)]
        follow: bool,
    },
    /// Cancel a job
    Cancel {
        /// Which
        job: JobId,
    },
    /// Ask where a job would go, without submitting it
    Route {
        #[command(flatten)]
        of: OfTenant,
        /// Only ask; the one way there is
        #[arg(long, required = true)]
        dry_run: bool,
        /// The job's template, as JSON
        #[arg(value_name = "FILE")]
        template: PathBuf,
    },
}

impl Verb {
    pub(super) async fn run(self, store: &Store, out: &mut Answers<'_, impl Write>) -> Result<()> {
        match self {
            Verb::Show { job } => {
                let job = find(store, job).await?;
                let waiting = waiting(store, &job).await?;
                out.give(&json!({"job": job, "waiting": waiting}), || {
                    let mut text = format!("{}: {}\nneeds {}\n", job.job, words(&job, now()), job.need);
                    if let Some(waiting) = &waiting {
                        text.push_str(&format!("waiting: {waiting}\n"));
                    }
                    text
                })
            }
            Verb::Logs { job, follow } => logs(store, job, follow, out).await,
            Verb::Cancel { job } => {
                let state = store.act(Cancel { job, now: now() }).await?.ok_or(CliError::NoJob(job))?;
                let words = if state == JobState::Leased {
                    "its node is told to end it".to_owned()
                } else {
                    state.to_string()
                };
                out.give(&json!({"job": job, "state": state}), || format!("{job}: {words}"))
            }
            Verb::Route { of, dry_run: _, template } => {
                let tenant = of.find(store).await?.tenant;
                let routing = store.routing(tenant, &read_template(&template)?.need(), now()).await?;
                out.give(&json!({"routing": routing, "waiting": routing.waiting()}), || {
                    let mut text = format!("{}\n", routing.waiting());
                    for takes in &routing.takes {
                        text.push_str(&format!("{}: takes it\n", takes.name));
                    }
                    for other in &routing.others {
                        text.push_str(&format!("{}: {}\n", other.name, other.words));
                    }
                    text
                })
            }
        }
    }
}

async fn find(store: &Store, job: JobId) -> Result<Job> {
    store.job(job).await?.ok_or(CliError::NoJob(job))
}

async fn waiting(store: &Store, job: &Job) -> Result<Option<String>> {
    match job.state {
        JobState::Queued => Ok(Some(store.routing(job.tenant, &job.need, now()).await?.waiting())),
        _ => Ok(None),
    }
}

/// The bytes as they came: whoever sends them to a terminal has said so.
async fn logs(store: &Store, id: JobId, follow: bool, out: &mut Answers<'_, impl Write>) -> Result<()> {
    let mut from = 0;
    let mut fence = find(store, id).await?.fence;
    loop {
        // Looked at before its log: what comes after the end is nothing.
        let job = find(store, id).await?;
        if job.fence != fence {
            (fence, from) = (job.fence, 0);
        }
        let piece = store.log(id, fence, from, 1 << 20).await?;
        from += piece.len() as u64;
        out.out.write_all(&piece)?;
        out.out.flush()?;
        if piece.is_empty() {
            if !follow || matches!(job.state, JobState::Ended(_)) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

fn words(job: &Job, now: Timestamp) -> String {
    let since = now.since(job.ended.unwrap_or(job.accepted));
    let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match job.state {
        JobState::Ended(terminal) => format!("{terminal} {since} ago{reason}"),
        JobState::Leased if job.cancel.is_some() => format!("on its node, to be cancelled, {since} old"),
        JobState::Leased => format!("on its node, {since} old"),
        JobState::Queued => format!("queued for {since}{reason}"),
    }
}

/// Which jobs.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    of: OfTenant,
    /// As many, the latest first
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    most: u32,
}

impl List {
    pub(super) async fn run(self, store: &Store, out: &mut Answers<'_, impl Write>) -> Result<()> {
        let tenant = self.of.find(store).await?.tenant;
        let jobs = store.jobs(tenant, None, self.most).await?;
        let now = now();
        out.give(&jobs, || {
            let row = |job: &Job| {
                [job.job.to_string(), job.need.kind.to_string(), job.need.to_string(), words(job, now)]
            };
            table(["job", "kind", "needs", "state"], jobs.iter().map(row))
        })
    }
}
