//! What nodes ask of the queue: jobs, to keep them, to take their logs and their endings.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use oz0_fleet::protocol::{
    Code, Finish, Finished, LeaseRequest, Leased, LogTaken, MOST_JOBS, Milliseconds, Renew, Renewed,
};
use tokio::time::Instant;

use super::signed::Sent;
use super::{Answer, Edge};
use crate::chance::now;
use crate::store::nonces::Caller;
use crate::store::{lease, logs};

/// A poll is answered after this long at the latest: before proxies on the way lose patience, and well before a node
/// that waits would seem off line.
const LONGEST_POLL: Milliseconds = Milliseconds::seconds(30);

/// Jobs for this node, as soon as there are any.
pub(super) async fn lease(State(edge): State<Arc<Edge>>, sent: Sent) -> Result<Json<Leased>, Answer> {
    let (mut caller, tenant) = sent.caller_of(&edge).await?;
    let request: LeaseRequest = sent.json()?;
    let deadline = Instant::now() + Duration::from(request.wait_ms.min(LONGEST_POLL));
    let mut ending = edge.ending.subscribe();
    let mut admitted = false;
    loop {
        let epoch = edge.wake.epoch(tenant);
        let (leased, node) = take(&edge, &caller, admitted, &request).await?;
        admitted = true;
        if !leased.jobs.is_empty() || !leased.cancel.is_empty() || Instant::now() >= deadline {
            edge.metrics.leased(leased.jobs.len());
            return Ok(Json(leased));
        }
        let ticket = edge.wake.wait(node, request.capacity.kinds.clone(), epoch);
        tokio::select! {
            () = ticket.woken() => {}
            () = tokio::time::sleep_until(deadline) => {}
            _ = ending.wait_for(|ending| *ending) => return Ok(Json(leased)),
        }
        caller.now = now();
        edge.saw(caller.node, caller.now, &caller.address);
    }
}

async fn take(
    edge: &Edge,
    caller: &Caller,
    admitted: bool,
    request: &LeaseRequest,
) -> Result<(Leased, crate::route::Node), Answer> {
    let take = lease::Take { caller: caller.clone(), admitted, capacity: request.capacity.clone() };
    Ok(edge.store.act(take).await??)
}

/// Keep what this node has.
pub(super) async fn renew(State(edge): State<Arc<Edge>>, sent: Sent) -> Result<Json<Renewed>, Answer> {
    let caller = sent.caller(&edge).await?;
    let Renew { held } = sent.json()?;
    at_most(held.len())?;
    Ok(Json(edge.store.act(lease::Renew { caller, held }).await??))
}

/// Runs that ended.
pub(super) async fn finish(State(edge): State<Arc<Edge>>, sent: Sent) -> Result<Json<Finished>, Answer> {
    let caller = sent.caller(&edge).await?;
    let Finish { endings } = sent.json()?;
    at_most(endings.len())?;
    edge.metrics.finished(&endings);
    let (finished, again) = edge.store.act(lease::Finish { caller, endings }).await??;
    if again {
        for (tenant, need) in edge.store.queued_needs().await? {
            edge.queued(tenant, &need, 1);
        }
    }
    Ok(Json(finished))
}

fn at_most(count: usize) -> Result<(), Answer> {
    if count > MOST_JOBS {
        Err(Answer::bad_request(format!("more than {MOST_JOBS} at once")))
    } else {
        Ok(())
    }
}

/// A piece of a job's log.
pub(super) async fn log(State(edge): State<Arc<Edge>>, sent: Sent) -> Result<Json<LogTaken>, Answer> {
    let caller = sent.caller(&edge).await?;
    let place = sent.query().parse().map_err(|_| Answer::bad_request("the query is not a place in a log"))?;
    let append = logs::Append { caller, place, bytes: sent.bytes().to_vec() };
    let taken = edge.store.act(append).await??;
    taken
        .map(Json)
        .ok_or_else(|| Answer::new(Code::NotFound, "this node does not have this job under this fence"))
}
