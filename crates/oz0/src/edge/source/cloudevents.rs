//! CloudEvents 1.0 over HTTP, one event a request: structured (`application/cloudevents+json`) or binary (`ce-`
//! headers). The specification signs nothing: the sender shows the trigger's secret as a bearer token. An event is
//! named by its source and id together.

use axum::http::HeaderMap;
use oz0_fleet::protocol::{Code, Secret};
use ring::hmac;
use serde::Deserialize;

use super::{Answer, Delivery, has_type, header};

#[derive(Deserialize)]
struct Structured {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
}

pub(super) fn believe(secret: &Secret, headers: &HeaderMap, body: &[u8]) -> Result<Delivery, Answer> {
    let token = header(headers, "authorization").unwrap_or_default();
    let token = token.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    if !token.is_some_and(|(_, token)| is_same(token.trim(), secret.reveal())) {
        return Err(Answer::new(Code::BadSignature, "the bearer token is not this trigger's secret")
            .fix("send `authorization: Bearer SECRET` with the secret that `oz0 trigger create` printed"));
    }
    let event = if has_type(headers, "application/cloudevents+json")? {
        serde_json::from_slice(body)
            .map_err(|_| Answer::bad_request("the body is not a structured CloudEvent"))?
    } else if has_type(headers, "application/cloudevents-batch+json")? {
        return Err(Answer::new(Code::ContentType, "events are taken one at a time, not in batches"));
    } else if headers.contains_key("ce-specversion") {
        let value = |name| header(headers, name).map(str::to_owned);
        Structured {
            specversion: value("ce-specversion")?,
            id: value("ce-id")?,
            source: value("ce-source")?,
            kind: value("ce-type")?,
        }
    } else {
        return Err(Answer::new(Code::ContentType, "neither application/cloudevents+json nor ce- headers"));
    };
    if event.specversion != "1.0" {
        return Err(Answer::bad_request("only CloudEvents 1.0 are taken"));
    }
    if event.id.is_empty() || event.source.is_empty() || event.kind.is_empty() {
        return Err(Answer::bad_request("id, source and type of an event are not empty"));
    }
    // The length first, so that no two pairs look alike.
    Ok(Delivery::Event { id: format!("{}:{}{}", event.source.len(), event.source, event.id) })
}

/// Compared by their digests under a key of this process, so that the time says nothing about either.
fn is_same(one: &str, two: &str) -> bool {
    let Ok(key) = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()) else {
        return false;
    };
    hmac::verify(&key, one.as_bytes(), hmac::sign(&key, two.as_bytes()).as_ref()).is_ok()
}
