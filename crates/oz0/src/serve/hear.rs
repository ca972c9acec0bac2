//! Several oz0 on one PostgreSQL tell each other what they queue, by LISTEN and NOTIFY. Where that is missing or broken
//! nothing is lost: the clockwork looks every second.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use oz0_fleet::protocol::TenantId;
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::watch;

use crate::edge::{Announced, Edge};
use crate::route::Need;
use crate::store::Place;

/// What they call it.
const CHANNEL: &str = "oz0_queued";
/// Between two tries to reach the database.
const PAUSE: Duration = Duration::from_secs(5);

pub(super) async fn run(
    edge: Arc<Edge>,
    place: Place,
    mut announced: Announced,
    mut stopped: watch::Receiver<bool>,
) {
    let ended = async {
        drop(stopped.wait_for(|stopped| *stopped).await);
    };
    let work = async {
        match place {
            Place::Directory(_) => while announced.recv().await.is_some() {},
            Place::Url(url) => loop {
                if let Err(error) = between(&edge, &url, &mut announced).await {
                    tracing::warn!(%error, "other oz0 are not heard; jobs that they queue are found every second");
                }
                tokio::time::sleep(PAUSE).await;
                // What was queued meanwhile the others have found by themselves; kept, it would only grow.
                while announced.try_recv().is_ok() {}
            },
        }
    };
    tokio::select! {
        () = ended => {}
        () = work => {}
    }
}

/// Tell and hear until something breaks.
async fn between(edge: &Edge, url: &str, announced: &mut Announced) -> sqlx::Result<()> {
    let pool = PgPoolOptions::new().max_connections(1).connect(url).await?;
    let mut listener = PgListener::connect(url).await?;
    listener.listen(CHANNEL).await?;
    let me: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await?;
    loop {
        tokio::select! {
            heard = listener.try_recv() => {
                let Some(heard) = heard? else { return Ok(()) };
                // Our own was acted on when it was queued.
                if heard.process_id() != me.unsigned_abs()
                    && let Ok((tenant, need)) = serde_json::from_str::<(TenantId, Need)>(heard.payload())
                {
                    edge.heard(tenant, &need);
                }
            }
            first = announced.recv() => {
                let Some(first) = first else { return Ok(()) };
                tell(&pool, first, announced).await?;
            }
        }
    }
}

/// However many were queued meanwhile: each need is told once.
async fn tell(pool: &PgPool, first: (TenantId, Need), announced: &mut Announced) -> sqlx::Result<()> {
    let mut needs = HashSet::from([first]);
    while let Ok(next) = announced.try_recv() {
        needs.insert(next);
    }
    for need in needs {
        let payload = serde_json::to_string(&need).unwrap_or_default();
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(payload).execute(pool).await?;
    }
    Ok(())
}
