//! Handing jobs out, keeping them with their node, and taking their endings: each lease has a fence that only grows,
//! and what comes under an older one changes nothing.

mod finish;

use oz0_fleet::protocol::{
    Capacity, Fence, Held, JobId, Lease, Leased, Milliseconds, Renewal, Renewed, Timestamp, Verdict,
};
use serde_json::value::RawValue;

use super::nodes::one_in;
use super::nonces::{Caller, NotAdmitted};
use super::row::{Columns, kept};
use super::{Act, Connection, Dialect, Result, StoreError};
use crate::route::{self, Need};

pub use finish::{Finish, MOST_ATTEMPTS};
pub(super) use finish::{Gone, try_again};

/// How long a node has a job without renewing.
pub const LEASE: Milliseconds = Milliseconds::seconds(30);
/// How long after that no other node gets it: clocks run differently, and requests take their time.
pub const GRACE: Milliseconds = Milliseconds::seconds(10);
/// How long a command that is asked to end may take.
pub const CANCEL_GRACE: Milliseconds = Milliseconds::seconds(10);

/// Jobs for a node.
#[derive(Clone, Debug)]
pub struct Take {
    /// Who asks.
    pub caller: Caller,
    /// Was the same request admitted before, and has waited since?
    pub admitted: bool,
    /// What it can take.
    pub capacity: Capacity,
}

/// Hand out the oldest jobs of one need. PostgreSQL skips those that another oz0 is handing out just then.
macro_rules! take {
    ($skip:literal) => {
        concat!(
            "WITH oldest AS MATERIALIZED (SELECT job FROM jobs WHERE need = $1 AND state = 'queued' ORDER BY job \
             LIMIT $2",
            $skip,
            ") UPDATE jobs SET state = 'leased', node = $3, fence = fence + 1, attempt = attempt + 1, \
             phase = 'starting', lease_until = $4, reason = NULL \
             WHERE state = 'queued' AND job IN (SELECT job FROM oldest) RETURNING job, fence, attempt, work"
        )
    };
}

impl Act for Take {
    /// The jobs, and the node as it is.
    type Done = std::result::Result<(Leased, route::Node), NotAdmitted>;

    async fn act(&self, connection: &mut Connection) -> Result<Self::Done> {
        let caller = &self.caller;
        if !self.admitted
            && let Err(why) = caller.admit(connection).await?
        {
            return Ok(Err(why));
        }
        let Some(node) = one_in(connection, caller.node).await? else { return Ok(Err(NotAdmitted::Unknown)) };
        if node.start != Some(caller.start) {
            return Ok(Err(NotAdmitted::Superseded));
        }
        // It asks, so it is there: when that was last written down says less.
        let node = route::Node { seen: caller.now, ..node };
        let cancel = if node.running > 0 { to_cancel(connection, caller).await? } else { vec![] };
        let mut room = route::room(&node).min(self.capacity.jobs).min(256);
        let mut needs = Vec::new();
        for (id, need) in waiting_needs(connection, &node).await? {
            if self.capacity.kinds.contains(&need.kind) && route::judge(&need, &node, caller.now).is_ok() {
                needs.push(id);
            }
        }
        let mut jobs = Vec::new();
        for (need, most) in share(connection, needs, room).await? {
            let taken = self.take(connection, &need, most.min(room)).await?;
            room -= taken.len() as u16;
            jobs.extend(taken);
        }
        jobs.sort_by_key(|lease| lease.job);
        let running = node.running + jobs.len() as u16;
        Ok(Ok((Leased { jobs, cancel }, route::Node { running, ..node })))
    }
}

