//! A specification's bytes read back, field by field as they stand: also what this node never sends, such as a proxy
//! beside rules for what comes in, so that a stand-in for Windows can refuse it as Windows does.
//!
//! Strict: every byte belongs to exactly one field or is zero padding, fields are aligned, strings are UTF-8 and
//! ended, numbers are in their range, and a field that the schema does not have is an error.

mod bytes;

use oz0_fleet::Contract;

use self::bytes::{Bytes, Table};
pub use self::bytes::{Part, WireError};
use super::layout::{destination, endpoint, environment, ingress, network, port, proxy, rule, subnet};

/// `ProcessSecurityEnvironment`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct Wire {
    pub version: Contract,
    pub capabilities: Option<String>,
    pub disallow_win32k_system_calls: bool,
    pub ui_restrictions: u64,
    pub fs_read_write: Option<Vec<String>>,
    pub fs_read_only: Option<Vec<String>>,
    pub fs_deny: Option<Vec<String>>,
    pub fs_enumerate: Option<Vec<String>>,
    pub network: Option<WireNetwork>,
}

/// `NetworkPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireNetwork {
    pub proxy: Option<WireProxy>,
    pub egress: Option<WireEgress>,
    pub allowed_appcontainer_peer: Option<String>,
    pub ingress: Option<WireIngress>,
}

/// `ProxyInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireProxy {
    pub url: Option<String>,
}

/// `EndpointPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireEgress {
    pub default_action: FilterAction,
    pub allow: Option<Vec<WireRule>>,
    pub deny: Option<Vec<WireRule>>,
}

/// `IngressPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireIngress {
    pub default_action: FilterAction,
    pub host_loopback: FilterAction,
}

/// `EndpointRule`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireRule {
    pub destinations: Option<Vec<WireDestination>>,
    pub ports: Option<Vec<WirePort>>,
}

/// `DestinationRule`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireDestination {
    pub subnet: Option<WireSubnet>,
    pub except: Option<Vec<WireSubnet>>,
}

/// `IpSubnet`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WireSubnet {
    pub address: Option<String>,
    pub prefix_length: u8,
}

/// `PortRule`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's fields by the schema's names")]
pub struct WirePort {
    pub protocol: IpProtocol,
    pub port: u16,
    pub end_port: u16,
}

/// `FilterAction : byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterAction {
    /// 0, which is left out.
    Deny,
    /// 1.
    Allow,
}

/// `IpProtocol : byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the schema's names")]
pub enum IpProtocol {
    Any,
    Tcp,
    Udp,
    IcmpV4,
    IcmpV6,
}

/// Read a specification.
pub fn read(bytes: &[u8]) -> Result<Wire, WireError> {
    let mut bytes = Bytes::new(bytes)?;
    let wire = root(&mut bytes)?;
    bytes.finish()?;
    Ok(wire)
}

/// What every byte of a specification is, in their order.
pub fn parts(bytes: &[u8]) -> Result<Vec<Part>, WireError> {
    let mut bytes = Bytes::new(bytes)?;
    root(&mut bytes)?;
    bytes.finish()
}

fn root(bytes: &mut Bytes<'_>) -> Result<Wire, WireError> {
    let table = bytes.root("ProcessSecurityEnvironment", environment::SLOTS)?;
    let version = bytes.pair(&table, environment::VERSION)?;
    let (major, minor) = version.ok_or(WireError::Missing(environment::VERSION.name))?;
    Ok(Wire {
        version: Contract { major, minor },
        capabilities: bytes.string(&table, environment::CAPABILITIES)?,
        disallow_win32k_system_calls: match bytes.byte(&table, environment::DISALLOW_WIN32K)? {
            0 => false,
            1 => true,
            value => return Err(WireError::Value { field: environment::DISALLOW_WIN32K.name, value }),
        },
        ui_restrictions: bytes.long(&table, environment::UI_RESTRICTIONS)?,
        fs_read_write: bytes.strings(&table, environment::FS_READ_WRITE)?,
        fs_read_only: bytes.strings(&table, environment::FS_READ_ONLY)?,
        fs_deny: bytes.strings(&table, environment::FS_DENY)?,
        network: bytes
            .table(&table, environment::NETWORK_POLICY, "NetworkPolicy", network::SLOTS)?
            .map(|table| network_policy(bytes, &table))
            .transpose()?,
        fs_enumerate: bytes.strings(&table, environment::FS_ENUMERATE)?,
    })
}

