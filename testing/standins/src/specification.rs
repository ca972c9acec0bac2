//! A specification as Windows takes it: read from its bytes and judged. Knows no process.
//!
//! Tables and slots are those of ProcessSecurityEnvironment.fbs (microsoft/mxc, contract 1.0 and 1.1). What is refused,
//! and with which code, is what was seen on real machines; where nobody has looked, this is the stricter reading.

use serde::Serialize;

use crate::flatbuffer::{Malformed, Table, root};

/// HRESULTs that a refusal carries.
pub mod hresult {
    /// The contract is newer than this Windows: measured on 26200.9457.
    pub const NOT_SUPPORTED: u32 = 0x8007_0032;
    /// The bytes are no specification: measured on 26200.9457.
    pub const INVALID_DATA: u32 = 0x8007_000d;
    /// The parts do not go together: microsoft/mxc issue 1177, for a proxy without its peer.
    pub const INVALID_ARGUMENT: u32 = 0x8007_0057;
}

/// What this Windows can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    pub major: u16,
    pub minor: u16,
    pub features: u64,
}

impl Contract {
    pub const DENY: u64 = 0x1;
    pub const PROXY: u64 = 0x2;
    pub const ENUMERATE: u64 = 0x4;
    pub const INGRESS: u64 = 0x8;

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }
}

/// Why a specification is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub hresult: u32,
    pub why: &'static str,
}

impl From<Malformed> for Refused {
    fn from(Malformed(why): Malformed) -> Self {
        Refused { hresult: hresult::INVALID_DATA, why }
    }
}

