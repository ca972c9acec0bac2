//! The one view of nodes: every list of them, wherever it is shown, is this query.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oz0_fleet::protocol::{Milliseconds, NodeId, TenantId, Timestamp};
use oz0_fleet::{Facts, Reported};
use serde::Serialize;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::route::Node;
use crate::store::row::Columns;
use crate::store::{Connection, Result, Store, StoreError};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT node, tenant, name, state, labels, reserved, keep, enrolled, seen, address, other_address, \
             start_id, reported, facts, tested, test_took, most_jobs, earned, failures, obstacle, aside_until, \
             (SELECT count(*) FROM jobs WHERE jobs.node = nodes.node AND jobs.state = 'leased') FROM nodes ",
            $rest
        )
    };
}

fn node(row: &AnyRow) -> Result<Node> {
    let mut columns = Columns::of("nodes", row);
    Ok(Node {
        node: columns.word()?,
        tenant: columns.word()?,
        name: columns.word()?,
        state: columns.word()?,
        labels: columns.json()?,
        reserved: columns.flag()?,
        keep: columns.flag()?,
        enrolled: columns.time()?,
        seen: columns.time()?,
        address: columns.text()?,
        other_address: columns.maybe_text()?,
        start: columns.maybe_word()?,
        reported: columns.maybe_time()?,
        // Read as strictly as it came: what an older oz0 kept is checked by this one.
        facts: columns.maybe_json::<Reported>()?.map(Reported::facts),
        tested: columns.maybe_time()?,
        test_took_ms: columns.maybe_number()?.and_then(|took| took.try_into().ok()).map(Milliseconds::new),
        most_jobs: columns.number()?,
        earned: columns.maybe_time()?,
        failures: columns.number()?,
        obstacle: columns.maybe_word()?,
        aside_until: columns.maybe_time()?,
        running: columns.number()?,
    })
}

async fn of_tenant(connection: &mut AnyConnection, tenant: TenantId) -> Result<Vec<Node>> {
    let rows = sqlx::query(select!("WHERE tenant = $1 ORDER BY name, node"))
        .bind(tenant.to_string())
        .fetch_all(connection)
        .await?;
    rows.iter().map(node).collect()
}

async fn one(connection: &mut AnyConnection, id: NodeId) -> Result<Option<Node>> {
    let row = sqlx::query(select!("WHERE node = $1")).bind(id.to_string()).fetch_optional(connection).await?;
    row.as_ref().map(node).transpose()
}

/// A tenant's nodes, inside a transaction.
pub(in crate::store) async fn nodes_in(connection: &mut Connection, tenant: TenantId) -> Result<Vec<Node>> {
    of_tenant(&mut connection.inner, tenant).await
}

/// One node, inside a transaction.
pub(in crate::store) async fn one_in(connection: &mut Connection, id: NodeId) -> Result<Option<Node>> {
    one(&mut connection.inner, id).await
}

/// What a node reported from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// From then.
    pub at: Timestamp,
    /// These.
    pub facts: Facts,
}

impl Store {
    /// A tenant's nodes, by name.
    pub async fn nodes(&self, tenant: TenantId) -> Result<Vec<Node>> {
        of_tenant(&mut *self.reader().await?, tenant).await
    }

    /// One node.
    pub async fn node(&self, id: NodeId) -> Result<Option<Node>> {
        one(&mut *self.reader().await?, id).await
    }

    /// Whose a node is, and its public key. Neither changes: the id is the key's digest.
    pub async fn node_key(&self, id: NodeId) -> Result<Option<(TenantId, Vec<u8>)>> {
        let row = sqlx::query("SELECT tenant, public_key FROM nodes WHERE node = $1")
            .bind(id.to_string())
            .fetch_optional(&mut *self.reader().await?)
            .await?;
        row.map(|row| {
            let mut columns = Columns::of("nodes", &row);
            let (tenant, key) = (columns.word()?, columns.text()?);
            let key = STANDARD.decode(key).map_err(|_| StoreError::Row { table: "nodes" })?;
            Ok((tenant, key))
        })
        .transpose()
    }

    /// What a node's tier was, the latest first.
    pub async fn tier_history(&self, id: NodeId) -> Result<Vec<Standing>> {
        let rows =
            sqlx::query("SELECT at, facts FROM tier_history WHERE node = $1 ORDER BY at DESC LIMIT 200")
                .bind(id.to_string())
                .fetch_all(&mut *self.reader().await?)
                .await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of("tier_history", row);
                Ok(Standing { at: columns.time()?, facts: columns.json::<Reported>()?.facts() })
            })
            .collect()
    }
}