fn network_policy(bytes: &mut Bytes<'_>, table: &Table) -> Result<WireNetwork, WireError> {
    let proxy_info = bytes.table(table, network::PROXY, "ProxyInfo", proxy::SLOTS)?;
    let egress = bytes.table(table, network::EGRESS, "EndpointPolicy", endpoint::SLOTS)?;
    let incoming = bytes.table(table, network::INGRESS, "IngressPolicy", ingress::SLOTS)?;
    Ok(WireNetwork {
        proxy: match proxy_info {
            Some(table) => Some(WireProxy { url: bytes.string(&table, proxy::URL)? }),
            None => None,
        },
        egress: match egress {
            Some(table) => Some(WireEgress {
                default_action: action(bytes, &table, endpoint::DEFAULT_ACTION)?,
                allow: rules(bytes, &table, endpoint::ALLOW)?,
                deny: rules(bytes, &table, endpoint::DENY)?,
            }),
            None => None,
        },
        allowed_appcontainer_peer: bytes.string(table, network::PEER)?,
        ingress: match incoming {
            Some(table) => Some(WireIngress {
                default_action: action(bytes, &table, ingress::DEFAULT_ACTION)?,
                host_loopback: action(bytes, &table, ingress::HOST_LOOPBACK)?,
            }),
            None => None,
        },
    })
}

fn rules(
    bytes: &mut Bytes<'_>,
    table: &Table,
    slot: super::layout::Slot,
) -> Result<Option<Vec<WireRule>>, WireError> {
    bytes.tables(table, slot, "EndpointRule", rule::SLOTS, |bytes, table| {
        Ok(WireRule {
            destinations: bytes.tables(
                table,
                rule::DESTINATIONS,
                "DestinationRule",
                destination::SLOTS,
                |bytes, table| {
                    let one = bytes.table(table, destination::SUBNET, "IpSubnet", subnet::SLOTS)?;
                    Ok(WireDestination {
                        subnet: one.map(|table| ip_subnet(bytes, &table)).transpose()?,
                        except: bytes.tables(
                            table,
                            destination::EXCEPT,
                            "IpSubnet",
                            subnet::SLOTS,
                            ip_subnet,
                        )?,
                    })
                },
            )?,
            ports: bytes.tables(table, rule::PORTS, "PortRule", port::SLOTS, port_rule)?,
        })
    })
}

fn ip_subnet(bytes: &mut Bytes<'_>, table: &Table) -> Result<WireSubnet, WireError> {
    Ok(WireSubnet {
        address: bytes.string(table, subnet::ADDRESS)?,
        prefix_length: bytes.byte(table, subnet::PREFIX_LENGTH)?,
    })
}

fn port_rule(bytes: &mut Bytes<'_>, table: &Table) -> Result<WirePort, WireError> {
    let protocol = match bytes.byte(table, port::PROTOCOL)? {
        0 => IpProtocol::Any,
        1 => IpProtocol::Tcp,
        2 => IpProtocol::Udp,
        3 => IpProtocol::IcmpV4,
        4 => IpProtocol::IcmpV6,
        value => return Err(WireError::Value { field: port::PROTOCOL.name, value }),
    };
    Ok(WirePort {
        protocol,
        port: bytes.short(table, port::PORT)?,
        end_port: bytes.short(table, port::END_PORT)?,
    })
}

fn action(
    bytes: &mut Bytes<'_>,
    table: &Table,
    slot: super::layout::Slot,
) -> Result<FilterAction, WireError> {
    match bytes.byte(table, slot)? {
        0 => Ok(FilterAction::Deny),
        1 => Ok(FilterAction::Allow),
        value => Err(WireError::Value { field: slot.name, value }),
    }
}
