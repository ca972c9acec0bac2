//! Endings: exactly one terminal state for each job, or back into the queue.

use oz0_fleet::protocol::{
    Ending, Fence, Finished, JobId, Milliseconds, NodeId, Objection, Obstacle, Outcome, Settled, Standing,
    Terminal, Timestamp,
};

use crate::route::FAILURES;
use crate::store::jobs::JobState;
use crate::store::nonces::{Caller, NotAdmitted};
use crate::store::row::{Columns, json, kept};
use crate::store::{Act, Connection, Result};

/// As many attempts as a job gets.
pub const MOST_ATTEMPTS: u16 = 3;
/// How long a node is set aside the first time; twice as long each further time.
const ASIDE: Milliseconds = Milliseconds::seconds(60);
/// The longest.
const LONGEST_ASIDE: Milliseconds = Milliseconds::seconds(1800);

/// Runs that ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Who tells.
    pub caller: Caller,
    /// Which.
    pub endings: Vec<Ending>,
}

impl Act for Finish {
    /// What became of each, and whether a job is queued again.
    type Done = std::result::Result<(Finished, bool), NotAdmitted>;

    async fn act(&self, connection: &mut Connection) -> Result<Self::Done> {
        let caller = &self.caller;
        if let Err(why) = caller.admit(connection).await? {
            return Ok(Err(why));
        }
        let mut standings = Vec::with_capacity(self.endings.len());
        let mut again = false;
        for ending in &self.endings {
            let kept = match ending.outcome.terminal() {
                Some(terminal) => end(connection, caller, ending, terminal).await?,
                None => {
                    let reason = reason(ending.outcome);
                    let gone = Gone {
                        job: ending.job,
                        fence: ending.fence,
                        node: caller.node,
                        outcome: ending.outcome,
                        reason,
                        now: caller.now,
                    };
                    match try_again(connection, &gone).await? {
                        Some(state) => {
                            again |= state == JobState::Queued;
                            true
                        }
                        None => false,
                    }
                }
            };
            let settled =
                if kept { Settled::Kept } else { after_the_lease(connection, caller, ending).await? };
            standings.push(Standing { job: ending.job, fence: ending.fence, settled });
        }
        self.judge_node(connection).await?;
        Ok(Ok((Finished { standings }, again)))
    }
}

/// The job's one terminal state, if it still is this lease's. Was it?
async fn end(
    connection: &mut Connection,
    caller: &Caller,
    ending: &Ending,
    terminal: Terminal,
) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE jobs SET state = $4, ended = $5, outcome = $6, reason = $7, lease_until = NULL, phase = NULL \
         WHERE job = $1 AND node = $2 AND fence = $3 AND state = 'leased'",
    )
    .bind(ending.job.to_string())
    .bind(caller.node.to_string())
    .bind(i64::from(ending.fence.0))
    .bind(terminal.to_string())
    .bind(kept(caller.now))
    .bind(json(&ending.outcome))
    .bind(reason(ending.outcome))
    .execute(&mut connection.inner)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Why a job ended as it did, in words.
fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Exited { status } => format!("the command ended with status {status}"),
        Outcome::Signalled { signal } => format!("signal {signal} ended the command"),
        Outcome::LimitHit => "a limit of the sandbox ended the command".to_owned(),
        Outcome::TimedOut => "the command ran for longer than it may".to_owned(),
        Outcome::Cancelled => "cancelled while it ran".to_owned(),
        Outcome::Refused { objection } => Objection::words(objection).to_owned(),
        Outcome::NotStarted { obstacle } => format!("launch failed: {}", obstacle.words()),
        Outcome::Lost => "the node's program ended under it".to_owned(),
    }
}

/// A run of which nothing is left, and that did not end by itself.
pub(in crate::store) struct Gone {
    /// The job.
    pub job: JobId,
    /// The lease.
    pub fence: Fence,
    /// Who had it.
    pub node: NodeId,
    /// What was told; of a lease that ran out nothing was.
    pub outcome: Outcome,
    /// Why, in words.
    pub reason: String,
    /// Now.
    pub now: Timestamp,
}

