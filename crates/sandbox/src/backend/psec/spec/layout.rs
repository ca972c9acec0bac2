//! Where each field of a specification lies: one named slot a field, by microsoft/mxc's published schema
//! (external/windows-sdk/ProcessSecurityEnvironment.fbs; contract 1.1 appends fields and moves none). Writer and
//! reader use these names and no number of their own.

/// What the bytes 4 to 7 say.
pub const IDENTIFIER: &str = "PSEC";

/// A field of a table, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The schema's number for it.
    pub(super) index: u16,
    /// The schema's name for it.
    pub(super) name: &'static str,
}

impl Slot {
    const fn new(index: u16, name: &'static str) -> Slot {
        Slot { index, name }
    }

    /// Where the table's vtable says how far off the field is: after its own two lengths.
    pub(super) const fn offset(self) -> u16 {
        4 + 2 * self.index
    }
}

/// `table ProcessSecurityEnvironment`, the root.
pub(super) mod environment {
    use super::Slot;

    /// `struct SchemaVersion { major: ushort; minor: ushort; }`, inline.
    pub(crate) const VERSION: Slot = Slot::new(0, "version");
    /// Names of capabilities, joined by commas.
    pub(crate) const CAPABILITIES: Slot = Slot::new(1, "capabilities");
    /// `bool`.
    pub(crate) const DISALLOW_WIN32K: Slot = Slot::new(2, "disallow_win32k_system_calls");
    /// `ulong`.
    pub(crate) const UI_RESTRICTIONS: Slot = Slot::new(3, "ui_restrictions");
    /// `[string]`, as the lists below.
    pub(crate) const FS_READ_WRITE: Slot = Slot::new(4, "fs_read_write");
    pub(crate) const FS_READ_ONLY: Slot = Slot::new(5, "fs_read_only");
    pub(crate) const FS_DENY: Slot = Slot::new(6, "fs_deny");
    /// `NetworkPolicy`.
    pub(crate) const NETWORK_POLICY: Slot = Slot::new(7, "network_policy");
    /// Since 1.1.
    pub(crate) const FS_ENUMERATE: Slot = Slot::new(8, "fs_enumerate");
    /// One more than the last.
    pub(crate) const SLOTS: u16 = 9;
}

/// `table NetworkPolicy`.
pub(super) mod network {
    use super::Slot;

    /// `ProxyInfo`.
    pub(crate) const PROXY: Slot = Slot::new(0, "proxy");
    /// `EndpointPolicy`.
    pub(crate) const EGRESS: Slot = Slot::new(1, "egress");
    /// `string`.
    pub(crate) const PEER: Slot = Slot::new(2, "allowed_appcontainer_peer");
    /// `IngressPolicy`, since 1.1.
    pub(crate) const INGRESS: Slot = Slot::new(3, "ingress");
    pub(crate) const SLOTS: u16 = 4;
}

/// `table ProxyInfo`.
pub(super) mod proxy {
    use super::Slot;

    /// `string`.
    pub(crate) const URL: Slot = Slot::new(0, "url");
    pub(crate) const SLOTS: u16 = 1;
}

/// `table EndpointPolicy`.
pub(super) mod endpoint {
    use super::Slot;

    /// `FilterAction : byte`.
    pub(crate) const DEFAULT_ACTION: Slot = Slot::new(0, "default_action");
    /// `[EndpointRule]`.
    pub(crate) const ALLOW: Slot = Slot::new(1, "allow");
    /// `[EndpointRule]`.
    pub(crate) const DENY: Slot = Slot::new(2, "deny");
    pub(crate) const SLOTS: u16 = 3;
}

/// `table EndpointRule`.
pub(super) mod rule {
    use super::Slot;

    /// `[DestinationRule]`.
    pub(crate) const DESTINATIONS: Slot = Slot::new(0, "destinations");
    /// `[PortRule]`.
    pub(crate) const PORTS: Slot = Slot::new(1, "ports");
    pub(crate) const SLOTS: u16 = 2;
}

/// `table DestinationRule`.
pub(super) mod destination {
    use super::Slot;

    /// `IpSubnet`.
    pub(crate) const SUBNET: Slot = Slot::new(0, "subnet");
    /// `[IpSubnet]`.
    pub(crate) const EXCEPT: Slot = Slot::new(1, "except");
    pub(crate) const SLOTS: u16 = 2;
}

/// `table IpSubnet`.
pub(super) mod subnet {
    use super::Slot;

    /// `string`.
    pub(crate) const ADDRESS: Slot = Slot::new(0, "address");
    /// `ubyte`.
    pub(crate) const PREFIX_LENGTH: Slot = Slot::new(1, "prefix_length");
    pub(crate) const SLOTS: u16 = 2;
}

/// `table PortRule`.
pub(super) mod port {
    use super::Slot;

    /// `IpProtocol : byte`.
    pub(crate) const PROTOCOL: Slot = Slot::new(0, "protocol");
    /// `ushort`; 0 is every port.
    pub(crate) const PORT: Slot = Slot::new(1, "port");
    /// `ushort`; 0 is the one port.
    pub(crate) const END_PORT: Slot = Slot::new(2, "end_port");
    pub(crate) const SLOTS: u16 = 3;
}

/// `table IngressPolicy`, since 1.1.
pub(super) mod ingress {
    use super::Slot;

    /// `FilterAction : byte`.
    pub(crate) const DEFAULT_ACTION: Slot = Slot::new(0, "default_action");
    /// `FilterAction : byte`.
    pub(crate) const HOST_LOOPBACK: Slot = Slot::new(1, "host_loopback");
    pub(crate) const SLOTS: u16 = 2;
}
