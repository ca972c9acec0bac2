//! The egress proxy of a run: the only way from a sandbox to the network.
//!
//! ```text
//! head ──request──► Request ──decide──► Decision ──dial──► socket ──tunnel / exchange──► bytes
//!                                 ▲ token, forwarded ports, allowlist      ▲ one look-up, every address judged
//! ```
//!
//! It refuses to know what a sandbox is: it is handed a listener, an allowlist and a token, and asks no more.
#![deny(unsafe_code)]

pub mod address;
pub mod allowlist;
pub mod decide;
pub mod framing;
pub mod host;
pub mod reason;
pub mod request;
pub mod token;

pub use allowlist::{Allowlist, AllowlistError, Explanation, Verdict};
pub use reason::Reason;
pub use token::{Token, TokenError};
