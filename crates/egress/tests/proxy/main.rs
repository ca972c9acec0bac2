//! The proxy driven over loopback with raw sockets and with real clients: every case is one exchange of bytes.
// The exemption in clippy.toml covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod allowed;
mod bounds;
// Wine has none of these programs.
#[cfg(unix)]
mod clients;
mod denied;
mod forwarder;
mod long;
mod smuggling;
mod upstream;
mod world;
