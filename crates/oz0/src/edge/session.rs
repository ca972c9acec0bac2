//! What a tenant's own sessions ask, with a tenant's token: submit a job, ask where one would go, look, cancel. Work
//! that starts here may run at tier 0 (T1); what asks for tier 1 waits for it (T4).

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use oz0_fleet::protocol::{Code, DeliveryId, JobId, TenantId};
use serde::{Deserialize, Serialize};

use super::intake::Taken;
use super::{Answer, Edge};
use crate::chance;
use crate::route::Routing;
use crate::store::jobs::{Accept, Accepted, Cancel, Job, JobState};
use crate::template::{LONGEST, Template};

/// As long as a template.
pub(super) const LONGEST_BODY: usize = LONGEST;
/// As much of a log as one answer holds.
const LOG_PAGE: usize = 1024 * 1024;

/// A session of this tenant's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session(TenantId);

impl FromRequestParts<Arc<Edge>> for Session {
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, edge: &Arc<Edge>) -> Result<Session, Answer> {
        let refused = || {
            Answer::new(Code::Token, "no tenant has this token")
                .fix("send `authorization: Bearer TOKEN` with a token from `oz0 tenant token`")
        };
        let value = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = value
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, token) = token.ok_or_else(refused)?;
        // Looked up by its digest: how long that takes says nothing about the token.
        edge.store
            .tenant_by_token(&chance::digest_of(&[token.trim()]))
            .await?
            .map(Session)
            .ok_or_else(refused)
    }
}

impl Session {
    /// One of this tenant's jobs; another tenant's is not there.
    async fn job(self, edge: &Edge, id: &str) -> Result<Job, Answer> {
        let unknown = || Answer::not_found("there is no such job");
        let job = edge.store.job(id.parse().map_err(|_| unknown())?).await?.ok_or_else(unknown)?;
        if job.tenant == self.0 { Ok(job) } else { Err(unknown()) }
    }
}

fn template(body: &[u8]) -> Result<Template, Answer> {
    let template: Template =
        serde_json::from_slice(body).map_err(|error| Answer::bad_request(format!("not a job: {error}")))?;
    template.check(false).map_err(|why| Answer::bad_request(why.to_string()))?;
    Ok(template)
}

/// Take a job in. With the header `idempotency-key` the same key again is the same job.
pub(super) async fn submit(
    State(edge): State<Arc<Edge>>,
    Session(tenant): Session,
    request: Request,
) -> Result<Response, Answer> {
    let key = request.headers().get("idempotency-key").map(|key| key.as_bytes().to_vec());
    let body: Bytes = super::signed::body(request, &()).await?;
    let template = template(&body)?;
    edge.rates.take(tenant, Instant::now())?;
    let now = chance::now();
    let job = JobId::new(now, chance::bytes()?);
    let delivery = match key {
        Some(key) => chance::name_of(&["session", &tenant.to_string(), &String::from_utf8_lossy(&key)]),
        None => job.bytes(),
    };
    let need = template.need();
    let work = serde_json::to_string(&template.work)
        .map_err(|_| Answer::bad_request("the work cannot be written"))?;
    let accept = Accept {
        job,
        tenant,
        origin: format!("session {tenant}"),
        delivery: DeliveryId::from_bytes(delivery),
        need: need.clone(),
        work,
        outside: false,
        now,
        wait_until: now.after(template.wait_ms),
    };
    let taken = match edge.store.act(accept).await? {
        Accepted::New => {
            edge.queued(tenant, &need, 1);
            edge.metrics.intake(None);
            Taken { job, known: false }
        }
        Accepted::Known(job) => Taken { job, known: true },
        Accepted::NoTierOne => return Err(Answer::new(Code::Unavailable, "the job was not kept")),
    };
    let status = if taken.known { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(taken)).into_response())
}

/// Where such a job would go now. Nothing is kept.
pub(super) async fn dry_run(
    State(edge): State<Arc<Edge>>,
    Session(tenant): Session,
    body: Bytes,
) -> Result<Json<Routed>, Answer> {
    let routing = edge.store.routing(tenant, &template(&body)?.need(), chance::now()).await?;
    Ok(Json(Routed { waiting: routing.waiting(), routing }))
}

/// A routing with its words.
#[derive(Debug, Serialize)]
pub(super) struct Routed {
    #[serde(flatten)]
    routing: Routing,
    waiting: String,
}

/// A job, and why it waits where it does.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    job: Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<String>,
}

/// One job.
pub(super) async fn show(
    State(edge): State<Arc<Edge>>,
    session: Session,
    Path(job): Path<String>,
) -> Result<Json<Shown>, Answer> {
    let job = session.job(&edge, &job).await?;
    let waiting = match job.state {
        JobState::Queued => Some(edge.store.routing(job.tenant, &job.need, chance::now()).await?.waiting()),
        _ => None,
    };
    Ok(Json(Shown { job, waiting }))
}

/// Which part of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    before: Option<String>,
}

/// The tenant's jobs, the latest first, a hundred at a time.
pub(super) async fn list(
    State(edge): State<Arc<Edge>>,
    Session(tenant): Session,
    Query(page): Query<Page>,
) -> Result<Json<Vec<Job>>, Answer> {
    let before = page.before.map(|before| before.parse()).transpose();
    let before = before.map_err(|_| Answer::bad_request("before is not a job's id"))?;
    Ok(Json(edge.store.jobs(tenant, before, 100).await?))
}

/// Which part of a log.
#[derive(Debug, Deserialize)]
pub(super) struct LogPage {
    #[serde(default)]
    from: u64,
}

/// The log of a job's last attempt, as it came.
pub(super) async fn log(
    State(edge): State<Arc<Edge>>,
    session: Session,
    Path(job): Path<String>,
    Query(page): Query<LogPage>,
) -> Result<Response, Answer> {
    let job = session.job(&edge, &job).await?;
    let log = edge.store.log(job.job, job.fence, page.from, LOG_PAGE).await?;
    // Never a page: whatever a command printed is only bytes to whoever reads it.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, log).into_response())
}

/// A job's state.
#[derive(Debug, Serialize)]
pub(super) struct Now {
    state: JobState,
}

/// Cancel a job.
pub(super) async fn cancel(
    State(edge): State<Arc<Edge>>,
    session: Session,
    Path(job): Path<String>,
) -> Result<Json<Now>, Answer> {
    let job = session.job(&edge, &job).await?;
    let state = edge.store.act(Cancel { job: job.job, now: chance::now() }).await?;
    if let (Some(JobState::Leased), Some(node)) = (state, job.node) {
        edge.tell(node);
    }
    state.map(|state| Json(Now { state })).ok_or_else(|| Answer::not_found("there is no such job"))
}
