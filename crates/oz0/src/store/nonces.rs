//! A node's request is admitted in the transaction of what it does: its nonce is new, its start is the last that
//! reported, and the operator lets the node do anything at all.

use oz0_fleet::protocol::signature::Nonce;
use oz0_fleet::protocol::{NodeId, NodeState, StartId, Timestamp};

use super::row::{Columns, kept};
use super::{Connection, Result};

/// Who asks, by a signature that was verified.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The node.
    pub node: NodeId,
    /// Its start.
    pub start: StartId,
    /// When the request was made, by the node's clock, in seconds.
    pub created: u64,
    /// Used for this request only.
    pub nonce: Nonce,
    /// From where it came.
    pub address: String,
    /// Now.
    pub now: Timestamp,
    /// The nonce is remembered until then.
    pub remember_until: Timestamp,
}

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// No such node.
    Unknown,
    /// It was revoked.
    Revoked,
    /// Two machines have its key.
    Held,
    /// Its start has not reported.
    ReportFirst,
    /// A later start has reported.
    Superseded,
    /// The nonce was seen before.
    Replayed,
}

/// What one statement says: the nonce, for a node in a state and of a start that may ask.
const ADMIT: &str = "INSERT INTO nonces (node, nonce, until) SELECT node, $2, $3 FROM nodes WHERE node = $1 \
                     AND start_id = $4 AND state IN ('active', 'draining') ON CONFLICT (node, nonce) DO NOTHING";

impl Caller {
    fn nonce(&self) -> String {
        format!("{:?}", self.nonce)
    }

    /// Admit it, or say why not. A copied key is found here: the node is held from then on.
    pub(super) async fn admit(
        &self,
        connection: &mut Connection,
    ) -> Result<std::result::Result<(), NotAdmitted>> {
        let admitted = sqlx::query(ADMIT)
            .bind(self.node.to_string())
            .bind(self.nonce())
            .bind(kept(self.remember_until))
            .bind(self.start.to_string())
            .execute(&mut connection.inner)
            .await?;
        if admitted.rows_affected() == 1 { Ok(Ok(())) } else { self.explain(connection).await.map(Err) }
    }

    /// Remember the nonce of a request that names a new start. Done: was it new?
    pub(super) async fn remember(&self, connection: &mut Connection) -> Result<bool> {
        let remembered = sqlx::query(
            "INSERT INTO nonces (node, nonce, until) VALUES ($1, $2, $3) ON CONFLICT (node, nonce) DO NOTHING",
        )
        .bind(self.node.to_string())
        .bind(self.nonce())
        .bind(kept(self.remember_until))
        .execute(&mut connection.inner)
        .await?;
        Ok(remembered.rows_affected() == 1)
    }

    async fn explain(&self, connection: &mut Connection) -> Result<NotAdmitted> {
        let row = sqlx::query("SELECT state, start_id FROM nodes WHERE node = $1")
            .bind(self.node.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
        let Some(row) = row else { return Ok(NotAdmitted::Unknown) };
        let mut columns = Columns::of("nodes", &row);
        let (state, start): (NodeState, Option<StartId>) = (columns.word()?, columns.maybe_word()?);
        Ok(match (state, start) {
            (NodeState::Revoked, _) => NotAdmitted::Revoked,
            (NodeState::Held, _) => NotAdmitted::Held,
            (_, Some(start)) if start == self.start => NotAdmitted::Replayed,
            _ => self.older_start(connection).await?,
        })
    }

    /// A start that is not the last to have reported. Did it report before, and was this request made after the later
    /// one's? Then two machines have the key (C175): a restart never goes back.
    pub(super) async fn older_start(&self, connection: &mut Connection) -> Result<NotAdmitted> {
        let known = sqlx::query("SELECT at FROM starts WHERE node = $1 AND start_id = $2")
            .bind(self.node.to_string())
            .bind(self.start.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
        if known.is_none() {
            return Ok(NotAdmitted::ReportFirst);
        }
        let held = sqlx::query(
            "UPDATE nodes SET state = 'held', other_address = $3 \
             WHERE node = $1 AND state IN ('active', 'draining') AND start_created < $2",
        )
        .bind(self.node.to_string())
        .bind(i64::try_from(self.created).unwrap_or(i64::MAX))
        .bind(self.address.clone())
        .execute(&mut connection.inner)
        .await?;
        if held.rows_affected() == 0 {
            return Ok(NotAdmitted::Superseded);
        }
        tracing::warn!(node = %self.node, "two machines have this node's key: it is held");
        Ok(NotAdmitted::Held)
    }
}