impl Take {
    async fn take(&self, connection: &mut Connection, need: &str, most: u16) -> Result<Vec<Lease>> {
        if most == 0 {
            return Ok(vec![]);
        }
        let statement = match connection.dialect {
            Dialect::Sqlite => take!(""),
            Dialect::Postgres => take!(" FOR UPDATE SKIP LOCKED"),
        };
        let rows = sqlx::query(statement)
            .bind(need.to_owned())
            .bind(i64::from(most))
            .bind(self.caller.node.to_string())
            .bind(kept(self.caller.now.after(LEASE)))
            .fetch_all(&mut connection.inner)
            .await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of("jobs", row);
                Ok(Lease {
                    job: columns.word()?,
                    fence: Fence(columns.number()?),
                    attempt: columns.number()?,
                    lease_ms: LEASE,
                    work: RawValue::from_string(columns.text()?)
                        .map_err(|_| StoreError::Row { table: "jobs" })?,
                })
            })
            .collect()
    }
}

async fn to_cancel(connection: &mut Connection, caller: &Caller) -> Result<Vec<JobId>> {
    let rows =
        sqlx::query("SELECT job FROM jobs WHERE node = $1 AND state = 'leased' AND cancel IS NOT NULL")
            .bind(caller.node.to_string())
            .fetch_all(&mut connection.inner)
            .await?;
    rows.iter().map(|row| Columns::of("jobs", row).word()).collect()
}

/// What the waiting jobs of a node's tenant ask.
async fn waiting_needs(connection: &mut Connection, node: &route::Node) -> Result<Vec<(String, Need)>> {
    let rows = sqlx::query(
        "SELECT need, asks FROM needs WHERE tenant = $1 AND EXISTS \
         (SELECT 1 FROM jobs WHERE jobs.need = needs.need AND jobs.state = 'queued')",
    )
    .bind(node.tenant.to_string())
    .fetch_all(&mut connection.inner)
    .await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of("needs", row);
            Ok((columns.text()?, columns.json()?))
        })
        .collect()
}

/// How many jobs of which need: the oldest of all.
async fn share(connection: &mut Connection, needs: Vec<String>, room: u16) -> Result<Vec<(String, u16)>> {
    if needs.len() < 2 {
        return Ok(needs.into_iter().map(|need| (need, room)).collect());
    }
    let mut oldest: Vec<(JobId, usize)> = Vec::new();
    for (place, need) in needs.iter().enumerate() {
        let rows =
            sqlx::query("SELECT job FROM jobs WHERE need = $1 AND state = 'queued' ORDER BY job LIMIT $2")
                .bind(need.clone())
                .bind(i64::from(room))
                .fetch_all(&mut connection.inner)
                .await?;
        for row in rows {
            oldest.push((Columns::of("jobs", &row).word()?, place));
        }
    }
    oldest.sort_unstable();
    oldest.truncate(room.into());
    let count = |place| oldest.iter().filter(|(_, of)| *of == place).count() as u16;
    Ok(needs.into_iter().enumerate().map(|(place, need)| (need, count(place))).collect())
}

/// Keep what a node has.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Who asks.
    pub caller: Caller,
    /// What it has.
    pub held: Vec<Held>,
}

impl Act for Renew {
    type Done = std::result::Result<Renewed, NotAdmitted>;

    async fn act(&self, connection: &mut Connection) -> Result<Self::Done> {
        let caller = &self.caller;
        if let Err(why) = caller.admit(connection).await? {
            return Ok(Err(why));
        }
        let mut renewals = Vec::with_capacity(self.held.len());
        for held in &self.held {
            let row = sqlx::query(
                "UPDATE jobs SET lease_until = $4, phase = $5 \
                 WHERE job = $1 AND node = $2 AND fence = $3 AND state = 'leased' RETURNING cancel",
            )
            .bind(held.job.to_string())
            .bind(caller.node.to_string())
            .bind(i64::from(held.fence.0))
            .bind(kept(caller.now.after(LEASE)))
            .bind(held.phase.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
            let cancel: Option<Option<Timestamp>> =
                row.map(|row| Columns::of("jobs", &row).maybe_time()).transpose()?;
            let verdict = match cancel {
                None => Verdict::Stop,
                Some(None) => Verdict::Keep { lease_ms: LEASE },
                Some(Some(_)) => Verdict::Cancel { grace_ms: CANCEL_GRACE, lease_ms: LEASE },
            };
            renewals.push(Renewal { job: held.job, fence: held.fence, verdict });
        }
        Ok(Ok(Renewed { renewals }))
    }
}
