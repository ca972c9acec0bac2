//! GitHub's webhooks: `x-hub-signature-256` over the body, `x-github-delivery` as the delivery's id. There is no time
//! in them: a delivery that is sent again is the same delivery.

use axum::http::HeaderMap;
use oz0_fleet::protocol::Secret;
use serde_json::json;

use super::{Answer, Delivery, header, hexadecimal, is_signed, json_only};

pub(super) fn believe(secret: &Secret, headers: &HeaderMap, body: &[u8]) -> Result<Delivery, Answer> {
    json_only(headers)?;
    let signature = header(headers, "x-hub-signature-256")?.strip_prefix("sha256=").and_then(hexadecimal);
    is_signed(secret.reveal().as_bytes(), &[body], signature.as_deref())?;
    if header(headers, "x-github-event")? == "ping" {
        return Ok(Delivery::Answer(json!({"pong": true})));
    }
    Ok(Delivery::Event { id: header(headers, "x-github-delivery")?.to_owned() })
}
