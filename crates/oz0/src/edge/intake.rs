//! What comes in from outside a tenant: believed by its trigger's secret, made into a job once for each delivery.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use oz0_fleet::protocol::{Base64, Code, DeliveryId, Input, JobId, Work};
use serde::Serialize;

use super::source::{Delivery, believe};
use super::{Answer, Edge, Source};
use crate::chance;
use crate::store::jobs::{Accept, Accepted};
use crate::store::triggers::Trigger;

/// No delivery is longer than this many bytes.
pub(super) const LONGEST_BODY: usize = 1024 * 1024;

/// A delivery that was taken.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    /// The job.
    pub(super) job: JobId,
    /// Was the same delivery taken before?
    pub(super) known: bool,
}

/// Take one delivery.
pub(super) async fn take(
    State(edge): State<Arc<Edge>>,
    Path(trigger): Path<String>,
    request: Request,
) -> Result<Response, Answer> {
    let result = taken(&edge, &trigger, request).await;
    edge.metrics.intake(result.as_ref().err().map(Answer::code));
    result
}

async fn taken(edge: &Edge, trigger: &str, request: Request) -> Result<Response, Answer> {
    let unknown = || Answer::not_found("there is no such trigger");
    let trigger = edge.store.trigger(trigger.parse().map_err(|_| unknown())?).await?.ok_or_else(unknown)?;
    let headers = request.headers().clone();
    let body = super::signed::body(request, &()).await?;
    let now = chance::now();
    let id = match believe(trigger.source, &trigger.secret, &headers, &body, now)? {
        Delivery::Answer(answer) => return Ok(Json(answer).into_response()),
        Delivery::Event { id } => id,
    };
    // Only what is believed counts: nobody else can use up a tenant's share.
    edge.rates.take(trigger.tenant, Instant::now())?;
    let origin = trigger.trigger.to_string();
    let need = trigger.template.need();
    let accept = Accept {
        job: JobId::new(now, chance::bytes()?),
        tenant: trigger.tenant,
        delivery: DeliveryId::from_bytes(chance::name_of(&[&origin, &id])),
        origin,
        need: need.clone(),
        work: work(&trigger, body.to_vec())?,
        outside: true,
        now,
        wait_until: now.after(trigger.template.wait_ms),
    };
    let job = accept.job;
    let taken = match edge.store.act(accept).await? {
        Accepted::New => {
            edge.queued(trigger.tenant, &need, 1);
            Taken { job, known: false }
        }
        Accepted::Known(job) => Taken { job, known: true },
        Accepted::NoTierOne => return Err(no_tier_one()),
    };
    // Slack takes nothing but 200 for an answer.
    let status =
        if taken.known || trigger.source == Source::Slack { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(taken)).into_response())
}

/// T4, in words.
fn no_tier_one() -> Answer {
    Answer::new(
        Code::NoTierOneNode,
        "work from outside needs tier 1, and no node of this tenant ever earned it; nothing was kept",
    )
    .fix(
        "add a Linux node whose self-test passes (`oz0 node token`, then `oz0-node run` on it; Windows nodes are \
         routed as tier 0), and send this again: it is taken as soon as that node has reported",
    )
}

fn work(trigger: &Trigger, body: Vec<u8>) -> Result<String, Answer> {
    let work = Work { input: Some(Input { body: Base64(body) }), ..trigger.template.work.clone() };
    serde_json::to_string(&work)
        .map_err(|_| Answer::new(Code::Unavailable, "the trigger's template cannot be written"))
}
