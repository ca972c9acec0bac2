//! Triggers: what turns something that comes in into a job.

use oz0_fleet::protocol::{Secret, TenantId, Timestamp, TriggerId};
use serde::Serialize;
use sqlx::any::AnyRow;

use super::row::{Columns, json, kept};
use super::{Act, Connection, Result, Store};
use crate::edge::Source;
use crate::name::Name;
use crate::route::Need;
use crate::template::Template;

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trigger {
    /// Its id, part of the address that a sender is given.
    pub trigger: TriggerId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What the operator calls it.
    pub name: Name,
    /// Who sends.
    pub source: Source,
    /// What the sender signs with. Shown once, when it is made.
    #[serde(skip)]
    pub secret: Secret,
    /// What a job of it does.
    pub template: Template,
    /// Since when.
    pub created: Timestamp,
}

/// A need's id: the same need of the same tenant always has the same.
pub(super) fn need_id(tenant: TenantId, need: &Need) -> String {
    crate::chance::digest_of(&["need", &tenant.to_string(), &json(need)])
}

/// Let a need be known, so that jobs may have it.
pub(super) async fn know(connection: &mut Connection, tenant: TenantId, need: &Need) -> Result<String> {
    let id = need_id(tenant, need);
    sqlx::query("INSERT INTO needs (need, tenant, asks) VALUES ($1, $2, $3) ON CONFLICT (need) DO NOTHING")
        .bind(id.clone())
        .bind(tenant.to_string())
        .bind(json(need))
        .execute(&mut connection.inner)
        .await?;
    Ok(id)
}

/// Make a trigger. Done: was the name free?
#[derive(Debug)]
pub struct Create(pub Trigger);

impl Act for Create {
    type Done = bool;

    async fn act(&self, connection: &mut Connection) -> Result<bool> {
        let trigger = &self.0;
        let need = know(connection, trigger.tenant, &trigger.template.need()).await?;
        let made = sqlx::query(
            "INSERT INTO triggers (trigger_id, tenant, name, source, secret, template, need, created) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, name) DO NOTHING",
        )
        .bind(trigger.trigger.to_string())
        .bind(trigger.tenant.to_string())
        .bind(trigger.name.to_string())
        .bind(trigger.source.to_string())
        .bind(trigger.secret.reveal().to_owned())
        .bind(json(&trigger.template))
        .bind(need)
        .bind(kept(trigger.created))
        .execute(&mut connection.inner)
        .await?;
        Ok(made.rows_affected() == 1)
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT trigger_id, tenant, name, source, secret, template, created FROM triggers ", $rest)
    };
}

fn trigger(row: &AnyRow) -> Result<Trigger> {
    let mut columns = Columns::of("triggers", row);
    Ok(Trigger {
        trigger: columns.word()?,
        tenant: columns.word()?,
        name: columns.word()?,
        source: columns.word()?,
        secret: Secret::new(columns.text()?),
        template: columns.json()?,
        created: columns.time()?,
    })
}

impl Store {
    /// One trigger.
    pub async fn trigger(&self, id: TriggerId) -> Result<Option<Trigger>> {
        let row = sqlx::query(select!("WHERE trigger_id = $1"))
            .bind(id.to_string())
            .fetch_optional(&mut *self.reader().await?)
            .await?;
        row.as_ref().map(trigger).transpose()
    }

    /// A tenant's triggers, by name.
    pub async fn triggers(&self, tenant: TenantId) -> Result<Vec<Trigger>> {
        let rows = sqlx::query(select!("WHERE tenant = $1 ORDER BY name"))
            .bind(tenant.to_string())
            .fetch_all(&mut *self.reader().await?)
            .await?;
        rows.iter().map(trigger).collect()
    }
}
