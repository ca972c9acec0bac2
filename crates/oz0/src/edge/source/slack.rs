//! Slack's Events API: `x-slack-signature` over version, time and body; a first request that wants its challenge back;
//! deliveries that are sent again carry the same `event_id`.

use axum::http::HeaderMap;
use oz0_fleet::protocol::{Secret, Timestamp};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Delivery, header, hexadecimal, is_signed, json_only, recent};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Envelope {
    UrlVerification {
        challenge: String,
    },
    EventCallback {
        event_id: String,
    },
    /// Others ask for nothing to be done.
    #[serde(other)]
    Other,
}

pub(super) fn believe(
    secret: &Secret,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Delivery, Answer> {
    json_only(headers)?;
    let timestamp = header(headers, "x-slack-request-timestamp")?;
    let signature = header(headers, "x-slack-signature")?.strip_prefix("v0=").and_then(hexadecimal);
    let parts = [b"v0:", timestamp.as_bytes(), b":", body];
    is_signed(secret.reveal().as_bytes(), &parts, signature.as_deref())?;
    recent(timestamp, now)?;
    let envelope = serde_json::from_slice(body)
        .map_err(|_| Answer::bad_request("the body is not an envelope of the Events API"))?;
    Ok(match envelope {
        Envelope::UrlVerification { challenge } => Delivery::Answer(json!({"challenge": challenge})),
        Envelope::EventCallback { event_id } => Delivery::Event { id: event_id },
        Envelope::Other => Delivery::Answer(json!({"ignored": true})),
    })
}
