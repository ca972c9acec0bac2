//! Logs of attempts: pieces that follow each other without a gap.

use oz0_fleet::protocol::{Fence, JobId, LogPlace, LogTaken};

use super::nonces::{Caller, NotAdmitted};
use super::row::Columns;
use super::{Act, Connection, Result, Store};

/// As many bytes as are kept of one attempt.
pub const MOST: u64 = 16 * 1024 * 1024;

/// A piece of a log.
#[derive(Clone)]
pub struct Append {
    /// Who sends it.
    pub caller: Caller,
    /// Where it belongs.
    pub place: LogPlace,
    /// It.
    pub bytes: Vec<u8>,
}

impl Act for Append {
    /// What the store has; none where the job is not this node's.
    type Done = std::result::Result<Option<LogTaken>, NotAdmitted>;

    async fn act(&self, connection: &mut Connection) -> Result<Self::Done> {
        if let Err(why) = self.caller.admit(connection).await? {
            return Ok(Err(why));
        }
        let (job, fence) = (self.place.job.to_string(), i64::from(self.place.fence.0));
        let row = sqlx::query(
            "SELECT (SELECT max(ends) FROM logs WHERE logs.job = jobs.job AND logs.fence = jobs.fence) FROM jobs \
             WHERE job = $1 AND fence = $2 AND node = $3",
        )
        .bind(job.clone())
        .bind(fence)
        .bind(self.caller.node.to_string())
        .fetch_optional(&mut connection.inner)
        .await?;
        let Some(row) = row else { return Ok(Ok(None)) };
        let next = Columns::of("logs", &row).maybe_number()?.unwrap_or(0);
        let next = u64::try_from(next).unwrap_or(0);
        let taken = |next| Ok(Ok(Some(LogTaken { next, room: MOST.saturating_sub(next) })));
        // What came before, what leaves a gap, and what is beyond the room is not kept.
        let Some(known) = next.checked_sub(self.place.offset) else { return taken(next) };
        let fresh = usize::try_from(known).ok().and_then(|known| self.bytes.get(known..)).unwrap_or_default();
        let room = usize::try_from(MOST.saturating_sub(next)).unwrap_or(usize::MAX);
        let fresh = &fresh[..fresh.len().min(room)];
        if fresh.is_empty() {
            return taken(next);
        }
        let ends = next + fresh.len() as u64;
        sqlx::query("INSERT INTO logs (job, fence, begins, ends, bytes) VALUES ($1, $2, $3, $4, $5)")
            .bind(job)
            .bind(fence)
            .bind(i64::try_from(next).unwrap_or(i64::MAX))
            .bind(i64::try_from(ends).unwrap_or(i64::MAX))
            .bind(fresh.to_vec())
            .execute(&mut connection.inner)
            .await?;
        taken(ends)
    }
}

impl Store {
    /// A log from an offset on, at most about `most` bytes.
    pub async fn log(&self, job: JobId, fence: Fence, from: u64, most: usize) -> Result<Vec<u8>> {
        let mut reader = self.reader().await?;
        let mut log = Vec::new();
        let mut next = from;
        while log.len() < most {
            let row = sqlx::query(
                "SELECT begins, bytes FROM logs WHERE job = $1 AND fence = $2 AND ends > $3 ORDER BY begins LIMIT 1",
            )
            .bind(job.to_string())
            .bind(i64::from(fence.0))
            .bind(i64::try_from(next).unwrap_or(i64::MAX))
            .fetch_optional(&mut *reader)
            .await?;
            let Some(row) = row else { break };
            let mut columns = Columns::of("logs", &row);
            let (begins, bytes): (u64, Vec<u8>) = (columns.number()?, columns.bytes()?);
            let skip = usize::try_from(next.saturating_sub(begins)).unwrap_or(usize::MAX).min(bytes.len());
            log.extend(&bytes[skip..]);
            next = begins + bytes.len() as u64;
        }
        Ok(log)
    }
}
