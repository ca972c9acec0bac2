//! The two databases, and all in which they differ.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool};
use sqlx::{Connection as _, Executor as _};

use super::{Place, Result, StoreError};

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// One file, one writer.
    Sqlite,
    /// A server that several oz0 share.
    Postgres,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Sqlite => "SQLite",
            Dialect::Postgres => "PostgreSQL",
        })
    }
}

/// Which database a place means, and its URL. Makes the data directory.
pub(super) fn locate(place: &Place) -> Result<(Dialect, String)> {
    // The second time changes nothing.
    sqlx::any::install_default_drivers();
    match place {
        Place::Url(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok((Dialect::Postgres, url.clone()))
        }
        Place::Url(_) => Err(StoreError::Url),
        Place::Directory(path) => {
            let failed = |source| StoreError::Directory { path: path.clone(), source };
            // It holds secrets of triggers: nobody else's to read.
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
            let path = path.canonicalize().map_err(failed)?.join("oz0.db");
            let path: String =
                path.as_os_str().as_encoded_bytes().iter().map(|byte| encoded(*byte)).collect();
            Ok((Dialect::Sqlite, format!("sqlite://{path}?mode=rwc")))
        }
    }
}

/// A byte of a path as a URL has it.
fn encoded(byte: u8) -> String {
    match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

impl Dialect {
    /// One connection, set up.
    pub(super) async fn connect(self, url: &str) -> Result<AnyConnection> {
        let mut connection = AnyConnection::connect(url).await?;
        self.prepare(&mut connection).await?;
        Ok(connection)
    }

    /// FULL: what was answered is on the disk, whatever happens to the machine. NORMAL would lose the last commits in
    /// WAL mode, and a lease that was given out and forgotten lets a job run twice.
    async fn prepare(self, connection: &mut AnyConnection) -> sqlx::Result<()> {
        match self {
            Dialect::Sqlite => {
                connection
                    .execute(
                        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 10000; \
                         PRAGMA foreign_keys = ON; PRAGMA cache_size = -32000",
                    )
                    .await?;
            }
            Dialect::Postgres => {
                // A statement that waits for a lock longer than this is stuck: its act fails and is tried again.
                connection.execute("SET lock_timeout = '10s'").await?;
            }
        }
        Ok(())
    }

    /// Connections that only look.
    pub(super) async fn readers(self, url: &str) -> Result<AnyPool> {
        Ok(AnyPoolOptions::new()
            .max_connections(4)
            .acquire_timeout(Duration::from_secs(10))
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    self.prepare(connection).await?;
                    let read_only = match self {
                        Dialect::Sqlite => "PRAGMA query_only = ON",
                        Dialect::Postgres => "SET default_transaction_read_only = on",
                    };
                    connection.execute(read_only).await.map(drop)
                })
            })
            .connect(url)
            .await?)
    }

    /// How many may write at once. SQLite has one writer; a second would only wait for it.
    pub(super) const fn writers(self) -> usize {
        match self {
            Dialect::Sqlite => 1,
            Dialect::Postgres => 3,
        }
    }

    /// SQLite: a transaction that first reads and then finds another writer has to fail; this one waits first.
    pub(super) const fn begin(self) -> &'static str {
        match self {
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            Dialect::Postgres => "BEGIN",
        }
    }

    /// What a migration calls bytes.
    pub(super) const fn bytes(self) -> &'static str {
        match self {
            Dialect::Sqlite => "BLOB",
            Dialect::Postgres => "BYTEA",
        }
    }

    /// Two oz0 that start at once raise the schema one after the other.
    pub(super) async fn lock_schema(self, connection: &mut AnyConnection) -> sqlx::Result<()> {
        if self == Dialect::Postgres {
            connection.execute("SELECT pg_advisory_xact_lock(5171893074)").await?;
        }
        Ok(())
    }
}
