//! Nodes: enrolment, reports, what operators do with them, and the one view of them.

mod view;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oz0_fleet::protocol::{NodeId, NodeState, StartId, TenantId, Timestamp};
use oz0_fleet::{Facts, Reported, Tier, platform};

use super::nonces::{Caller, NotAdmitted};
use super::row::{Columns, json, kept};
use super::{Act, Connection, Result};
use crate::name::{Label, Name};

pub use view::Standing;
pub(super) use view::{nodes_in, one_in};

/// Let a key be a node's.
#[derive(Debug)]
pub struct Enrol {
    /// Who asks: the key's own id.
    pub node: NodeId,
    /// The public key.
    pub key: Vec<u8>,
    /// The token's digest.
    pub token: String,
    /// From where.
    pub address: String,
    /// Now.
    pub now: Timestamp,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// It is one of this tenant's.
    Of(TenantId),
    /// There is no such token, or another node used it.
    NoToken,
    /// The token is over.
    Expired,
    /// The key was a node's that was revoked, is held, or belongs to another tenant.
    Refused(NodeState),
}

impl Act for Enrol {
    type Done = Enrolled;

    async fn act(&self, connection: &mut Connection) -> Result<Enrolled> {
        let row = sqlx::query(
            "SELECT tenant, name, labels, reserved, expires, used_by FROM node_tokens WHERE digest = $1",
        )
        .bind(self.token.clone())
        .fetch_optional(&mut connection.inner)
        .await?;
        let Some(row) = row else { return Ok(Enrolled::NoToken) };
        let mut columns = Columns::of("node_tokens", &row);
        let tenant: TenantId = columns.word()?;
        let name: Name = columns.word()?;
        let labels: std::collections::BTreeSet<Label> = columns.json()?;
        let reserved = columns.flag()?;
        let expires = columns.time()?;
        match columns.maybe_word::<NodeId>()? {
            // The answer was lost: the same again.
            Some(node) if node == self.node => return Ok(Enrolled::Of(tenant)),
            Some(_) => return Ok(Enrolled::NoToken),
            None if expires < self.now => return Ok(Enrolled::Expired),
            None => {}
        }
        let before = sqlx::query("SELECT tenant, state FROM nodes WHERE node = $1")
            .bind(self.node.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
        if let Some(row) = before {
            let mut columns = Columns::of("nodes", &row);
            let (owner, state): (TenantId, NodeState) = (columns.word()?, columns.word()?);
            if owner != tenant || matches!(state, NodeState::Held | NodeState::Revoked) {
                return Ok(Enrolled::Refused(state));
            }
        }
        // Two that bring the same token at once: the condition lets one of them.
        let used = sqlx::query("UPDATE node_tokens SET used_by = $2 WHERE digest = $1 AND used_by IS NULL")
            .bind(self.token.clone())
            .bind(self.node.to_string())
            .execute(&mut connection.inner)
            .await?;
        if used.rows_affected() == 0 {
            return Ok(Enrolled::NoToken);
        }
        sqlx::query(
            "INSERT INTO nodes (node, tenant, name, public_key, state, labels, reserved, keep, enrolled, seen, \
             address, most_jobs, failures) VALUES ($1, $2, $3, $4, 'active', $5, $6, 0, $7, $7, $8, 0, 0) \
             ON CONFLICT (node) DO UPDATE SET name = excluded.name, labels = excluded.labels, \
             reserved = excluded.reserved, state = 'active'",
        )
        .bind(self.node.to_string())
        .bind(tenant.to_string())
        .bind(name.to_string())
        .bind(STANDARD.encode(&self.key))
        .bind(json(&labels))
        .bind(i64::from(reserved))
        .bind(kept(self.now))
        .bind(self.address.clone())
        .execute(&mut connection.inner)
        .await?;
        Ok(Enrolled::Of(tenant))
    }
}

/// What a node's machine is, at a start or after a self-test.
#[derive(Debug)]
pub struct Report {
    /// Who reports.
    pub caller: Caller,
    /// The facts, as far as they are believed.
    pub facts: Facts,
    /// When the self-test ran, and for how long.
    pub tested: Option<(Timestamp, u64)>,
    /// As many jobs as it would run at once.
    pub most_jobs: u16,
}

impl Act for Report {
    type Done = std::result::Result<NodeState, NotAdmitted>;

