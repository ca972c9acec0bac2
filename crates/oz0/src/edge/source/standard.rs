//! Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp`, `webhook-signature`; the HMAC is over all three parts.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oz0_fleet::protocol::{Code, Secret, Timestamp};

use super::{Answer, Delivery, header, is_signed, json_only, recent};

pub(super) fn believe(
    secret: &Secret,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Delivery, Answer> {
    json_only(headers)?;
    let id = header(headers, "webhook-id")?;
    let timestamp = header(headers, "webhook-timestamp")?;
    let signatures: Vec<Vec<u8>> = header(headers, "webhook-signature")?
        .split(' ')
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
        .collect();
    // The key is what the secret stands for, not its text.
    let key = secret.reveal().strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let key = key
        .ok_or_else(|| Answer::new(Code::BadSignature, "this trigger's secret is not of the form whsec_"))?;
    let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    is_signed(&key, &parts, signatures.iter().map(Vec::as_slice))?;
    // Only now is the time the sender's.
    recent(timestamp, now)?;
    Ok(Delivery::Event { id: id.to_owned() })
}
