//! The command line. Each verb opens the store itself: whoever may read the data directory, or holds the database's
//! URL, is the operator, so the first tenant needs no password, nothing listens for operators, and every verb works
//! while no `oz0 serve` runs. What a verb changes, a running `oz0 serve` sees at once, for it asks the same store.

mod job;
mod node;
mod serve;
mod table;
mod tenant;
mod trigger;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use oz0_fleet::protocol::{JobId, NodeId};
use thiserror::Error;

use crate::name::Name;
use crate::serve::ServeError;
use crate::store::tenants::Tenant;
use crate::store::{Place, Store, StoreError};
use crate::template::BadTemplate;

/// Orchestrator Zero's control plane
#[derive(Debug, Parser)]
#[command(name = "oz0", version, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    wherever: Where,
    #[command(subcommand)]
    verb: Verb,
}

/// Where the database is, and how to answer.
#[derive(Debug, Args)]
struct Where {
    /// The data directory, with a SQLite database in it
    #[arg(long, global = true, value_name = "DIR", env = "OZ0_DATA", default_value = "/var/lib/oz0")]
    data: PathBuf,
    /// A PostgreSQL database instead: postgres://… (in the variable OZ0_DATABASE where it holds a password)
    #[arg(long, global = true, value_name = "URL", env = "OZ0_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
}

impl Where {
    fn place(&self) -> Place {
        self.database.clone().map_or_else(|| Place::Directory(self.data.clone()), Place::Url)
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve nodes, senders and sessions
    Serve(serve::Serve),
    /// Tenants, and tokens for their sessions
    #[command(subcommand)]
    Tenant(tenant::Verb),
    /// One node: tokens, and what an operator does with it
    #[command(subcommand)]
    Node(node::Verb),
    /// List nodes
    Nodes(node::List),
    /// List jobs
    Jobs(job::List),
    /// One job
    #[command(subcommand)]
    Job(job::Verb),
    /// What turns something that comes in into a job
    #[command(subcommand)]
    Trigger(trigger::Verb),
}

/// Why a verb did not do it.
#[derive(Debug, Error)]
pub enum CliError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Serving.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The answer could not be written.
    #[error("cannot write the answer")]
    Output(#[from] std::io::Error),
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no such tenant.
    #[error("there is no tenant {0}: `oz0 tenant create {0}` makes one")]
    NoTenant(Name),
    /// No tenant was named, and there is more than one, or none.
    #[error("name the tenant with --tenant: there {}", if *.0 == 0 { "is none yet, `oz0 tenant create NAME` makes one" } else { "are several" })]
    WhichTenant(usize),
    /// The name is taken.
    #[error("the name {0} is taken")]
    Taken(Name),
    /// There is no such node, or nothing of the kind can be done with it.
    #[error("there is no node {0} with which that can be done")]
    NoNode(NodeId),
    /// There is no such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// A template that cannot be read.
    #[error("not a template")]
    Template(#[from] serde_json::Error),
    /// A template that is not taken.
    #[error(transparent)]
    BadTemplate(#[from] BadTemplate),
    /// No node of the tenant has this label (C167).
    #[error(
        "no node of this tenant has the label {label}{near}; `--allow-unknown-labels` takes it all the same"
    )]
    Label {
        /// Which.
        label: String,
        /// The nearest that is there, in words.
        near: String,
    },
}

type Result<T> = std::result::Result<T, CliError>;

/// Do what was asked.
pub async fn run(arguments: Arguments, out: &mut impl Write) -> Result<()> {
    let Arguments { wherever, verb } = arguments;
    if let Verb::Serve(serve) = verb {
        return serve.run(wherever.place(), out).await;
    }
    let store = Store::open(&wherever.place()).await?;
    let out = &mut Answers { out, json: wherever.json };
    let done = match verb {
        Verb::Serve(_) => Ok(()),
        Verb::Tenant(verb) => verb.run(&store, out).await,
        Verb::Node(verb) => verb.run(&store, out).await,
        Verb::Nodes(list) => list.run(&store, out).await,
        Verb::Jobs(list) => list.run(&store, out).await,
        Verb::Job(verb) => verb.run(&store, out).await,
        Verb::Trigger(verb) => verb.run(&store, out).await,
    };
    store.close().await;
    done
}

/// Where answers go, and in which form.
struct Answers<'a, W> {
    out: &'a mut W,
    json: bool,
}

impl<W: Write> Answers<'_, W> {
    /// An answer for programs, or for people.
    fn give(&mut self, value: &impl serde::Serialize, words: impl FnOnce() -> String) -> Result<()> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { words() };
        Ok(writeln!(self.out, "{}", text.trim_end())?)
    }
}

/// Which tenant.
#[derive(Debug, Args)]
struct OfTenant {
    /// The tenant; without it the only one there is
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
}

impl OfTenant {
    async fn find(&self, store: &Store) -> Result<Tenant> {
        let mut tenants = store.tenants().await?;
        match &self.tenant {
            Some(name) => tenants
                .into_iter()
                .find(|tenant| tenant.name == *name)
                .ok_or(CliError::NoTenant(name.clone())),
            None if tenants.len() == 1 => Ok(tenants.remove(0)),
            None => Err(CliError::WhichTenant(tenants.len())),
        }
    }
}
