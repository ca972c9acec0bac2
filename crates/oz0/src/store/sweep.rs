//! What time does: leases run out, waits end, nonces are forgotten.

use oz0_fleet::protocol::{Fence, JobId, Milliseconds, Outcome, TenantId, Timestamp};

use super::jobs::JobState;
use super::lease::{GRACE, Gone, try_again};
use super::nodes::nodes_in;
use super::row::{Columns, kept};
use super::{Act, Connection, Dialect, Result};
use crate::route::{self, Need};

/// As many jobs as are looked at together.
const MOST: i64 = 200;
/// Starts that are longer over than this cannot be mistaken for a second machine's any more.
const STARTS: Milliseconds = Milliseconds::seconds(7 * 24 * 3600);

/// Look at what the time has done.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Now.
    pub now: Timestamp,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Jobs that are queued again.
    pub again: usize,
    /// Jobs that ended for it: cancelled, failed, or because no node took them.
    pub ended: usize,
}

macro_rules! run_out {
    ($skip:literal) => {
        concat!(
            "SELECT job, fence, node FROM jobs WHERE state = 'leased' AND lease_until < $1 ORDER BY lease_until \
             LIMIT $2",
            $skip
        )
    };
}

impl Act for Sweep {
    type Done = Swept;

    async fn act(&self, connection: &mut Connection) -> Result<Swept> {
        let mut swept = Swept::default();
        self.leases(connection, &mut swept).await?;
        self.waits(connection, &mut swept).await?;
        sqlx::query("DELETE FROM nonces WHERE until < $1")
            .bind(kept(self.now))
            .execute(&mut connection.inner)
            .await?;
        sqlx::query(
            "DELETE FROM starts WHERE at < $1 AND NOT EXISTS \
             (SELECT 1 FROM nodes WHERE nodes.node = starts.node AND nodes.start_id = starts.start_id)",
        )
        .bind(kept(self.now.before(STARTS)))
        .execute(&mut connection.inner)
        .await?;
        Ok(swept)
    }
}

impl Sweep {
    /// A node that could not renew has ended the job before its lease did; the grace is for what is not exact.
    async fn leases(&self, connection: &mut Connection, swept: &mut Swept) -> Result<()> {
        let statement = match connection.dialect {
            Dialect::Sqlite => run_out!(""),
            Dialect::Postgres => run_out!(" FOR UPDATE SKIP LOCKED"),
        };
        let rows = sqlx::query(statement)
            .bind(kept(self.now.before(GRACE)))
            .bind(MOST)
            .fetch_all(&mut connection.inner)
            .await?;
        for row in rows {
            let mut columns = Columns::of("jobs", &row);
            let gone = Gone {
                job: columns.word()?,
                fence: Fence(columns.number()?),
                node: columns.word()?,
                outcome: Outcome::Lost,
                reason: "its node was not heard of until the lease was over".to_owned(),
                now: self.now,
            };
            match try_again(connection, &gone).await? {
                Some(JobState::Queued) => swept.again += 1,
                Some(_) => swept.ended += 1,
                None => {}
            }
        }
        Ok(())
    }

    /// C164, C166: a wait that ends is a state of its own, with the reason that was shown while it lasted.
    async fn waits(&self, connection: &mut Connection, swept: &mut Swept) -> Result<()> {
        let rows = sqlx::query(
            "SELECT job, jobs.tenant, asks FROM jobs JOIN needs ON needs.need = jobs.need \
             WHERE state = 'queued' AND wait_until < $1 ORDER BY wait_until LIMIT $2",
        )
        .bind(kept(self.now))
        .bind(MOST)
        .fetch_all(&mut connection.inner)
        .await?;
        for row in rows {
            let mut columns = Columns::of("jobs", &row);
            let (job, tenant, need): (JobId, TenantId, Need) =
                (columns.word()?, columns.word()?, columns.json()?);
            let nodes = nodes_in(connection, tenant).await?;
            let reason = format!("no node took it: {}", route::route(&need, &nodes, self.now).waiting());
            let ended = sqlx::query(
                "UPDATE jobs SET state = 'no node', ended = $2, reason = $3 WHERE job = $1 AND state = 'queued'",
            )
            .bind(job.to_string())
            .bind(kept(self.now))
            .bind(reason)
            .execute(&mut connection.inner)
            .await?;
            swept.ended += usize::from(ended.rows_affected() == 1);
        }
        Ok(())
    }
}
