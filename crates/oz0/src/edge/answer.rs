//! What is answered when something is not done: status, code, a sentence, and what to do about it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oz0_fleet::protocol::{Code, Refusal, Timestamp, Versions};

use crate::store::StoreError;
use crate::store::nonces::NotAdmitted;

/// A refusal on its way out.
#[derive(Debug)]
pub struct Answer(Box<Refusal>);

impl Answer {
    /// With this code and sentence.
    pub fn new(code: Code, reason: impl Into<String>) -> Answer {
        Answer(Box::new(Refusal { code, reason: reason.into(), fix: None, edge_time: None, speaks: None }))
    }

    /// With what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Answer {
        self.0.fix = Some(fix.into());
        self
    }

    /// With the edge's time.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Answer {
        self.0.edge_time = Some(now);
        self
    }

    /// With what the edge speaks.
    #[must_use]
    pub fn speaking(mut self) -> Answer {
        self.0.speaks = Some(Versions::OURS);
        self
    }

    /// It cannot be read.
    pub fn bad_request(reason: impl Into<String>) -> Answer {
        Answer::new(Code::BadRequest, reason)
    }

    /// There is nothing.
    pub fn not_found(reason: impl Into<String>) -> Answer {
        Answer::new(Code::NotFound, reason)
    }

    /// Why, for programs.
    pub fn code(&self) -> Code {
        self.0.code
    }

    fn status(&self) -> StatusCode {
        match self.0.code {
            Code::BadRequest => StatusCode::BAD_REQUEST,
            Code::Protocol => StatusCode::UPGRADE_REQUIRED,
            Code::BadSignature | Code::Clock | Code::UnknownNode | Code::Token => StatusCode::UNAUTHORIZED,
            Code::Replayed | Code::Superseded | Code::ReportFirst => StatusCode::CONFLICT,
            Code::Revoked | Code::Held => StatusCode::FORBIDDEN,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::NoTierOneNode | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = self.status();
        let pause = match self.0.code {
            Code::RateLimited => Some("1"),
            Code::Unavailable => Some("2"),
            Code::NoTierOneNode => Some("300"),
            _ => None,
        };
        let mut response = (status, Json(&*self.0)).into_response();
        if let Some(pause) = pause {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(pause));
        }
        // For whoever counts answers; the body is not read again for it.
        response.extensions_mut().insert(self.0.code);
        response
    }
}

impl From<StoreError> for Answer {
    /// What the database said is for the log, not for whoever asks.
    fn from(error: StoreError) -> Answer {
        tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
        Answer::new(Code::Unavailable, "the edge cannot reach its database; ask again later")
    }
}

impl From<NotAdmitted> for Answer {
    fn from(why: NotAdmitted) -> Answer {
        match why {
            NotAdmitted::Unknown => Answer::new(Code::UnknownNode, "no node has this key here")
                .fix("enrol it with a token from `oz0 node token`"),
            NotAdmitted::Revoked => Answer::new(Code::Revoked, "the operator removed this node")
                .fix("start with a new data directory and enrol again with a token from `oz0 node token`"),
            NotAdmitted::Held => {
                Answer::new(Code::Held, "two machines use this node's key: neither gets work until it is settled").fix(
                    "stop the one that is a copy and give it a data directory of its own; then `oz0 node activate`",
                )
            }
            NotAdmitted::ReportFirst => Answer::new(Code::ReportFirst, "this start has not reported yet"),
            NotAdmitted::Superseded => Answer::new(Code::Superseded, "a later start of this node has reported"),
            NotAdmitted::Replayed => Answer::new(Code::Replayed, "this request was seen before"),
        }
    }
}
