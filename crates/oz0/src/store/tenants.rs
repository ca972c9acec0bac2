//! Tenants, and the tokens that are given out in their name. Tokens are kept as digests.

use std::collections::BTreeSet;

use oz0_fleet::protocol::{TenantId, Timestamp};
use serde::Serialize;

use super::row::{Columns, json, kept};
use super::{Act, Connection, Result, Store};
use crate::name::{Label, Name};

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tenant {
    /// Its id.
    pub tenant: TenantId,
    /// Its name.
    pub name: Name,
    /// Since when.
    pub created: Timestamp,
}

/// Make a tenant. Done: was the name free?
#[derive(Debug)]
pub struct Create(pub Tenant);

impl Act for Create {
    type Done = bool;

    async fn act(&self, connection: &mut Connection) -> Result<bool> {
        let made = sqlx::query(
            "INSERT INTO tenants (tenant, name, created) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
        )
        .bind(self.0.tenant.to_string())
        .bind(self.0.name.to_string())
        .bind(kept(self.0.created))
        .execute(&mut connection.inner)
        .await?;
        Ok(made.rows_affected() == 1)
    }
}

/// A token for a tenant's own sessions.
#[derive(Debug)]
pub struct GiveTenantToken {
    /// Its digest.
    pub digest: String,
    /// Whose.
    pub tenant: TenantId,
    /// What the operator calls it.
    pub name: Name,
    /// Now.
    pub at: Timestamp,
}

impl Act for GiveTenantToken {
    type Done = ();

    async fn act(&self, connection: &mut Connection) -> Result<()> {
        sqlx::query("INSERT INTO tenant_tokens (digest, tenant, name, created) VALUES ($1, $2, $3, $4)")
            .bind(self.digest.clone())
            .bind(self.tenant.to_string())
            .bind(self.name.to_string())
            .bind(kept(self.at))
            .execute(&mut connection.inner)
            .await?;
        Ok(())
    }
}

/// A one-use token for a node.
#[derive(Debug)]
pub struct GiveNodeToken {
    /// Its digest.
    pub digest: String,
    /// Whose.
    pub tenant: TenantId,
    /// What the node will be called.
    pub name: Name,
    /// Its labels.
    pub labels: BTreeSet<Label>,
    /// Is it kept for jobs that ask for one?
    pub reserved: bool,
    /// Until when the token can be used.
    pub expires: Timestamp,
}

impl Act for GiveNodeToken {
    type Done = ();

    async fn act(&self, connection: &mut Connection) -> Result<()> {
        sqlx::query(
            "INSERT INTO node_tokens (digest, tenant, name, labels, reserved, expires) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(self.digest.clone())
        .bind(self.tenant.to_string())
        .bind(self.name.to_string())
        .bind(json(&self.labels))
        .bind(i64::from(self.reserved))
        .bind(kept(self.expires))
        .execute(&mut connection.inner)
        .await?;
        Ok(())
    }
}

impl Store {
    /// Every tenant, by name.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        let rows = sqlx::query("SELECT tenant, name, created FROM tenants ORDER BY name")
            .fetch_all(&mut *self.reader().await?)
            .await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of("tenants", row);
                Ok(Tenant { tenant: columns.word()?, name: columns.word()?, created: columns.time()? })
            })
            .collect()
    }

    /// The tenant with this name.
    pub async fn tenant(&self, name: &Name) -> Result<Option<Tenant>> {
        Ok(self.tenants().await?.into_iter().find(|tenant| tenant.name == *name))
    }

    /// Whose token has this digest?
    pub async fn tenant_by_token(&self, digest: &str) -> Result<Option<TenantId>> {
        let row = sqlx::query("SELECT tenant FROM tenant_tokens WHERE digest = $1")
            .bind(digest.to_owned())
            .fetch_optional(&mut *self.reader().await?)
            .await?;
        row.map(|row| Columns::of("tenant_tokens", &row).word()).transpose()
    }
}
