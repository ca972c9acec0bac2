//! Jobs: taking them in once a delivery, cancelling them, and looking at them.

use std::fmt;
use std::str::FromStr;

use oz0_fleet::protocol::{
    DeliveryId, Fence, JobId, NodeId, Outcome, Phase, TenantId, Terminal, Timestamp, Work,
};
use serde::Serialize;
use sqlx::any::AnyRow;

use super::row::{Columns, kept};
use super::triggers::{know, need_id};
use super::{Act, Connection, Result, Store, StoreError};
use crate::route::{Need, Routing, route};

/// How a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It waits for a node.
    Queued,
    /// A node has it.
    Leased,
    /// It has ended.
    Ended(Terminal),
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobState::Queued => "queued",
            JobState::Leased => "leased",
            JobState::Ended(terminal) => terminal.word(),
        })
    }
}

impl FromStr for JobState {
    type Err = oz0_fleet::Unknown;

    fn from_str(text: &str) -> std::result::Result<JobState, Self::Err> {
        match text {
            "queued" => Ok(JobState::Queued),
            "leased" => Ok(JobState::Leased),
            other => other.parse().map(JobState::Ended),
        }
    }
}

impl Serialize for JobState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A job to be taken in.
#[derive(Clone, Debug)]
pub struct Accept {
    /// Its id, when it is new.
    pub job: JobId,
    /// Whose.
    pub tenant: TenantId,
    /// By what it came.
    pub origin: String,
    /// What the sender calls the delivery, digested.
    pub delivery: DeliveryId,
    /// What it asks of a node.
    pub need: Need,
    /// Its work, as JSON.
    pub work: String,
    /// Does somebody outside of the tenant start it (T1, T4)?
    pub outside: bool,
    /// Now.
    pub now: Timestamp,
    /// How long it waits for a node.
    pub wait_until: Timestamp,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is queued.
    New,
    /// The same delivery was taken before, as this job.
    Known(JobId),
    /// No node of the tenant ever earned tier 1; nothing was kept.
    NoTierOne,
}

/// The job, unless it is there or T4 forbids it: in one statement, so that nothing is kept half.
const ACCEPT: &str = "INSERT INTO jobs (job, tenant, origin, delivery, need, work, state, accepted, wait_until, fence, \
                      attempt) SELECT $1, $2, $3, $4, $5, $6, 'queued', $7, $8, 0, 0 WHERE $9 = 0 OR EXISTS (SELECT 1 \
                      FROM nodes WHERE tenant = $2 AND earned IS NOT NULL AND state <> 'revoked') \
                      ON CONFLICT (origin, delivery) DO NOTHING";

impl Act for Accept {
    type Done = Accepted;

    async fn act(&self, connection: &mut Connection) -> Result<Accepted> {
        // A trigger's need is known since the trigger was made.
        let need = if self.outside {
            need_id(self.tenant, &self.need)
        } else {
            know(connection, self.tenant, &self.need).await?
        };
        let accepted = sqlx::query(ACCEPT)
            .bind(self.job.to_string())
            .bind(self.tenant.to_string())
            .bind(self.origin.clone())
            .bind(self.delivery.to_string())
            .bind(need)
            .bind(self.work.clone())
            .bind(kept(self.now))
            .bind(kept(self.wait_until))
            .bind(i64::from(self.outside))
            .execute(&mut connection.inner)
            .await?;
        if accepted.rows_affected() == 1 {
            return Ok(Accepted::New);
        }
        let row = sqlx::query("SELECT job FROM jobs WHERE origin = $1 AND delivery = $2")
            .bind(self.origin.clone())
            .bind(self.delivery.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
        row.map_or(Ok(Accepted::NoTierOne), |row| Columns::of("jobs", &row).word().map(Accepted::Known))
    }
}

/// Cancel a job: at once where no node has it, else through its node.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// Which.
    pub job: JobId,
    /// Now.
    pub now: Timestamp,
}

impl Act for Cancel {
    /// The state it has now; none where there is no such job.
    type Done = Option<JobState>;

