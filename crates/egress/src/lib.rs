//! The egress proxy of a run: the only way from a sandbox to the network.
//!
//! ```text
//! head ──request──► Request ──decide──► Decision ──dial──► socket ──tunnel / exchange──► bytes
//!                                 ▲ token, forwarded ports, allowlist      ▲ one look-up, every address judged
//! ```
//!
//! TLS is not opened: a tunnel's host is the one that CONNECT names, and what a shared front end serves behind it
//! under another name is out of scope. HTTP/1 alone is spoken outside tunnels; `Via` is not added.
//!
//! It refuses to know what a sandbox is: it is handed a listener, an allowlist and a token, and asks no more.
#![deny(unsafe_code)]

mod accept;
pub mod address;
pub mod allowlist;
mod answer;
mod bell;
mod connection;
pub mod decide;
mod dial;
mod exchange;
pub mod forward;
pub mod framing;
pub mod host;
pub mod listener;
mod lookups;
pub mod proxy;
mod readiness;
pub mod reason;
pub mod record;
mod reply;
pub mod request;
mod splice;
mod stream;
pub mod token;
mod tunnel;
mod upstream;
mod workers;

pub use allowlist::{Allowlist, AllowlistError, Explanation, Verdict};
pub use dial::{Resolve, SystemResolver};
pub use forward::{Destination, Forwarder};
pub use host::{Authority, Host, HostError};
pub use listener::{BindError, Listener};
pub use proxy::{Limits, Proxy, Settings};
pub use reason::Reason;
pub use record::{Denial, Record, Summary};
pub use token::{Token, TokenError};
pub use upstream::{Upstream, UpstreamError};
