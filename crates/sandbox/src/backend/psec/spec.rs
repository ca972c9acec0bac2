//! A container's specification: what it may touch, as types in which a wrong one cannot be said. [`encode`] makes
//! the bytes that Windows takes, [`wire::read`] reads such bytes strictly, and [`Specification::meant_by`] tells
//! whether they are one of ours.
//!
//! There are two ways to the network and no third: a table of rules that denies all, or a proxy with its one peer.
//! Windows takes no container with both (measured on 26300.9711), and no rule that opens the machine's loopback is
//! ever sent, so neither can be written down here.

mod layout;
#[cfg(test)]
mod tests;
pub mod wire;
mod write;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use oz0_fleet::Contract;
use serde::{Deserialize, Serialize};

pub use self::layout::IDENTIFIER;
use self::wire::{FilterAction, Wire, WireNetwork};
pub use self::write::{encode, encode_minimal};
use super::paths::WindowsPath;
use super::ui::Ui;

/// What one container may touch. Everything that is not named stays closed, but for what Windows shows every
/// AppContainer: its own folders and Program Files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Specification {
    /// What of the desktop is closed.
    pub ui: Ui,
    /// Read and written, with all that lies below.
    pub read_write: Vec<WindowsPath>,
    /// Read, with all that lies below.
    pub read_only: Vec<WindowsPath>,
    /// Closed, with all that lies below, there or not.
    pub deny: Vec<WindowsPath>,
    /// Folders that may be listed and no more.
    pub enumerate: Vec<WindowsPath>,
    /// The way to the network.
    pub network: Network,
}

/// The way to the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None: everything that goes out is denied.
    Closed,
    /// One address, which the proxy's AppContainer alone may accept on.
    Proxied(Proxied),
}

/// A proxy and the AppContainer that it runs in: one without the other is refused by Windows (E_INVALIDARG;
/// microsoft/mxc issue 1177).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxied {
    /// The proxy's port on 127.0.0.1.
    pub port: u16,
    /// The name of its AppContainer profile, not its SID.
    pub peer: Peer,
}

impl Proxied {
    /// Where it listens.
    pub fn endpoint(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    /// The address as Windows takes it. The run's token is no part of it.
    pub fn url(&self) -> String {
        format!("http://{}", self.endpoint())
    }
}

/// The name of an AppContainer profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Peer(String);

/// A text that names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no name of an AppContainer profile that may be a peer")]
pub struct PeerError(String);

/// The peer that stands for every listener on the machine's loopback (microsoft/mxc, network_parser.rs).
const WHOLE_LOOPBACK: &str = "MXC-Loopback";

/// The most letters that a profile's name may have (Microsoft Learn, CreateAppContainerProfile).
const LONGEST_PEER: usize = 64;

impl TryFrom<String> for Peer {
    type Error = PeerError;

    fn try_from(name: String) -> Result<Peer, PeerError> {
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte);
        let named = !name.is_empty() && name.len() <= LONGEST_PEER && name.bytes().all(letters);
        if named && !name.eq_ignore_ascii_case(WHOLE_LOOPBACK) {
            Ok(Peer(name))
        } else {
            Err(PeerError(crate::text::escape(name)))
        }
    }
}

impl From<Peer> for String {
    fn from(peer: Peer) -> String {
        peer.0
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Without it the container is made and its client does not reach the proxy (microsoft/mxc issue 1180). It is the
/// only capability that is ever asked for: `internetClient` and `networkLoopback` open what must stay closed.
const PRIVATE_NETWORK: &str = "privateNetworkClientServer";

impl Network {
    /// The capabilities that it needs, as they are sent: joined by commas, none as nothing.
    pub const fn capabilities(&self) -> Option<&'static str> {
        match self {
            Network::Closed => None,
            Network::Proxied(_) => Some(PRIVATE_NETWORK),
        }
    }
}

/// What a path is to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No list names it: Windows' own access lists decide.
    Unnamed,
    /// It may be listed.
    Enumerate,
    /// It may be read and written.
    ReadWrite,
    /// It may be read.
    ReadOnly,
    /// It is closed.
    Deny,
}

/// A specification read back that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a specification that is ever sent: {0}")]
pub struct NotOurs(String);

