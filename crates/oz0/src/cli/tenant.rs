//! `oz0 tenant`.

use std::io::Write;

use clap::Subcommand;
use oz0_fleet::protocol::TenantId;
use serde_json::json;

use super::table::table;
use super::{Answers, CliError, OfTenant, Result};
use crate::chance::{bytes, now, token};
use crate::name::Name;
use crate::store::Store;
use crate::store::tenants::{Create, GiveTenantToken, Tenant};

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a tenant
    Create {
        /// What it is called
        name: Name,
    },
    /// List tenants
    List,
    /// Make a token with which a tenant's own sessions submit jobs; shown once
    Token {
        #[command(flatten)]
        of: OfTenant,
        /// What it is for
        #[arg(long, default_value = "session")]
        name: Name,
    },
}

impl Verb {
    pub(super) async fn run(self, store: &Store, out: &mut Answers<'_, impl Write>) -> Result<()> {
        match self {
            Verb::Create { name } => {
                let tenant = Tenant { tenant: TenantId::from_bytes(bytes()?), name, created: now() };
                if !store.act(Create(tenant.clone())).await? {
                    return Err(CliError::Taken(tenant.name));
                }
                out.give(&tenant, || format!("{} is {}", tenant.name, tenant.tenant))
            }
            Verb::List => {
                let tenants = store.tenants().await?;
                out.give(&tenants, || {
                    let row = |tenant: &Tenant| [tenant.name.to_string(), tenant.tenant.to_string()];
                    table(["tenant", "id"], tenants.iter().map(row))
                })
            }
            Verb::Token { of, name } => {
                let tenant = of.find(store).await?.tenant;
                let (token, digest) = token("oz0-session-")?;
                store.act(GiveTenantToken { digest, tenant, name, at: now() }).await?;
                out.give(&json!({"token": token}), || token.clone())
            }
        }
    }
}
