//! Signed requests: HTTP Message Signatures (RFC 9421) with Ed25519 over a content digest (RFC 9530), in the one form
//! that is accepted here. Signing and verifying make the base from the same function.
//!
//! Covered are the method, path, query, body, protocol version and start. The host is not: an edge may stand behind
//! any name, and a key is known to one edge alone. Whether a nonce was seen before is the edge's to remember.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::{Milliseconds, NodeId, START_HEADER, StartId, Timestamp, VERSION_HEADER, Version};
use crate::word::number;

/// The headers of a signature, beside [`VERSION_HEADER`] and [`START_HEADER`].
pub const HEADERS: [&str; 3] = ["content-digest", "signature-input", "signature"];
/// How far the times of node and edge may be apart. An edge remembers nonces for twice as long.
pub const CLOCK_TOLERANCE: Milliseconds = Milliseconds::seconds(60);

const COVERED: &str = r#"("@method" "@path" "@query" "content-digest" "oz0-protocol" "oz0-start")"#;

/// What is signed of a request, apart from its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// In capitals.
    pub method: &'a str,
    /// As sent, from the first `/` to the query.
    pub path: &'a str,
    /// What follows `?`; empty where there is none.
    pub query: &'a str,
    /// The version spoken.
    pub version: Version,
    /// The start of the node's program.
    pub start: StartId,
}

/// A value that is used for one request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// The nonce with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Nonce {
        Nonce(bytes)
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// The parameters of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// When it was made, in whole seconds.
    pub created: u64,
    /// For this request only.
    pub nonce: Nonce,
    /// Who signs.
    pub node: NodeId,
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameters { created, nonce, node } = self;
        write!(f, r#"{COVERED};created={created};nonce="{nonce:?}";keyid="{node}";alg="ed25519""#)
    }
}

impl Parameters {
    /// Read the value of `signature-input`, in exactly the form that is written here.
    fn read(text: &str) -> Option<Parameters> {
        let rest = text.strip_prefix("oz0=")?.strip_prefix(COVERED)?.strip_prefix(";created=")?;
        let (created, rest) = rest.split_once(r#";nonce=""#)?;
        let (nonce, rest) = rest.split_once(r#"";keyid=""#)?;
        let node = rest.strip_suffix(r#"";alg="ed25519""#)?;
        Some(Parameters {
            created: number(created, 12)?,
            nonce: Nonce(fixed(&URL_SAFE_NO_PAD, nonce)?),
            node: node.parse().ok()?,
        })
    }

    /// How far from `now` it was made, where that is too far.
    pub fn skew(&self, now: Timestamp) -> Option<Skew> {
        let created = Timestamp::from_milliseconds(self.created.saturating_mul(1000));
        // Whole seconds were rounded down.
        let (behind, ahead) = (now.since(created), created.since(now));
        if behind > Milliseconds::new(CLOCK_TOLERANCE.count() + 999) {
            Some(Skew::Behind(behind))
        } else if ahead > CLOCK_TOLERANCE {
            Some(Skew::Ahead(ahead))
        } else {
            None
        }
    }
}

/// How wrong a node's clock is, by the edge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// Slow.
    Behind(Milliseconds),
    /// Fast.
    Ahead(Milliseconds),
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skew::Behind(time) => write!(f, "{time} behind"),
            Skew::Ahead(time) => write!(f, "{time} ahead"),
        }
    }
}

/// Bytes of a fixed number, in the one spelling that the same engine writes.
fn fixed<const N: usize>(engine: &impl base64::Engine, text: &str) -> Option<[u8; N]> {
    let bytes: [u8; N] = engine.decode(text).ok()?.try_into().ok()?;
    (engine.encode(bytes) == text).then_some(bytes)
}

/// The value of `content-digest` for a body.
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, body)))
}

/// What is signed.
fn base(head: &Head<'_>, digest: &str, parameters: &Parameters) -> String {
    let Head { method, path, query, version, start } = head;
    format!(
        "\"@method\": {method}\n\"@path\": {path}\n\"@query\": ?{query}\n\"content-digest\": {digest}\n\
         \"{VERSION_HEADER}\": {version}\n\"{START_HEADER}\": {start}\n\"@signature-params\": {parameters}"
    )
}

/// The id of the node with this public key.
pub fn node_of(public: &[u8]) -> NodeId {
    let hash = digest(&SHA256, public);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    NodeId::from_bytes(bytes)
}

/// A key could not be made or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadKey;

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ed25519 key")
    }
}

impl std::error::Error for BadKey {}

