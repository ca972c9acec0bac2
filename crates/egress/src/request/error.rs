//! Why a head is refused. Each sentence tells the client's author what to send instead, or what was ambiguous.

use crate::host::HostError;
use crate::reason::Reason;

/// Why a head is no request that can be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No HTTP/1 head at all.
    #[error("this is no HTTP/1 request head")]
    Syntax,
    /// A bare CR or LF.
    #[error("a line of the head does not end in CR LF")]
    LineEnd,
    /// A line that begins with white space.
    #[error("a folded line in the head")]
    Fold,
    /// NUL and kin.
    #[error("a control byte in the head")]
    Control,
    /// More than [`super::LARGEST_HEAD`].
    #[error("the head is larger than 32 KiB")]
    TooLarge,
    /// More than [`super::MOST_FIELDS`].
    #[error("the head has more than 128 fields")]
    TooManyFields,
    /// Origin form: the program takes the proxy for a server.
    #[error("this is a proxy, not a server: send the whole URL (GET http://host/path) or CONNECT host:port")]
    NotForProxy,
    /// An `https:` URL in the clear.
    #[error("an https URL goes through CONNECT host:port, not in the clear")]
    HttpsInClear,
    /// Any other scheme.
    #[error("only http URLs and CONNECT are taken")]
    Scheme,
    /// A target that is no URL.
    #[error("the request's target is no plain http URL")]
    Target,
    /// CONNECT without a port.
    #[error("CONNECT wants host:port")]
    ConnectPort,
    /// CONNECT with a body.
    #[error("CONNECT has no body")]
    ConnectBody,
    /// The target's or the Host field's host.
    #[error("{0}")]
    Host(#[from] HostError),
    /// No Host field.
    #[error("an HTTP/1.1 request has a Host field")]
    NoHost,
    /// Several Host fields.
    #[error("the head has more than one Host field")]
    TwoHosts,
    /// Several lengths, alike or not.
    #[error("the head has more than one Content-Length")]
    TwoLengths,
    /// A length that is no plain number.
    #[error("Content-Length is not a plain decimal number")]
    Length,
    /// Both lengths.
    #[error("the head has both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// Anything but one plain `chunked`.
    #[error("Transfer-Encoding is not one plain 'chunked' in HTTP/1.1")]
    Coding,
    /// Anything but `100-continue`.
    #[error("only 'Expect: 100-continue' is known")]
    Expect,
}

impl RequestError {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            RequestError::TooLarge | RequestError::TooManyFields => 431,
            RequestError::Expect => 417,
            _ => 400,
        }
    }

    /// The reason in records.
    pub fn reason(self) -> Reason {
        match self {
            RequestError::TooLarge | RequestError::TooManyFields => Reason::HeadTooLarge,
            _ => Reason::Malformed,
        }
    }
}
