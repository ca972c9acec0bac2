//! What an address is, judged by its bytes and never by its text. It refuses to know names and rules.
//!
//! The tables follow the IANA special-purpose registries (RFC 6890 and its updates). What is neither listed nor
//! global unicast counts as reserved: an unknown range is closed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kinds of addresses that a decision tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Public,
    Loopback,
    Private,
    SharedByCarrier,
    LinkLocal,
    Metadata,
    Multicast,
    Broadcast,
    Unspecified,
    Documentation,
    Benchmark,
    Reserved,
    UniqueLocal,
    SiteLocal,
}

impl Kind {
    /// True when an allowlist entry may name such an address outright. Nobody has a reason to dial the rest, and
    /// the metadata service hands out the machine's own credentials.
    pub fn may_be_named(self) -> bool {
        !matches!(
            self,
            Kind::Metadata | Kind::Multicast | Kind::Broadcast | Kind::Unspecified | Kind::Reserved
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Public => "a public address",
            Kind::Loopback => "a loopback address",
            Kind::Private => "a private address",
            Kind::SharedByCarrier => "a carrier's shared address",
            Kind::LinkLocal => "a link-local address",
            Kind::Metadata => "a cloud's metadata address",
            Kind::Multicast => "a multicast address",
            Kind::Broadcast => "the broadcast address",
            Kind::Unspecified => "the unspecified address",
            Kind::Documentation => "a documentation address",
            Kind::Benchmark => "a benchmark address",
            Kind::Reserved => "a reserved address",
            Kind::UniqueLocal => "a unique local address",
            Kind::SiteLocal => "a site-local address",
        })
    }
}

/// Judges an address. IPv4 inside IPv6 (mapped, compatible, NAT64, 6to4, Teredo) is judged as the inner address.
pub fn judge(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => judge_v4(address),
        IpAddr::V6(address) => judge_v6(address),
    }
}

/// True when the address is only another spelling of an IPv4 address.
pub fn is_wrapped(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => inner(address) != Inner::None,
    }
}

/// Single addresses that clouds serve credentials or instance data on.
const METADATA_V4: [[u8; 4]; 6] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [100, 100, 100, 200],
    [192, 0, 0, 192],
    [168, 63, 129, 16],
];
const METADATA_V6: [[u16; 8]; 3] = [
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23],
    [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],
];

/// Network, prefix length, kind; the first that covers an address decides.
const V4: [([u8; 4], u32, Kind); 17] = [
    ([0, 0, 0, 0], 32, Kind::Unspecified),
    ([0, 0, 0, 0], 8, Kind::Reserved),
    ([10, 0, 0, 0], 8, Kind::Private),
    ([100, 64, 0, 0], 10, Kind::SharedByCarrier),
    ([127, 0, 0, 0], 8, Kind::Loopback),
    ([169, 254, 0, 0], 16, Kind::LinkLocal),
    ([172, 16, 0, 0], 12, Kind::Private),
    ([192, 0, 0, 0], 24, Kind::Reserved),
    ([192, 0, 2, 0], 24, Kind::Documentation),
    ([192, 88, 99, 0], 24, Kind::Reserved),
    ([192, 168, 0, 0], 16, Kind::Private),
    ([198, 18, 0, 0], 15, Kind::Benchmark),
    ([198, 51, 100, 0], 24, Kind::Documentation),
    ([203, 0, 113, 0], 24, Kind::Documentation),
    ([224, 0, 0, 0], 4, Kind::Multicast),
    ([255, 255, 255, 255], 32, Kind::Broadcast),
    ([240, 0, 0, 0], 4, Kind::Reserved),
];
const V6: [([u16; 8], u32, Kind); 12] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Kind::Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, Kind::Loopback),
    // NAT64's local-use prefix: where the IPv4 part lies is the operator's choice, so it is private as a whole.
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Kind::Private),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, Kind::Benchmark),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Kind::Reserved),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Kind::Documentation),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Kind::Documentation),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Kind::UniqueLocal),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Kind::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Kind::SiteLocal),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Kind::Multicast),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Kind::Public),
];

fn judge_v4(address: Ipv4Addr) -> Kind {
    if METADATA_V4.contains(&address.octets()) {
        return Kind::Metadata;
    }
    let covers = |network: [u8; 4], prefix: u32| {
        (address.to_bits() ^ Ipv4Addr::from(network).to_bits()).leading_zeros() >= prefix
    };
    V4.iter()
        .find(|(network, prefix, _)| covers(*network, *prefix))
        .map_or(Kind::Public, |(_, _, kind)| *kind)
}

fn judge_v6(address: Ipv6Addr) -> Kind {
    if METADATA_V6.contains(&address.segments()) {
        return Kind::Metadata;
    }
    match inner(address) {
        Inner::One(inner) => return judge_v4(inner),
        // Teredo names a server and a client: both have to be public.
        Inner::Two(server, client) => {
            let kind = judge_v4(server);
            return if kind == Kind::Public { judge_v4(client) } else { kind };
        }
        Inner::None => {}
    }
    let covers = |network: [u16; 8], prefix: u32| {
        (address.to_bits() ^ Ipv6Addr::from(network).to_bits()).leading_zeros() >= prefix
    };
    V6.iter()
        .find(|(network, prefix, _)| covers(*network, *prefix))
        .map_or(Kind::Reserved, |(_, _, kind)| *kind)
}