fn refuse<T>(hresult: u32, why: &'static str) -> Result<T, Refused> {
    Err(Refused { hresult, why })
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Specification {
    pub version: (u16, u16),
    pub capabilities: Option<String>,
    pub no_win32k: bool,
    pub ui: u64,
    pub read_write: Option<Vec<String>>,
    pub read_only: Option<Vec<String>>,
    pub deny: Option<Vec<String>>,
    pub network: Option<Network>,
    pub enumerate: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Network {
    pub proxy: Option<Option<String>>,
    pub egress: Option<Egress>,
    pub peer: Option<String>,
    pub ingress: Option<Ingress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Egress {
    pub allow_by_default: bool,
    pub allow: Option<Vec<Rule>>,
    pub deny: Option<Vec<Rule>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ingress {
    pub allow_by_default: bool,
    pub host_loopback: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Address and prefix, each with what is taken out of it.
    pub destinations: Option<Vec<(Subnet, Vec<Subnet>)>>,
    /// Protocol, first and last port.
    pub ports: Option<Vec<(u8, u16, u16)>>,
}

pub type Subnet = (String, u8);

impl Specification {
    /// What the bytes say, refused as this Windows would refuse it.
    pub fn read(bytes: &[u8], contract: Contract) -> Result<Self, Refused> {
        let table = root(bytes, b"PSEC")?;
        let Some(version) = table.pair_of_shorts(0)? else {
            return refuse(hresult::INVALID_DATA, "the version, which is required, is not there");
        };
        // Before anything else is read: a newer contract may have what this one does not know.
        if version.0 != contract.major || version.1 > contract.minor {
            return refuse(hresult::NOT_SUPPORTED, "the contract is newer than this Windows");
        }
        if table.has_field_past(if version.1 == 0 { 8 } else { 9 })? {
            return refuse(hresult::INVALID_DATA, "a field that this contract does not have");
        }
        let specification = Specification {
            version,
            capabilities: table.text(1)?.map(str::to_owned),
            no_win32k: table.flag(2)?,
            ui: table.long(3)?,
            read_write: owned(table.texts(4)?),
            read_only: owned(table.texts(5)?),
            deny: owned(table.texts(6)?),
            network: table.table(7)?.map(|table| Network::read(table, version)).transpose()?,
            enumerate: owned(table.texts(8)?),
        };
        specification.judge(contract)?;
        Ok(specification)
    }

    fn judge(&self, contract: Contract) -> Result<(), Refused> {
        let all = [&self.read_write, &self.read_only, &self.deny, &self.enumerate];
        if all.iter().any(|list| list.as_ref().is_some_and(Vec::is_empty)) {
            return refuse(hresult::INVALID_ARGUMENT, "a list of paths is there and empty");
        }
        for path in all.iter().flat_map(|list| list.iter().flatten()) {
            judge_path(path)?;
        }
        if self.deny.is_some() && !contract.has(Contract::DENY) {
            return refuse(hresult::NOT_SUPPORTED, "paths are denied and this Windows does not do that");
        }
        if self.deny.iter().flatten().any(|path| path.contains(['*', '?'])) {
            return refuse(hresult::INVALID_ARGUMENT, "a denied path has a wildcard");
        }
        if self.enumerate.is_some() && !contract.has(Contract::ENUMERATE) {
            return refuse(hresult::NOT_SUPPORTED, "paths for listing, and this Windows does not do that");
        }
        if self.ui & !0x3ff != 0 {
            return refuse(hresult::INVALID_ARGUMENT, "a user interface restriction that nobody knows");
        }
        if let Some(text) = &self.capabilities
            && (text.is_empty() || text.split(',').any(|name| name.is_empty() || name.trim() != name))
        {
            return refuse(hresult::INVALID_ARGUMENT, "capabilities are names joined by bare commas");
        }
        self.network.as_ref().map_or(Ok(()), |network| network.judge(contract))
    }

    /// Does it name any path?
    pub fn has_paths(&self) -> bool {
        [&self.read_write, &self.read_only, &self.deny, &self.enumerate].iter().any(|list| list.is_some())
    }

    /// The capabilities' names.
    pub fn capability_names(&self) -> impl Iterator<Item = &str> {
        self.capabilities.iter().flat_map(|text| text.split(','))
    }
}

/// Absolute paths with a drive, as Windows' own long names: the forms that somebody has seen it take.
fn judge_path(path: &str) -> Result<(), Refused> {
    let bytes = path.as_bytes();
    let drive = bytes.len() >= 3 && bytes[0].is_ascii_alphabetic() && bytes[1..3] == *b":\\";
    if !drive || path.contains('/') || path[2..].contains(':') {
        return refuse(hresult::INVALID_ARGUMENT, "a path is not absolute with a drive and backslashes");
    }
    let below = &path[3..];
    let plain = below.is_empty() || below.split('\\').all(|name| !matches!(name, "" | "." | ".."));
    if !plain {
        return refuse(hresult::INVALID_ARGUMENT, "a path has an empty name, a dot or two dots");
    }
    Ok(())
}

impl Network {
    fn read(table: Table<'_>, version: (u16, u16)) -> Result<Self, Refused> {
        if table.has_field_past(if version.1 == 0 { 3 } else { 4 })? {
            return refuse(hresult::INVALID_DATA, "a field of the network that this contract does not have");
        }
        let ingress = table.table(3)?.map(|table| {
            Ok::<_, Refused>(Ingress {
                allow_by_default: action(table, 0)?,
                host_loopback: action(table, 1)?,
            })
        });
        Ok(Network {
            proxy: table
                .table(0)?
                .map(|table| table.text(0).map(|url| url.map(str::to_owned)))
                .transpose()?,
            egress: table.table(1)?.map(Egress::read).transpose()?,
            peer: table.text(2)?.map(str::to_owned),
            ingress: ingress.transpose()?,
        })
    }

    fn judge(&self, contract: Contract) -> Result<(), Refused> {
        let bad = |why| refuse(hresult::INVALID_ARGUMENT, why);
        if self.ingress.is_some() && !contract.has(Contract::INGRESS) {
            return refuse(hresult::NOT_SUPPORTED, "ingress is ruled on and this Windows does not do that");
        }
        if self.peer.as_ref().is_some_and(String::is_empty) {
            return bad("the peer has no name");
        }
        let Some(url) = &self.proxy else { return Ok(()) };
        if !contract.has(Contract::PROXY) {
            return refuse(hresult::NOT_SUPPORTED, "a proxy, and this Windows does not do that");
        }
        if self.peer.is_none() {
            return bad("a proxy without its peer");
        }
        if self.ingress.is_some() {
            return bad("a proxy and an ingress table");
        }
        if self.egress.is_some() {
            return bad("a proxy and an egress table");
        }
        match url.as_deref().and_then(proxy_port) {
            Some(_) => Ok(()),
            None => bad("the proxy's address is not http://, loopback and a port"),
        }
    }
}

/// The port of `http://127.0.0.1:PORT` and its like.
pub fn proxy_port(url: &str) -> Option<u16> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = rest.rsplit_once(':')?;
    if !matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
        return None;
    }
    port.parse().ok().filter(|port| *port != 0)
}

impl Egress {
    fn read(table: Table<'_>) -> Result<Self, Refused> {
        let rules = |slot| -> Result<Option<Vec<Rule>>, Refused> {
            table.tables(slot)?.map(|all| all.into_iter().map(Rule::read).collect()).transpose()
        };
        Ok(Egress { allow_by_default: action(table, 0)?, allow: rules(1)?, deny: rules(2)? })
    }
}

impl Rule {
    fn read(table: Table<'_>) -> Result<Self, Refused> {
        let destination = |table: Table<'_>| -> Result<(Subnet, Vec<Subnet>), Refused> {
            let Some(to) = table.table(0)? else {
                return refuse(hresult::INVALID_DATA, "a destination without its network");
            };
            let except = table.tables(1)?.unwrap_or_default();
            Ok((subnet(to)?, except.into_iter().map(subnet).collect::<Result<_, _>>()?))
        };
        let port = |table: Table<'_>| -> Result<(u8, u16, u16), Refused> {
            match table.byte(0, 0)? {
                protocol @ 0..=4 => Ok((protocol, table.short(1)?, table.short(2)?)),
                _ => refuse(hresult::INVALID_DATA, "a protocol that nobody knows"),
            }
        };
        Ok(Rule {
            destinations: table
                .tables(0)?
                .map(|all| all.into_iter().map(destination).collect())
                .transpose()?,
            ports: table.tables(1)?.map(|all| all.into_iter().map(port).collect()).transpose()?,
        })
    }
}

fn subnet(table: Table<'_>) -> Result<Subnet, Refused> {
    let address = table.text(0)?.and_then(|text| text.parse::<std::net::IpAddr>().ok());
    let prefix = table.byte(1, 0)?;
    match address {
        Some(address) if prefix <= if address.is_ipv4() { 32 } else { 128 } => {
            Ok((address.to_string(), prefix))
        }
        _ => refuse(hresult::INVALID_DATA, "a network is no address with its prefix"),
    }
}

/// Deny is 0 and the default, allow is 1.
fn action(table: Table<'_>, slot: usize) -> Result<bool, Refused> {
    match table.byte(slot, 0)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => refuse(hresult::INVALID_DATA, "an action is neither deny nor allow"),
    }
}

fn owned(texts: Option<Vec<&str>>) -> Option<Vec<String>> {
    texts.map(|texts| texts.into_iter().map(str::to_owned).collect())
}