    async fn act(&self, connection: &mut Connection) -> Result<Self::Done> {
        let caller = &self.caller;
        let row = sqlx::query("SELECT state, start_id, facts FROM nodes WHERE node = $1")
            .bind(caller.node.to_string())
            .fetch_optional(&mut connection.inner)
            .await?;
        let Some(row) = row else { return Ok(Err(NotAdmitted::Unknown)) };
        let mut columns = Columns::of("nodes", &row);
        let state: NodeState = columns.word()?;
        let start: Option<StartId> = columns.maybe_word()?;
        let before: Option<Reported> = columns.maybe_json()?;
        match state {
            NodeState::Held => return Ok(Err(NotAdmitted::Held)),
            NodeState::Revoked => return Ok(Err(NotAdmitted::Revoked)),
            NodeState::Active | NodeState::Draining => {}
        }
        if !caller.remember(connection).await? {
            return Ok(Err(NotAdmitted::Replayed));
        }
        if start != Some(caller.start) {
            match caller.older_start(connection).await? {
                NotAdmitted::ReportFirst => self.begin(connection).await?,
                other => return Ok(Err(other)),
            }
        }
        self.keep(connection).await?;
        if before.map(Reported::facts) != Some(self.facts) {
            sqlx::query(
                "INSERT INTO tier_history (node, at, facts) VALUES ($1, $2, $3) \
                 ON CONFLICT (node, at) DO UPDATE SET facts = excluded.facts",
            )
            .bind(caller.node.to_string())
            .bind(kept(caller.now))
            .bind(json(&self.facts))
            .execute(&mut connection.inner)
            .await?;
            // A node that says something else each time fills no disk with it.
            sqlx::query(
                "DELETE FROM tier_history WHERE node = $1 AND at <= \
                 (SELECT at FROM tier_history WHERE node = $1 ORDER BY at DESC LIMIT 1 OFFSET 500)",
            )
            .bind(caller.node.to_string())
            .execute(&mut connection.inner)
            .await?;
        }
        Ok(Ok(state))
    }
}

impl Report {
    /// A start that was never seen.
    async fn begin(&self, connection: &mut Connection) -> Result<()> {
        let caller = &self.caller;
        sqlx::query("INSERT INTO starts (node, start_id, at) VALUES ($1, $2, $3)")
            .bind(caller.node.to_string())
            .bind(caller.start.to_string())
            .bind(kept(caller.now))
            .execute(&mut connection.inner)
            .await?;
        // One that starts again and again is told apart from a copy by its latest starts.
        sqlx::query(
            "DELETE FROM starts WHERE node = $1 AND at <= \
             (SELECT at FROM starts WHERE node = $1 ORDER BY at DESC LIMIT 1 OFFSET 500)",
        )
        .bind(caller.node.to_string())
        .execute(&mut connection.inner)
        .await?;
        sqlx::query(
            "UPDATE nodes SET start_id = $2, start_created = $3, failures = 0, obstacle = NULL, aside_until = NULL \
             WHERE node = $1",
        )
        .bind(caller.node.to_string())
        .bind(caller.start.to_string())
        .bind(i64::try_from(caller.created).unwrap_or(i64::MAX))
        .execute(&mut connection.inner)
        .await?;
        Ok(())
    }

    async fn keep(&self, connection: &mut Connection) -> Result<()> {
        let caller = &self.caller;
        let earned = (platform::routed_tier(&self.facts) == Tier::One).then(|| kept(caller.now));
        sqlx::query(
            "UPDATE nodes SET reported = $2, seen = $2, address = $3, facts = $4, tested = $5, test_took = $6, \
             most_jobs = $7, earned = coalesce(earned, $8) WHERE node = $1",
        )
        .bind(caller.node.to_string())
        .bind(kept(caller.now))
        .bind(caller.address.clone())
        .bind(json(&self.facts))
        .bind(self.tested.map(|(at, _)| kept(at)))
        .bind(self.tested.map(|(_, took)| i64::try_from(took).unwrap_or(i64::MAX)))
        .bind(i64::from(self.most_jobs))
        .bind(earned)
        .execute(&mut connection.inner)
        .await?;
        Ok(())
    }
}

/// Nodes were heard of. Kept together every few seconds, not with every request.
#[derive(Debug)]
pub struct Touch(pub Vec<(NodeId, Timestamp, String)>);

impl Act for Touch {
    type Done = ();

    async fn act(&self, connection: &mut Connection) -> Result<()> {
        for (node, at, address) in &self.0 {
            sqlx::query("UPDATE nodes SET seen = $2, address = $3 WHERE node = $1 AND seen < $2")
                .bind(node.to_string())
                .bind(kept(*at))
                .bind(address.clone())
                .execute(&mut connection.inner)
                .await?;
        }
        Ok(())
    }
}

/// What an operator does with a node. Done: was there such a node, in a state in which that can be done?
#[derive(Debug)]
pub struct Settle {
    /// Which.
    pub node: NodeId,
    /// What.
    pub how: Settlement,
}

/// What can be done with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Nothing new goes to it.
    Drain,
    /// It takes work again: after draining, or after it was settled which machine it is.
    Activate,
    /// It is none any more. Its key is not taken again.
    Revoke,
    /// It stays in the list however long it is not seen.
    Keep(bool),
}

impl Act for Settle {
    type Done = bool;

    async fn act(&self, connection: &mut Connection) -> Result<bool> {
        let statement = match self.how {
            Settlement::Drain => "UPDATE nodes SET state = 'draining' WHERE node = $1 AND state = 'active'",
            // Of a held node no start that was there counts any more: the operator starts the right one anew.
            Settlement::Activate => {
                "UPDATE nodes SET start_id = CASE WHEN state = 'held' THEN NULL ELSE start_id END, \
                 start_created = CASE WHEN state = 'held' THEN NULL ELSE start_created END, \
                 state = 'active', other_address = NULL WHERE node = $1 AND state IN ('draining', 'held')"
            }
            Settlement::Revoke => "UPDATE nodes SET state = 'revoked' WHERE node = $1 AND state <> 'revoked'",
            Settlement::Keep(true) => "UPDATE nodes SET keep = 1 WHERE node = $1",
            Settlement::Keep(false) => "UPDATE nodes SET keep = 0 WHERE node = $1",
        };
        let done = sqlx::query(statement).bind(self.node.to_string()).execute(&mut connection.inner).await?;
        Ok(done.rows_affected() == 1)
    }
}
