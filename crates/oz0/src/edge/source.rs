//! Who sends from outside, and how what they send is believed. Each is one pure function from headers, body and time to
//! a delivery; none knows a store.

mod cloudevents;
mod github;
mod slack;
mod standard;

use std::fmt;
use std::str::FromStr;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oz0_fleet::protocol::{Code, Milliseconds, Secret, Timestamp};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::Answer;

/// How old or how far ahead a sender's time may be.
pub const TOLERANCE: Milliseconds = Milliseconds::seconds(300);
/// No sender's name for a delivery is longer.
const LONGEST_ID: usize = 256;

/// A kind of sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Standard Webhooks.
    Standard,
    /// GitHub's webhooks.
    Github,
    /// CloudEvents 1.0 over HTTP, structured or binary.
    Cloudevents,
    /// Slack's Events API.
    Slack,
}

impl Source {
    /// Every one.
    pub const ALL: [Source; 4] = [Source::Standard, Source::Github, Source::Cloudevents, Source::Slack];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Source::Standard => "standard",
            Source::Github => "github",
            Source::Cloudevents => "cloudevents",
            Source::Slack => "slack",
        }
    }

    /// A secret in the form that the sender takes.
    pub fn secret(self, bytes: [u8; 32]) -> Secret {
        let text = STANDARD.encode(bytes);
        Secret::new(match self {
            Source::Standard => format!("whsec_{text}"),
            Source::Github | Source::Cloudevents | Source::Slack => text,
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A text that names no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a source: standard, github, cloudevents or slack")]
pub struct UnknownSource;

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Source, UnknownSource> {
        Source::ALL.into_iter().find(|source| source.word() == text).ok_or(UnknownSource)
    }
}

/// What came in, believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Something that starts a job.
    Event {
        /// What the sender calls this delivery: the same again is the same.
        id: String,
    },
    /// Something that only wants an answer.
    Answer(serde_json::Value),
}

/// Believe a delivery, or say why not.
pub fn believe(
    source: Source,
    secret: &Secret,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Delivery, Answer> {
    let delivery = match source {
        Source::Standard => standard::believe(secret, headers, body, now),
        Source::Github => github::believe(secret, headers, body),
        Source::Cloudevents => cloudevents::believe(secret, headers, body),
        Source::Slack => slack::believe(secret, headers, body, now),
    }?;
    match &delivery {
        Delivery::Event { id } if id.is_empty() || id.len() > LONGEST_ID => {
            Err(Answer::bad_request("a delivery's id has 1 to 256 bytes"))
        }
        _ => Ok(delivery),
    }
}

/// A header's one value.
fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Answer> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (Some(Ok(value)), None) => Ok(value),
        (None, _) => Err(Answer::bad_request(format!("the header {name} is missing"))),
        _ => Err(Answer::bad_request(format!("the header {name} is there twice, or not plain text"))),
    }
}

/// The body is of this type, whatever parameters it names.
fn has_type(headers: &HeaderMap, wanted: &str) -> Result<bool, Answer> {
    let value = header(headers, "content-type").unwrap_or_default();
    Ok(value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted))
}

/// It has to be JSON.
fn json_only(headers: &HeaderMap) -> Result<(), Answer> {
    if has_type(headers, "application/json")? {
        Ok(())
    } else {
        Err(Answer::new(Code::ContentType, "the body has to be application/json")
            .fix("set the sender's content type"))
    }
}

/// A sender's time in seconds is near enough.
fn recent(text: &str, now: Timestamp) -> Result<(), Answer> {
    let seconds: u64 =
        text.parse().map_err(|_| Answer::bad_request("the timestamp is not a number of seconds"))?;
    let at = Timestamp::from_milliseconds(seconds.saturating_mul(1000));
    let (behind, ahead) = (now.since(at), at.since(now));
    if behind.max(ahead) > TOLERANCE {
        let (time, way) = if behind > ahead { (behind, "old") } else { (ahead, "ahead") };
        let reason = format!("the delivery is {time} {way}; at most {TOLERANCE} are taken");
        return Err(Answer::new(Code::Clock, reason)
            .fix("check the sender's clock, and this machine's")
            .at(now));
    }
    Ok(())
}

/// Is one of these the HMAC-SHA-256 of the parts? In constant time for each.
fn is_signed<'a>(
    key: &[u8],
    parts: &[&[u8]],
    signatures: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), Answer> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let text = parts.concat();
    let mut any = false;
    for signature in signatures.into_iter().take(16) {
        any |= hmac::verify(&key, &text, signature).is_ok();
    }
    if any {
        Ok(())
    } else {
        Err(Answer::new(Code::BadSignature, "the signature does not fit this trigger's secret and the body")
            .fix("give the sender the secret that `oz0 trigger create` printed"))
    }
}

/// Bytes in hexadecimal.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect())
        .flatten()
}

#[cfg(test)]
mod tests;