impl Specification {
    /// One that opens nothing.
    pub fn new(network: Network) -> Specification {
        Specification {
            ui: Ui::DEFAULT,
            read_write: Vec::new(),
            read_only: Vec::new(),
            deny: Vec::new(),
            enumerate: Vec::new(),
            network,
        }
    }

    /// What decides on a path: of the entries that cover it the most specific, of those on one path the strictest
    /// (microsoft/mxc, path_aliasing tests).
    pub fn rule_for(&self, path: &WindowsPath) -> Rule {
        let lists = [
            (Rule::Enumerate, &self.enumerate),
            (Rule::ReadWrite, &self.read_write),
            (Rule::ReadOnly, &self.read_only),
            (Rule::Deny, &self.deny),
        ];
        let entries =
            lists.into_iter().flat_map(|(rule, paths)| paths.iter().map(move |entry| (rule, entry)));
        entries
            .filter(
                |(rule, entry)| if *rule == Rule::Enumerate { *entry == path } else { entry.covers(path) },
            )
            .map(|(rule, entry)| (entry.depth(), rule))
            .max()
            .map_or(Rule::Unnamed, |(_, rule)| rule)
    }

    /// The specification that bytes stand for, with the version that they are sent in.
    pub fn meant_by(wire: &Wire) -> Result<(Contract, Specification), NotOurs> {
        let network = network_of(wire.network.as_ref())?;
        if wire.capabilities.as_deref() != network.capabilities() {
            return Err(NotOurs("its capabilities are not those of its network".into()));
        }
        if wire.disallow_win32k_system_calls {
            return Err(NotOurs(
                "it closes win32k's system calls, without which interpreters do not start".into(),
            ));
        }
        let specification = Specification {
            ui: Ui(wire.ui_restrictions),
            read_write: paths(wire.fs_read_write.as_deref())?,
            read_only: paths(wire.fs_read_only.as_deref())?,
            deny: paths(wire.fs_deny.as_deref())?,
            enumerate: paths(wire.fs_enumerate.as_deref())?,
            network,
        };
        Ok((wire.version, specification))
    }
}

fn network_of(wire: Option<&WireNetwork>) -> Result<Network, NotOurs> {
    let not_ours = |why: &str| NotOurs(why.to_owned());
    let wire = wire.ok_or_else(|| not_ours("it says nothing of the network"))?;
    if wire.ingress.is_some() {
        return Err(not_ours("it has rules for what comes in"));
    }
    match (&wire.proxy, &wire.egress, &wire.allowed_appcontainer_peer) {
        (None, Some(egress), None) => {
            let closed = egress.default_action == FilterAction::Deny
                && egress.allow.is_none()
                && egress.deny.is_none();
            if closed { Ok(Network::Closed) } else { Err(not_ours("it lets connections out")) }
        }
        (Some(proxy), None, Some(peer)) => {
            let url = proxy.url.as_deref().unwrap_or_default();
            let port = url.strip_prefix("http://127.0.0.1:").and_then(|port| port.parse().ok());
            let proxied = port
                .zip(Peer::try_from(peer.clone()).ok())
                .map(|(port, peer)| Proxied { port, peer })
                .filter(|proxied| proxied.port != 0 && proxied.url() == url);
            proxied.map(Network::Proxied).ok_or_else(|| not_ours("its proxy is no relay of this node"))
        }
        _ => Err(not_ours("its network is neither closed nor a proxy with its peer")),
    }
}

fn paths(list: Option<&[String]>) -> Result<Vec<WindowsPath>, NotOurs> {
    let Some(list) = list else { return Ok(Vec::new()) };
    if list.is_empty() {
        return Err(NotOurs("it has a list of no paths".into()));
    }
    let normal = |text: &String| {
        let path: WindowsPath = text.parse().map_err(|error| NotOurs(format!("{error}")))?;
        if path.to_string() == *text {
            Ok(path)
        } else {
            Err(NotOurs("a path is not in its normal form".into()))
        }
    };
    list.iter().map(normal).collect()
}

/// Each part on a line, as `--plan` shows it.
impl fmt::Display for Specification {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, list) in [
            ("write", &self.read_write),
            ("read", &self.read_only),
            ("deny", &self.deny),
            ("list", &self.enumerate),
        ] {
            for path in list {
                writeln!(out, "{word:<9} {}", path.shown())?;
            }
        }
        writeln!(out, "closed    {} ({:#x})", self.ui, self.ui.0)
    }
}
