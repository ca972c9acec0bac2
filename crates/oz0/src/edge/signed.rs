//! Requests that a node signed: read, verified, and who it is. Whether it may is decided where it is done.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::HeaderMap;
use oz0_fleet::protocol::signature::{CLOCK_TOLERANCE, Claim};
use oz0_fleet::protocol::{Code, Milliseconds, NodeId, TenantId, Version, Versions};
use serde::de::DeserializeOwned;

use super::{Answer, Edge};
use crate::chance::now;
use crate::store::nonces::{Caller, NotAdmitted};

/// Public keys of nodes that were seen. A node's key never changes, so none goes stale; whether the node still may
/// do anything is asked of the store each time.
#[derive(Debug, Default)]
pub(crate) struct Keys(RwLock<HashMap<NodeId, Known>>);

/// A node's public key, and whose it is: neither changes.
#[derive(Clone, Debug)]
struct Known {
    key: Arc<[u8]>,
    tenant: TenantId,
}

/// As many keys as are remembered.
const MOST_KEYS: usize = 100_000;

impl Keys {
    async fn of(&self, edge: &Edge, node: NodeId) -> Result<Option<Known>, Answer> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&node) {
            return Ok(Some(known.clone()));
        }
        let Some((tenant, key)) = edge.store.node_key(node).await? else { return Ok(None) };
        let known = Known { key: key.into(), tenant };
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if keys.len() < MOST_KEYS {
            keys.insert(node, known.clone());
        }
        Ok(Some(known))
    }
}

/// A signed request. With which key it is signed is not known yet.
#[derive(Debug)]
pub(crate) struct Sent {
    method: String,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Bytes,
    address: String,
}

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = Answer;

    async fn from_request(request: Request, state: &S) -> Result<Sent, Answer> {
        let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map_or_else(
            || "unknown".to_owned(),
            |ConnectInfo(address)| address.ip().to_canonical().to_string(),
        );
        let method = request.method().as_str().to_owned();
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let headers = request.headers().clone();
        let body = body(request, state).await?;
        Ok(Sent { method, path, query, headers, body, address })
    }
}

/// A body, as far as it is as long as it may be.
pub(super) async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Answer> {
    Bytes::from_request(request, state).await.map_err(|rejection| {
        if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
            Answer::new(Code::TooLarge, "the body is longer than this address takes")
        } else {
            Answer::bad_request("the body ended too soon")
        }
    })
}

impl Sent {
    /// What follows `?`.
    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// The body's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // The position, never the text: it may be anyone's.
            Answer::bad_request(format!(
                "the body is not understood at line {}, column {}",
                error.line(),
                error.column()
            ))
        })
    }

    /// From where it came.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn claim(&self) -> Result<Claim<'_>, Answer> {
        Claim::read(&self.method, &self.path, &self.query, |name| {
            // Twice is none: which one counts would be anyone's guess.
            let mut values = self.headers.get_all(name).iter();
            let value = values.next()?;
            if values.next().is_some() { None } else { value.to_str().ok() }
        })
        .map_err(|why| Answer::new(Code::BadSignature, why.to_string()))
    }

    /// Verified with the key of the node that it names.
    pub(crate) async fn caller(&self, edge: &Edge) -> Result<Caller, Answer> {
        self.caller_of(edge).await.map(|(caller, _)| caller)
    }

    /// The same, and whose node it is.
    pub(crate) async fn caller_of(&self, edge: &Edge) -> Result<(Caller, TenantId), Answer> {
        let claim = self.claim()?;
        let Some(Known { key, tenant }) = edge.keys.of(edge, claim.parameters.node).await? else {
            return Err(NotAdmitted::Unknown.into());
        };
        let caller = self.verify(&claim, &key)?;
        edge.saw(caller.node, caller.now, &caller.address);
        Ok((caller, tenant))
    }

    /// Verified with this key, whoever it names.
    pub(crate) fn with_key(&self, key: &[u8]) -> Result<Caller, Answer> {
        self.verify(&self.claim()?, key)
    }

    fn verify(&self, claim: &Claim<'_>, key: &[u8]) -> Result<Caller, Answer> {
        claim.verify(key, &self.body).map_err(|why| Answer::new(Code::BadSignature, why.to_string()))?;
        let now = now();
        if let Some(skew) = claim.parameters.skew(now) {
            let reason = format!("this node's clock is {skew} of the edge's");
            return Err(Answer::new(Code::Clock, reason)
                .fix("set the machine's clock, by NTP for one; the edge's time is in edge_time")
                .at(now));
        }
        speaks(claim.version())?;
        Ok(Caller {
            node: claim.parameters.node,
            start: claim.start(),
            created: claim.parameters.created,
            nonce: claim.parameters.nonce,
            address: self.address.clone(),
            now,
            remember_until: now.after(Milliseconds::new(2 * CLOCK_TOLERANCE.count() + 1000)),
        })
    }
}

fn speaks(version: Version) -> Result<(), Answer> {
    if Versions::OURS.speaks(version) {
        return Ok(());
    }
    let Versions { oldest, newest } = Versions::OURS;
    Err(Answer::new(Code::Protocol, format!("the edge speaks version {oldest} to {newest}, not {version}"))
        .speaking())
}
