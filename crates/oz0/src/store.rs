//! What is kept: the only place that knows a table. SQLite in a data directory by default, PostgreSQL by URL, one set
//! of statements for both.
//!
//! Whatever changes something is an [`Act`]: a value that says all of it, so that it can be run again. Acts that come
//! in together are committed together ([`writer`]). Whatever only looks is a function that returns plain views; pages,
//! the command line and the API all call the same ones (C160). Nothing here decides what is routed where.

mod dialect;
pub mod jobs;
pub mod lease;
pub mod logs;
pub mod nodes;
pub mod nonces;
mod row;
mod schema;
pub mod sweep;
pub mod tenants;
pub mod triggers;
mod writer;

use std::path::PathBuf;

use sqlx::{AnyConnection, AnyPool};
use thiserror::Error;

pub use dialect::Dialect;
pub use writer::Act;

/// Where the database is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file `oz0.db` in this data directory, which is made where it is missing.
    Directory(PathBuf),
    /// PostgreSQL, or what speaks its language.
    Url(String),
}

impl std::fmt::Debug for Place {
    /// A URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Directory(path) => write!(f, "{}", path.display()),
            Place::Url(_) => f.write_str("PostgreSQL"),
        }
    }
}

/// Why something could not be kept or found.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The URL is of no database that is known here.
    #[error("not a database's URL: it begins with postgres://")]
    Url,
    /// The database is newer than this program.
    #[error("the database has schema {found}, this oz0 knows {known}: start a newer oz0")]
    Newer {
        /// What it has.
        found: i64,
        /// What is known.
        known: i64,
    },
    /// The database cannot be asked.
    #[error("the database does not answer")]
    Database(#[source] sqlx::Error),
    /// Something in it is not what was written there.
    #[error("{table} holds something that was not written by oz0")]
    Row {
        /// Where.
        table: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// There is no randomness to be had.
    #[error("no randomness to be had")]
    Randomness,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        StoreError::Database(error)
    }
}

/// What most functions here return.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    dialect: Dialect,
    readers: AnyPool,
    writers: writer::Writers,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the store in {:?}", self.dialect)
    }
}

impl Store {
    /// Open it, making or raising the schema first.
    pub async fn open(place: &Place) -> Result<Store> {
        let (dialect, url) = dialect::locate(place)?;
        let mut connection = dialect.connect(&url).await?;
        schema::raise(&mut connection, dialect).await?;
        let readers = dialect.readers(&url).await?;
        let writers = writer::Writers::start(dialect, url, connection).await?;
        Ok(Store { dialect, readers, writers })
    }

    /// Which database it is.
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Do it, and come back when it is on the disk.
    pub async fn act<A: Act>(&self, act: A) -> Result<A::Done> {
        self.writers.act(act).await
    }

    /// Does the database answer, for reading and for writing?
    pub async fn ping(&self) -> Result<()> {
        struct Ping;
        impl Act for Ping {
            type Done = ();
            async fn act(&self, connection: &mut Connection) -> Result<()> {
                sqlx::query("SELECT count(*) FROM tenants").fetch_one(&mut connection.inner).await?;
                Ok(())
            }
        }
        self.act(Ping).await
    }

    /// Finish what was begun, and let go of the database.
    pub async fn close(&self) {
        self.writers.close().await;
        self.readers.close().await;
    }

    async fn reader(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Any>> {
        Ok(self.readers.acquire().await?)
    }
}

/// A connection inside a transaction.
#[derive(Debug)]
pub struct Connection {
    inner: AnyConnection,
    dialect: Dialect,
}