#[derive(PartialEq, Eq)]
enum Inner {
    None,
    One(Ipv4Addr),
    Two(Ipv4Addr, Ipv4Addr),
}

/// The IPv4 address that an IPv6 address wraps.
fn inner(address: Ipv6Addr) -> Inner {
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // `::` and `::1` are addresses of their own, not 0.0.0.0 and 0.0.0.1.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Inner::None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Inner::One(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Inner::One(v4(high, low)),
        [0x2002, high, low, ..] => Inner::One(v4(high, low)),
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            Inner::Two(v4(server_high, server_low), v4(!high, !low))
        }
        _ => Inner::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(text: &str) -> Kind {
        judge(text.parse().unwrap())
    }

    #[test]
    fn c109_every_spelling_of_a_closed_address_is_closed() {
        for (text, expected) in [
            ("::ffff:127.0.0.1", Kind::Loopback),
            ("::ffff:7f00:1", Kind::Loopback),
            ("0:0:0:0:0:ffff:7f00:1", Kind::Loopback),
            ("::ffff:a9fe:a9fe", Kind::Metadata),
            ("::127.0.0.1", Kind::Loopback),
            ("64:ff9b::7f00:1", Kind::Loopback),
            ("64:ff9b:1::7f00:1", Kind::Private),
            ("2002:7f00:1::", Kind::Loopback),
            ("2001:0:7f00:1::", Kind::Loopback),
            ("2001:0:808:808::80ff:fffe", Kind::Loopback),
            ("::1", Kind::Loopback),
            ("::", Kind::Unspecified),
            ("fe80::1", Kind::LinkLocal),
            ("fd00::1", Kind::UniqueLocal),
            ("fec0::1", Kind::SiteLocal),
            ("ff02::1", Kind::Multicast),
            ("fd00:ec2::254", Kind::Metadata),
            ("169.254.169.254", Kind::Metadata),
            ("169.254.1.1", Kind::LinkLocal),
            ("0.0.0.0", Kind::Unspecified),
            ("0.1.2.3", Kind::Reserved),
            ("255.255.255.255", Kind::Broadcast),
            ("240.0.0.1", Kind::Reserved),
            ("100.64.0.1", Kind::SharedByCarrier),
            ("198.19.255.255", Kind::Benchmark),
            ("2001:db8::1", Kind::Documentation),
            ("100::1", Kind::Reserved),
            ("::ffff:0:7f00:1", Kind::Reserved),
            ("4000::1", Kind::Reserved),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        for text in [
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(kind(text), Kind::Public, "{text}");
        }
    }

    /// The same ranges once more, as text and bit masks: an oracle that shares no code with the judge.
    const CLOSED: &[&str] = &[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",
    ];

    fn closed_by_oracle(address: Ipv4Addr) -> bool {
        CLOSED.iter().any(|range| {
            let (network, bits) = range.split_once('/').unwrap();
            let network = u32::from_be_bytes(network.parse::<Ipv4Addr>().unwrap().octets());
            let bits: u32 = bits.parse().unwrap();
            let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
            u32::from_be_bytes(address.octets()) & mask == network & mask
        })
    }

    fn near_a_border() -> impl Strategy<Value = Ipv4Addr> {
        prop_oneof![
            any::<u32>().prop_map(Ipv4Addr::from_bits),
            (0..CLOSED.len(), -2i64..3, any::<bool>()).prop_map(|(index, step, end)| {
                let (network, bits) = CLOSED[index].split_once('/').unwrap();
                let start = i64::from(network.parse::<Ipv4Addr>().unwrap().to_bits());
                let size = 1i64 << (32 - bits.parse::<i64>().unwrap());
                let at = start + step + if end { size } else { 0 };
                Ipv4Addr::from_bits(at.rem_euclid(1 << 32) as u32)
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn v4_agrees_with_the_table(address in near_a_border()) {
            prop_assert_eq!(judge(address.into()) != Kind::Public, closed_by_oracle(address), "{}", address);
        }

        #[test]
        fn v4_agrees_with_the_standard_library(address in near_a_border()) {
            let closed = address.is_loopback() || address.is_private() || address.is_link_local()
                || address.is_multicast() || address.is_broadcast() || address.is_unspecified()
                || address.is_documentation();
            prop_assert!(!closed || judge(address.into()) != Kind::Public);
        }

        #[test]
        fn wrapping_changes_nothing(address in near_a_border()) {
            let [a, b, c, d] = address.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            prop_assume!(high != 0); // ::0.0.0.x overlaps `::` and `::1`
            for wrapped in [
                address.to_ipv6_mapped(),
                address.to_ipv6_compatible(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 7, 7, 7, 7, 7),
                Ipv6Addr::new(0x2001, 0, 0x808, 0x808, 0, 0, !high, !low),
            ] {
                prop_assert_eq!(judge(wrapped.into()), judge(address.into()), "{}", wrapped);
                prop_assert!(is_wrapped(wrapped.into()));
            }
        }

        #[test]
        fn v6_is_public_only_within_global_unicast(bits in any::<u128>()) {
            let address = Ipv6Addr::from_bits(bits);
            let closed = address.is_loopback() || address.is_multicast() || address.is_unspecified()
                || address.is_unique_local() || address.is_unicast_link_local();
            prop_assert!(!closed || judge(address.into()) != Kind::Public);
            if judge(address.into()) == Kind::Public && !is_wrapped(address.into()) {
                prop_assert_eq!(bits >> 125, 1);
            }
        }
    }
}
