//! The schema and how it is raised: forward only, each step in one transaction, never from a newer one.

use sqlx::AnyConnection;
use sqlx::{AssertSqlSafe, Executor as _};

use super::row::Columns;
use super::{Dialect, Result, StoreError};

/// Each raises the schema by one.
const STEPS: [&str; 1] = [include_str!("../../migrations/0001_begin.sql")];

/// The newest schema that is known.
pub(super) const KNOWN: i64 = STEPS.len() as i64;

/// Raise the database to [`KNOWN`].
pub(super) async fn raise(connection: &mut AnyConnection, dialect: Dialect) -> Result<()> {
    connection.execute(dialect.begin()).await?;
    match raise_locked(connection, dialect).await {
        Ok(()) => {
            connection.execute("COMMIT").await?;
            Ok(())
        }
        Err(error) => {
            connection.execute("ROLLBACK").await?;
            Err(error)
        }
    }
}

async fn raise_locked(connection: &mut AnyConnection, dialect: Dialect) -> Result<()> {
    dialect.lock_schema(connection).await?;
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)").await?;
    let row = sqlx::query("SELECT coalesce(max(version), 0) FROM schema_version")
        .fetch_one(&mut *connection)
        .await?;
    let found: i64 = Columns::of("schema_version", &row).number()?;
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        connection.execute(sqlx::raw_sql(AssertSqlSafe(step.replace("{bytes}", dialect.bytes())))).await?;
    }
    if found < KNOWN {
        sqlx::query("DELETE FROM schema_version").execute(&mut *connection).await?;
        sqlx::query("INSERT INTO schema_version (version) VALUES ($1)")
            .bind(KNOWN)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