    async fn act(&self, connection: &mut Connection) -> Result<Self::Done> {
        sqlx::query(
            "UPDATE jobs SET cancel = coalesce(cancel, $2), \
             ended = CASE WHEN state = 'queued' THEN $2 ELSE ended END, \
             reason = CASE WHEN state = 'queued' THEN 'cancelled while it waited' ELSE reason END, \
             state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END \
             WHERE job = $1 AND state IN ('queued', 'leased')",
        )
        .bind(self.job.to_string())
        .bind(kept(self.now))
        .execute(&mut connection.inner)
        .await?;
        let row = sqlx::query("SELECT state FROM jobs WHERE job = $1")
            .bind(self.job.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
        row.map(|row| Columns::of("jobs", &row).word()).transpose()
    }
}

/// A job as everyone sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Its id.
    pub job: JobId,
    /// Whose.
    pub tenant: TenantId,
    /// By what it came: a trigger's id, or `session`.
    pub origin: String,
    /// What it asks of a node.
    pub need: Need,
    /// How it is.
    pub state: JobState,
    /// When it was taken in.
    pub accepted: Timestamp,
    /// Until when it waits for a node.
    pub wait_until: Timestamp,
    /// Who has it, or had it last.
    pub node: Option<NodeId>,
    /// How often it was handed out.
    pub fence: Fence,
    /// How many attempts count.
    pub attempt: u16,
    /// How far it is.
    pub phase: Option<Phase>,
    /// Until when its node has it.
    pub lease_until: Option<Timestamp>,
    /// When somebody cancelled it.
    pub cancel: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Why it is as it is.
    pub reason: Option<String>,
    /// What its node told.
    pub outcome: Option<Outcome>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT job, jobs.tenant, origin, asks, state, accepted, wait_until, node, fence, attempt, phase, \
             lease_until, cancel, ended, reason, outcome FROM jobs JOIN needs ON needs.need = jobs.need ",
            $rest
        )
    };
}

fn job(row: &AnyRow) -> Result<Job> {
    let mut columns = Columns::of("jobs", row);
    Ok(Job {
        job: columns.word()?,
        tenant: columns.word()?,
        origin: columns.text()?,
        need: columns.json()?,
        state: columns.word()?,
        accepted: columns.time()?,
        wait_until: columns.time()?,
        node: columns.maybe_word()?,
        fence: Fence(columns.number()?),
        attempt: columns.number()?,
        phase: columns.maybe_word()?,
        lease_until: columns.maybe_time()?,
        cancel: columns.maybe_time()?,
        ended: columns.maybe_time()?,
        reason: columns.maybe_text()?,
        outcome: columns.maybe_json()?,
    })
}

/// How many jobs a tenant has in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The state.
    pub state: JobState,
    /// So many.
    pub jobs: u64,
}

impl Store {
    /// One job.
    pub async fn job(&self, id: JobId) -> Result<Option<Job>> {
        let row = sqlx::query(select!("WHERE job = $1"))
            .bind(id.to_string())
            .fetch_optional(&mut *self.reader().await?)
            .await?;
        row.as_ref().map(job).transpose()
    }

    /// A tenant's jobs, the latest first, as many as `most`; before the job `before`, where one is named.
    pub async fn jobs(&self, tenant: TenantId, before: Option<JobId>, most: u32) -> Result<Vec<Job>> {
        let rows = sqlx::query(select!("WHERE jobs.tenant = $1 AND job < $2 ORDER BY job DESC LIMIT $3"))
            .bind(tenant.to_string())
            // After every id.
            .bind(before.map_or_else(|| "job-w".to_owned(), |job| job.to_string()))
            .bind(i64::from(most))
            .fetch_all(&mut *self.reader().await?)
            .await?;
        rows.iter().map(job).collect()
    }

    /// How many there are in each state, of all tenants.
    pub async fn count_jobs(&self) -> Result<Vec<Count>> {
        let rows = sqlx::query("SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state")
            .fetch_all(&mut *self.reader().await?)
            .await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of("jobs", row);
                Ok(Count { state: columns.word()?, jobs: columns.number()? })
            })
            .collect()
    }

    /// What a job runs.
    pub async fn work(&self, id: JobId) -> Result<Option<Work>> {
        let row = sqlx::query("SELECT work FROM jobs WHERE job = $1")
            .bind(id.to_string())
            .fetch_optional(&mut *self.reader().await?)
            .await?;
        row.map(|row| Columns::of("jobs", &row).json()).transpose()
    }

    /// Where a job with this need would go now: a dry run, and why one waits.
    pub async fn routing(&self, tenant: TenantId, need: &Need, now: Timestamp) -> Result<Routing> {
        Ok(route(need, &self.nodes(tenant).await?, now))
    }

    /// Which tenants have jobs that wait, with what they ask: for waking nodes.
    pub async fn queued_needs(&self) -> Result<Vec<(TenantId, Need)>> {
        let rows = sqlx::query(
            "SELECT tenant, asks FROM needs WHERE EXISTS \
             (SELECT 1 FROM jobs WHERE jobs.need = needs.need AND jobs.state = 'queued')",
        )
        .fetch_all(&mut *self.reader().await?)
        .await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of("needs", row);
                Ok::<_, StoreError>((columns.word()?, columns.json()?))
            })
            .collect()
    }

    /// Nodes that have jobs which somebody cancelled: for waking them.
    pub async fn nodes_to_cancel(&self) -> Result<Vec<NodeId>> {
        let rows =
            sqlx::query("SELECT DISTINCT node FROM jobs WHERE state = 'leased' AND cancel IS NOT NULL")
                .fetch_all(&mut *self.reader().await?)
                .await?;
        rows.iter().map(|row| Columns::of("jobs", row).word()).collect()
    }
}
