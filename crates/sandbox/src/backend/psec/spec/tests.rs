//! The bytes of specifications: golden ones, every one read back, and what is refused.

use std::fmt::Write as _;

use flatbuffers::FlatBufferBuilder;
use proptest::prelude::*;

use super::layout::{self, Slot};
use super::wire::{WireError, parts, read};
use super::write::encode_minimal;
use super::*;
use crate::backend::psec::contract::{FIRST, SECOND};

fn path(text: &str) -> WindowsPath {
    text.parse().unwrap()
}

fn paths(texts: &[&str]) -> Vec<WindowsPath> {
    texts.iter().map(|text| path(text)).collect()
}

fn peer() -> Peer {
    Peer::try_from(crate::backend::psec::route::PROFILE.to_owned()).unwrap()
}

fn full(network: Network) -> Specification {
    Specification {
        read_write: paths(&[r"C:\Users\me\work", r"C:\Users\me\AppData\Local\oz0-runs\7f3a"]),
        read_only: paths(&[r"C:\SDK", r"C:\Users\me\work\.git\config"]),
        deny: paths(&[r"C:\Users\me\AppData\Local\orchestrator-zero-node"]),
        ..Specification::new(network)
    }
}

/// Each part of the bytes on a line: where, which bytes, what it is.
fn annotated(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut end = 0;
    let mut line = |range: std::ops::Range<usize>, words: String| {
        for (row, chunk) in bytes[range.clone()].chunks(16).enumerate() {
            let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            let words = if row == 0 { words.as_str() } else { "" };
            let row = format!("{:04x}  {:<47}  {words}", range.start + 16 * row, hex.join(" "));
            writeln!(out, "{}", row.trim_end()).unwrap();
        }
    };
    for part in parts(bytes).unwrap() {
        if part.bytes.start > end {
            line(end..part.bytes.start, "padding".into());
        }
        end = part.bytes.end;
        let text = std::str::from_utf8(&bytes[part.bytes.clone()]).unwrap_or_default().trim_end_matches('\0');
        let text = if part.what == "text" { format!(" \"{text}\"") } else { String::new() };
        line(part.bytes.clone(), format!("{} {}{text}", part.name, part.what));
    }
    out
}

/// The least image as it is computed from the encoding's rules, and as the runtime lays it out: the padding is
/// elsewhere, and both say the same.
#[test]
fn the_least_specification_is_24_bytes() {
    let computed = b"\x10\0\0\0PSEC\x06\0\x08\0\x04\0\0\0\x08\0\0\0\x01\0\0\0";
    let ours = encode_minimal(FIRST);
    assert_eq!(ours, b"\x10\0\0\0PSEC\0\0\x06\0\x08\0\x04\0\x06\0\0\0\x01\0\0\0");
    assert_eq!((computed.len(), ours.len()), (24, 24));
    let wire = read(computed).unwrap();
    assert_eq!(read(&ours).unwrap(), wire);
    assert_eq!(wire.version, FIRST);
    assert_eq!(wire, Wire { version: FIRST, ..wire_of_nothing() });
    assert_eq!(read(&encode_minimal(SECOND)).unwrap().version, SECOND);
}

fn wire_of_nothing() -> Wire {
    Wire {
        version: FIRST,
        capabilities: None,
        disallow_win32k_system_calls: false,
        ui_restrictions: 0,
        fs_read_write: None,
        fs_read_only: None,
        fs_deny: None,
        fs_enumerate: None,
        network: None,
    }
}

#[test]
fn the_bridge_routes_specification() {
    let bytes = encode(&full(Network::Closed), FIRST);
    insta::assert_snapshot!(annotated(&bytes));
}

/// As 26300.9711 takes it: version 1.0, the capability, the proxy and its peer, no rules for either direction.
#[test]
fn the_relay_routes_specification() {
    let specification = full(Network::Proxied(Proxied { port: 47330, peer: peer() }));
    let bytes = encode(&specification, FIRST);
    let wire = read(&bytes).unwrap();
    assert_eq!((wire.version.major, wire.version.minor), (1, 0));
    assert_eq!(wire.capabilities.as_deref(), Some("privateNetworkClientServer"));
    assert!(!wire.disallow_win32k_system_calls);
    assert_eq!(wire.ui_restrictions, 0x3de);
    let network = wire.network.unwrap();
    assert_eq!(network.proxy.unwrap().url.as_deref(), Some("http://127.0.0.1:47330"));
    assert_eq!(network.allowed_appcontainer_peer.as_deref(), Some("oz0.egress-relay"));
    assert_eq!((network.egress, network.ingress), (None, None));
    insta::assert_snapshot!(annotated(&bytes));
}