/// A node's key.
pub struct Signer {
    key: Ed25519KeyPair,
    node: NodeId,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key of {}", self.node)
    }
}

impl Signer {
    /// Make a key; these bytes, PKCS #8, are what is kept of it.
    pub fn generate() -> Result<Vec<u8>, BadKey> {
        Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map(|document| document.as_ref().to_vec())
            .map_err(|_| BadKey)
    }

    /// The key of a seed of 32 bytes, which is all that a node keeps of it.
    pub fn from_seed(seed: &[u8]) -> Result<Signer, BadKey> {
        Ed25519KeyPair::from_seed_unchecked(seed).map(Signer::of).map_err(|_| BadKey)
    }

    /// Take up a key that was kept.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Signer, BadKey> {
        Ed25519KeyPair::from_pkcs8(bytes).map(Signer::of).map_err(|_| BadKey)
    }

    fn of(key: Ed25519KeyPair) -> Signer {
        let node = node_of(key.public_key().as_ref());
        Signer { key, node }
    }

    /// Whose it is.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The public half.
    pub fn public(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// The headers that a request needs, each name with its value.
    pub fn sign(
        &self,
        head: &Head<'_>,
        body: &[u8],
        now: Timestamp,
        nonce: [u8; 16],
    ) -> [(&'static str, String); 5] {
        let parameters =
            Parameters { created: now.milliseconds() / 1000, nonce: Nonce(nonce), node: self.node };
        let digest = content_digest(body);
        let signature = self.key.sign(base(head, &digest, &parameters).as_bytes());
        let [digest_header, input_header, signature_header] = HEADERS;
        [
            (VERSION_HEADER, head.version.to_string()),
            (START_HEADER, head.start.to_string()),
            (digest_header, digest),
            (input_header, format!("oz0={parameters}")),
            (signature_header, format!("oz0=:{}:", STANDARD.encode(signature))),
        ]
    }
}

/// Why a request is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSignature {
    /// A header is missing, or not in the one form.
    Form(&'static str),
    /// The body is not the one that was signed.
    Digest,
    /// The signature does not fit.
    Signature,
}

impl fmt::Display for BadSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSignature::Form(header) => write!(f, "{header} is missing or not in its one form"),
            BadSignature::Digest => f.write_str("content-digest does not fit the body"),
            BadSignature::Signature => f.write_str("the signature does not fit the request"),
        }
    }
}

impl std::error::Error for BadSignature {}

/// A request's claim, read but not yet believed: whose key to look up.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    head: Head<'a>,
    digest: &'a str,
    signature: [u8; 64],
    /// Who says to have signed, when, and with which nonce.
    pub parameters: Parameters,
}

impl<'a> Claim<'a> {
    /// Read a request's headers. A header that is there twice is for the caller to have refused.
    pub fn read(
        method: &'a str,
        path: &'a str,
        query: &'a str,
        header: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Claim<'a>, BadSignature> {
        let [digest_header, input_header, signature_header] = HEADERS;
        let form = BadSignature::Form;
        let value = |name: &'static str| header(name).ok_or(form(name));
        let signature = value(signature_header)?;
        let signature = signature
            .strip_prefix("oz0=:")
            .and_then(|rest| rest.strip_suffix(':'))
            .and_then(|text| fixed(&STANDARD, text))
            .ok_or(form(signature_header))?;
        let head = Head {
            method,
            path,
            query,
            version: number(value(VERSION_HEADER)?, 5).ok_or(form(VERSION_HEADER))?,
            start: value(START_HEADER)?.parse().map_err(|_| form(START_HEADER))?,
        };
        let parameters = Parameters::read(value(input_header)?).ok_or(form(input_header))?;
        Ok(Claim { head, digest: value(digest_header)?, signature, parameters })
    }

    /// The version that the sender speaks.
    pub const fn version(&self) -> Version {
        self.head.version
    }

    /// The start that the sender names.
    pub const fn start(&self) -> StartId {
        self.head.start
    }

    /// Is it signed with this key, over this body? The key's own id is the one that was claimed.
    pub fn verify(&self, public: &[u8], body: &[u8]) -> Result<(), BadSignature> {
        if self.digest != content_digest(body) {
            return Err(BadSignature::Digest);
        }
        if node_of(public) != self.parameters.node {
            return Err(BadSignature::Signature);
        }
        UnparsedPublicKey::new(&ED25519, public)
            .verify(base(&self.head, self.digest, &self.parameters).as_bytes(), &self.signature)
            .map_err(|_| BadSignature::Signature)
    }
}

#[cfg(test)]
mod tests;