/// Into the queue again, or to its end when it was cancelled or tried too often. None where it is not this lease's
/// any more.
pub(in crate::store) async fn try_again(
    connection: &mut Connection,
    gone: &Gone,
) -> Result<Option<JobState>> {
    // A node that was told to end, or that lost its tier, says nothing about the job.
    let counts =
        !matches!(gone.outcome, Outcome::NotStarted { obstacle: Obstacle::Draining | Obstacle::TierFell });
    let row = sqlx::query(
        "UPDATE jobs SET \
         state = CASE WHEN cancel IS NOT NULL THEN 'cancelled' WHEN attempt >= $4 AND $5 = 1 THEN 'failed' \
         ELSE 'queued' END, \
         ended = CASE WHEN cancel IS NOT NULL OR (attempt >= $4 AND $5 = 1) THEN $6 ELSE ended END, \
         attempt = CASE WHEN $5 = 1 THEN attempt ELSE attempt - 1 END, \
         reason = $7, outcome = $8, lease_until = NULL, phase = NULL \
         WHERE job = $1 AND node = $2 AND fence = $3 AND state = 'leased' RETURNING state",
    )
    .bind(gone.job.to_string())
    .bind(gone.node.to_string())
    .bind(i64::from(gone.fence.0))
    .bind(i64::from(MOST_ATTEMPTS))
    .bind(i64::from(counts))
    .bind(kept(gone.now))
    .bind(gone.reason.clone())
    .bind(json(&gone.outcome))
    .fetch_optional(&mut connection.inner)
    .await?;
    row.map(|row| Columns::of("jobs", &row).word()).transpose()
}

/// An ending that is not the lease's any more: told before, or too late (C163).
async fn after_the_lease(connection: &mut Connection, caller: &Caller, ending: &Ending) -> Result<Settled> {
    let row = sqlx::query(
        "SELECT jobs.fence, jobs.node, jobs.outcome FROM jobs JOIN nodes ON nodes.tenant = jobs.tenant \
         WHERE jobs.job = $1 AND nodes.node = $2",
    )
    .bind(ending.job.to_string())
    .bind(caller.node.to_string())
    .fetch_optional(&mut connection.inner)
    .await?;
    let Some(row) = row else { return Ok(Settled::Unknown) };
    let mut columns = Columns::of("jobs", &row);
    let fence: u32 = columns.number()?;
    let node: Option<NodeId> = columns.maybe_word()?;
    let outcome: Option<Outcome> = columns.maybe_json()?;
    if ending.fence.0 == 0 || ending.fence.0 > fence || (ending.fence.0 == fence && node != Some(caller.node))
    {
        return Ok(Settled::Unknown);
    }
    if ending.fence.0 == fence && outcome == Some(ending.outcome) {
        return Ok(Settled::Known);
    }
    let late = sqlx::query(
        "INSERT INTO late_endings (job, fence, node, at, outcome) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (job, fence) DO NOTHING",
    )
    .bind(ending.job.to_string())
    .bind(i64::from(ending.fence.0))
    .bind(caller.node.to_string())
    .bind(kept(caller.now))
    .bind(json(&ending.outcome))
    .execute(&mut connection.inner)
    .await?;
    Ok(if late.rows_affected() == 1 { Settled::Late } else { Settled::Known })
}

impl Finish {
    /// Launches that fail in a row set the node aside, one that works takes that back (C157).
    async fn judge_node(&self, connection: &mut Connection) -> Result<()> {
        let node = self.caller.node.to_string();
        let obstacle = |ending: &Ending| match ending.outcome {
            Outcome::NotStarted { obstacle } if obstacle.counts_against_node() => Some(obstacle),
            _ => None,
        };
        let started = |ending: &Ending| !matches!(ending.outcome, Outcome::NotStarted { .. } | Outcome::Lost);
        let failed = self.endings.iter().filter_map(obstacle).count();
        match self.endings.iter().rev().find_map(obstacle) {
            None if self.endings.iter().any(started) => {
                sqlx::query(
                    "UPDATE nodes SET failures = 0, obstacle = NULL, aside_until = NULL \
                     WHERE node = $1 AND failures > 0",
                )
                .bind(node)
                .execute(&mut connection.inner)
                .await?;
            }
            None => {}
            Some(obstacle) => {
                let row = sqlx::query(
                    "UPDATE nodes SET failures = failures + $2, obstacle = $3 WHERE node = $1 RETURNING failures",
                )
                .bind(node.clone())
                .bind(failed as i64)
                .bind(obstacle.to_string())
                .fetch_one(&mut connection.inner)
                .await?;
                let failures: i64 = Columns::of("nodes", &row).number()?;
                if failures >= i64::from(FAILURES) {
                    let times = u32::try_from(failures - i64::from(FAILURES)).unwrap_or(u32::MAX).min(16);
                    let pause = Milliseconds::new((ASIDE.count() << times).min(LONGEST_ASIDE.count()));
                    sqlx::query("UPDATE nodes SET aside_until = $2 WHERE node = $1")
                        .bind(node)
                        .bind(kept(self.caller.now.after(pause)))
                        .execute(&mut connection.inner)
                        .await?;
                }
            }
        }
        Ok(())
    }
}