/// Every slot once, with the number that the published schema gives it.
#[test]
fn slots_are_the_published_schemas() {
    let numbers =
        |slots: &[Slot]| -> Vec<(u16, &str)> { slots.iter().map(|slot| (slot.index, slot.name)).collect() };
    let e = [
        layout::environment::VERSION,
        layout::environment::CAPABILITIES,
        layout::environment::DISALLOW_WIN32K,
        layout::environment::UI_RESTRICTIONS,
        layout::environment::FS_READ_WRITE,
        layout::environment::FS_READ_ONLY,
        layout::environment::FS_DENY,
        layout::environment::NETWORK_POLICY,
        layout::environment::FS_ENUMERATE,
    ];
    insta::assert_compact_debug_snapshot!(numbers(&e), @r#"[(0, "version"), (1, "capabilities"), (2, "disallow_win32k_system_calls"), (3, "ui_restrictions"), (4, "fs_read_write"), (5, "fs_read_only"), (6, "fs_deny"), (7, "network_policy"), (8, "fs_enumerate")]"#);
    let n =
        [layout::network::PROXY, layout::network::EGRESS, layout::network::PEER, layout::network::INGRESS];
    insta::assert_compact_debug_snapshot!(numbers(&n), @r#"[(0, "proxy"), (1, "egress"), (2, "allowed_appcontainer_peer"), (3, "ingress")]"#);
    assert_eq!(e[8].offset(), 20);
}

#[test]
fn the_most_specific_path_decides_and_the_strictest_list_on_it() {
    let specification = Specification {
        read_write: paths(&[r"C:\work", r"C:\closed\open", r"C:\both", r"D:\"]),
        read_only: paths(&[r"C:\work\.git\config", r"C:\both"]),
        deny: paths(&[r"C:\closed", r"C:\work\.husky"]),
        enumerate: paths(&[r"C:\Users"]),
        ..Specification::new(Network::Closed)
    };
    for (text, rule) in [
        (r"C:\work\a\b", Rule::ReadWrite),
        (r"c:\WORK", Rule::ReadWrite),
        (r"C:\work\.git\config", Rule::ReadOnly),
        (r"C:\work\.GIT\CONFIG\x", Rule::ReadOnly),
        (r"C:\work\.git", Rule::ReadWrite),
        (r"C:\work\.husky\x", Rule::Deny),
        (r"C:\closed\x", Rule::Deny),
        (r"C:\closed\open\x", Rule::ReadWrite),
        (r"C:\both", Rule::ReadOnly),
        (r"C:\Users", Rule::Enumerate),
        (r"C:\Users\me", Rule::Unnamed),
        (r"D:\", Rule::ReadWrite),
        (r"D:\x", Rule::Unnamed),
        (r"C:\workspace", Rule::Unnamed),
    ] {
        assert_eq!(specification.rule_for(&path(text)), rule, "{text}");
    }
}

#[test]
fn the_whole_loopback_is_no_peer() {
    for name in ["", "MXC-Loopback", "mxc-loopback", "a/b", "S-1-15-2-1\n", &"x".repeat(65), "é"] {
        assert!(Peer::try_from(name.to_owned()).is_err(), "{name:?}");
    }
    assert_eq!(peer().to_string(), "oz0.egress-relay");
}

/// What Windows does not take, or must never be asked for, and what this node never sends: read for what it is,
/// and none of ours.
#[test]
fn what_is_none_of_ours_is_told() {
    for (change, why) in [
        (("internetClient", None, None), "capabilities"),
        (("privateNetworkClientServer", None, Some(0)), "rules for what comes in"),
        (("privateNetworkClientServer", None, Some(1)), "rules for what comes in"),
        (("privateNetworkClientServer", Some("MXC-Loopback"), None), "no relay of this node"),
    ] as [((&str, Option<&str>, Option<i8>), &str); 4]
    {
        let (capabilities, peer, loopback) = change;
        let bytes = foreign(capabilities, peer.unwrap_or("oz0.egress-relay"), loopback);
        let wire = read(&bytes).unwrap();
        let told = Specification::meant_by(&wire).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
    let told = Specification::meant_by(&read(&encode_minimal(FIRST)).unwrap()).unwrap_err().to_string();
    assert!(told.contains("says nothing of the network"), "{told}");
}

/// A specification with a proxy, by hand: with another capability, another peer, or an ingress table beside it.
fn foreign(capabilities: &str, peer: &str, host_loopback: Option<i8>) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let url = builder.create_string("http://127.0.0.1:47330");
    let (capabilities, peer) = (builder.create_string(capabilities), builder.create_string(peer));
    let table = builder.start_table();
    builder.push_slot_always(layout::proxy::URL.offset(), url);
    let proxy = builder.end_table(table);
    let ingress = host_loopback.map(|action| {
        let table = builder.start_table();
        builder.push_slot::<i8>(layout::ingress::HOST_LOOPBACK.offset(), action, 0);
        builder.end_table(table)
    });
    let table = builder.start_table();
    builder.push_slot_always(layout::network::PROXY.offset(), proxy);
    builder.push_slot_always(layout::network::PEER.offset(), peer);
    if let Some(ingress) = ingress {
        builder.push_slot_always(layout::network::INGRESS.offset(), ingress);
    }
    let network = builder.end_table(table);
    let table = builder.start_table();
    builder.push_slot_always(layout::environment::NETWORK_POLICY.offset(), network);
    builder.push_slot_always(layout::environment::CAPABILITIES.offset(), capabilities);
    builder.push_slot_always(layout::environment::VERSION.offset(), 1u32);
    let root = builder.end_table(table);
    builder.finish(root, Some(IDENTIFIER));
    builder.finished_data().to_vec()
}

/// Rules of destinations and ports, which no run of ours has, are read too.
#[test]
fn rules_of_others_are_read() {
    let mut builder = FlatBufferBuilder::new();
    let address = builder.create_string("10.0.0.0");
    let table = builder.start_table();
    builder.push_slot::<u8>(layout::subnet::PREFIX_LENGTH.offset(), 8, 0);
    builder.push_slot_always(layout::subnet::ADDRESS.offset(), address);
    let subnet = builder.end_table(table);
    let table = builder.start_table();
    builder.push_slot_always(layout::destination::SUBNET.offset(), subnet);
    let destination = builder.end_table(table);
    let destinations = builder.create_vector(&[destination]);
    let table = builder.start_table();
    builder.push_slot::<u16>(layout::port::PORT.offset(), 443, 0);
    builder.push_slot::<i8>(layout::port::PROTOCOL.offset(), 1, 0);
    let port = builder.end_table(table);
    let ports = builder.create_vector(&[port]);
    let table = builder.start_table();
    builder.push_slot_always(layout::rule::DESTINATIONS.offset(), destinations);
    builder.push_slot_always(layout::rule::PORTS.offset(), ports);
    let rule = builder.end_table(table);
    let allow = builder.create_vector(&[rule]);
    let table = builder.start_table();
    builder.push_slot_always(layout::endpoint::ALLOW.offset(), allow);
    let egress = builder.end_table(table);
    let table = builder.start_table();
    builder.push_slot_always(layout::network::EGRESS.offset(), egress);
    let network = builder.end_table(table);
    let table = builder.start_table();
    builder.push_slot_always(layout::environment::NETWORK_POLICY.offset(), network);
    builder.push_slot_always(layout::environment::VERSION.offset(), 1u32);
    let root = builder.end_table(table);
    builder.finish(root, Some(IDENTIFIER));
    let wire = read(builder.finished_data()).unwrap();
    let rule = &wire.network.as_ref().unwrap().egress.as_ref().unwrap().allow.as_ref().unwrap()[0];
    let port = &rule.ports.as_ref().unwrap()[0];
    assert_eq!((port.protocol, port.port, port.end_port), (wire::IpProtocol::Tcp, 443, 0));
    let subnet = rule.destinations.as_ref().unwrap()[0].subnet.as_ref().unwrap();
    assert_eq!((subnet.address.as_deref(), subnet.prefix_length), (Some("10.0.0.0"), 8));
    let told = Specification::meant_by(&wire).unwrap_err().to_string();
    assert!(told.contains("lets connections out"), "{told}");
}

/// What Windows refuses as no specification, and what this reader does besides.
#[test]
fn bytes_that_are_no_specification_are_refused() {
    assert_eq!(read(b""), Err(WireError::Identifier));
    assert_eq!(
        read(b"\x08\0\0\0PSEC"),
        Err(WireError::Outside { part: "ProcessSecurityEnvironment", at: 8 })
    );
    let good = encode(&full(Network::Closed), FIRST);
    assert!(read(&good).is_ok());
    for (at, byte) in [(4, b'S'), (7, b'D')] {
        let mut other = good.clone();
        other[at] = byte;
        assert_eq!(read(&other), Err(WireError::Identifier));
    }
    let end = parts(&good).unwrap().last().unwrap().bytes.end;
    for length in 0..end {
        assert!(read(&good[..length]).is_err(), "{length}");
    }
    let mut longer = good.clone();
    longer.push(1);
    assert_eq!(read(&longer), Err(WireError::Stray(end)));
    longer.resize(good.len(), 0);
    longer.extend([0; 8]);
    assert_eq!(read(&longer), Err(WireError::Stray(end)));
    // A table without the one field that has to be there.
    let mut builder = FlatBufferBuilder::new();
    let table = builder.start_table();
    builder.push_slot::<u64>(layout::environment::UI_RESTRICTIONS.offset(), 0x3de, 0);
    let root = builder.end_table(table);
    builder.finish(root, Some(IDENTIFIER));
    assert_eq!(read(builder.finished_data()), Err(WireError::Missing("version")));
    // A field of a contract that nobody knows yet.
    let mut builder = FlatBufferBuilder::new();
    let table = builder.start_table();
    builder.push_slot_always(4 + 2 * 9, 1u32);
    builder.push_slot_always(layout::environment::VERSION.offset(), 1u32);
    let root = builder.end_table(table);
    builder.finish(root, Some(IDENTIFIER));
    let unknown = WireError::Unknown { table: "ProcessSecurityEnvironment", index: 9 };
    assert_eq!(read(builder.finished_data()), Err(unknown));
}

/// A thousand names for one long string would stand for a thousand of them.
#[test]
fn a_small_buffer_does_not_stand_for_a_large_one() {
    let mut builder = FlatBufferBuilder::new();
    let one = builder.create_string(&"x".repeat(10_000));
    let many = builder.create_vector(&vec![one; 1000]);
    let table = builder.start_table();
    builder.push_slot_always(layout::environment::FS_DENY.offset(), many);
    builder.push_slot_always(layout::environment::VERSION.offset(), 1u32);
    let root = builder.end_table(table);
    builder.finish(root, Some(IDENTIFIER));
    assert!(matches!(read(builder.finished_data()), Err(WireError::Twice(_))));
}

fn some_paths() -> impl Strategy<Value = Vec<WindowsPath>> {
    let names = proptest::collection::vec("[a-zA-Z0-9é日_-]{1,12}(\\.[a-z]{1,3})?y", 0..5);
    let one = ("[A-Z]", names).prop_map(|(drive, names)| path(&format!("{drive}:\\{}", names.join("\\"))));
    proptest::collection::vec(one, 0..6)
}

pub(crate) fn some_specification() -> impl Strategy<Value = Specification> {
    let network = prop_oneof![
        Just(Network::Closed),
        (1u16.., "[A-Za-z0-9._-]{1,64}").prop_filter_map("a peer", |(port, name)| {
            Some(Network::Proxied(Proxied { port, peer: Peer::try_from(name).ok()? }))
        }),
    ];
    let lists = (some_paths(), some_paths(), some_paths(), some_paths());
    (any::<u64>(), lists, network).prop_map(|(ui, (read_write, read_only, deny, enumerate), network)| {
        Specification { ui: Ui(ui), read_write, read_only, deny, enumerate, network }
    })
}

proptest! {
    #[test]
    fn every_specification_reads_back_as_it_was(specification in some_specification(), minor in 0u16..3) {
        let version = Contract { major: 1, minor };
        let bytes = encode(&specification, version);
        let wire = read(&bytes).unwrap();
        prop_assert_eq!(Specification::meant_by(&wire), Ok((version, specification.clone())));
        let json = serde_json::to_string(&specification).unwrap();
        prop_assert_eq!(serde_json::from_str::<Specification>(&json).unwrap(), specification);
    }

    /// One byte of a field changed: refused, or read as something else. Where fields lie may be said otherwise.
    #[test]
    fn a_changed_byte_is_seen(specification in some_specification(), at: prop::sample::Index, by in 1u8..) {
        let bytes = encode(&specification, FIRST);
        let mut changed = bytes.clone();
        let at = at.index(bytes.len());
        changed[at] ^= by;
        let part = parts(&bytes).unwrap().into_iter().find(|part| part.bytes.contains(&at));
        let says = part.is_some_and(|part| !matches!(part.what, "form" | "table" | "offset" | "length"));
        if let (Ok(wire), true) = (read(&changed), says) {
            prop_assert_ne!(wire, read(&bytes).unwrap());
        }
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), named: bool) {
        if named && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"\x08\0\0\0PSEC");
        }
        let _ = read(&bytes);
    }
}
