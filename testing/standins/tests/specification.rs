//! The stand-in reads what Windows was seen to read and refuses what it was seen to refuse.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

use flatbuffers::{
    FlatBufferBuilder, ForwardsUOffset, Push, PushAlignment, TableUnfinishedWIPOffset, Vector, WIPOffset,
};
use processmodel::specification::{Contract, Ingress, Specification, hresult};

const SEEN: Contract = Contract { major: 1, minor: 0, features: 0x3 };
const NEWER: Contract = Contract { major: 1, minor: 1, features: 0xf };

/// A version, as the structure that it is.
#[derive(Clone, Copy)]
struct Version(u16, u16);
impl Push for Version {
    type Output = Version;
    unsafe fn push(&self, to: &mut [u8], _written: usize) {
        to[..2].copy_from_slice(&self.0.to_le_bytes());
        to[2..].copy_from_slice(&self.1.to_le_bytes());
    }
    fn size() -> usize {
        4
    }
    fn alignment() -> PushAlignment {
        PushAlignment::new(2)
    }
}

type Builder = FlatBufferBuilder<'static>;
type Texts = WIPOffset<Vector<'static, ForwardsUOffset<&'static str>>>;

fn place(slot: u16) -> u16 {
    4 + 2 * slot
}

/// What a test puts into a specification.
#[derive(Clone, Default)]
struct Wanted<'a> {
    version: (u16, u16),
    /// Texts by slot: 1 is the capabilities.
    capabilities: Option<&'a str>,
    ui: u64,
    /// Lists of paths by slot.
    paths: &'a [(u16, &'a [&'a str])],
    network: Option<Net<'a>>,
}

#[derive(Clone, Default)]
struct Net<'a> {
    proxy: Option<&'a str>,
    peer: Option<&'a str>,
    egress: Option<u8>,
    ingress: Option<(u8, u8)>,
}

fn bytes(wanted: &Wanted<'_>) -> Vec<u8> {
    let mut builder = Builder::new();
    let texts = |builder: &mut Builder, all: &[&str]| -> Texts {
        let all: Vec<_> = all.iter().map(|text| builder.create_string(text)).collect();
        builder.create_vector(&all)
    };
    let paths: Vec<_> = wanted.paths.iter().map(|(slot, all)| (*slot, texts(&mut builder, all))).collect();
    let capabilities = wanted.capabilities.map(|text| builder.create_string(text));
    let network = wanted.network.as_ref().map(|net| network(&mut builder, net));
    let table = builder.start_table();
    builder.push_slot_always(place(0), Version(wanted.version.0, wanted.version.1));
    if let Some(capabilities) = capabilities {
        builder.push_slot_always(place(1), capabilities);
    }
    builder.push_slot(place(3), wanted.ui, 0);
    for (slot, all) in paths {
        builder.push_slot_always(place(slot), all);
    }
    if let Some(network) = network {
        builder.push_slot_always(place(7), network);
    }
    let table = builder.end_table(table);
    builder.finish(table, Some("PSEC"));
    builder.finished_data().to_vec()
}

fn network(builder: &mut Builder, net: &Net<'_>) -> WIPOffset<flatbuffers::TableFinishedWIPOffset> {
    let table = |builder: &mut Builder, fill: &dyn Fn(&mut Builder)| {
        let open: WIPOffset<TableUnfinishedWIPOffset> = builder.start_table();
        fill(builder);
        builder.end_table(open)
    };
    let url = net.proxy.map(|url| builder.create_string(url));
    let proxy = url.map(|url| table(builder, &|builder| builder.push_slot_always(place(0), url)));
    let egress =
        net.egress.map(|action| table(builder, &|builder| builder.push_slot_always(place(0), action)));
    let ingress = net.ingress.map(|(all, host)| {
        table(builder, &|builder| {
            builder.push_slot_always(place(0), all);
            builder.push_slot_always(place(1), host);
        })
    });
    let peer = net.peer.map(|peer| builder.create_string(peer));
    let open = builder.start_table();
    for (slot, part) in [(0, proxy), (1, egress), (3, ingress)] {
        if let Some(part) = part {
            builder.push_slot_always(place(slot), part);
        }
    }
    if let Some(peer) = peer {
        builder.push_slot_always(place(2), peer);
    }
    builder.end_table(open)
}

fn refused(wanted: &Wanted<'_>, contract: Contract) -> (u32, &'static str) {
    let refused = Specification::read(&bytes(wanted), contract).expect_err("it is to be refused");
    (refused.hresult, refused.why)
}

fn plain() -> Wanted<'static> {
    Wanted { version: (1, 0), ..Wanted::default() }
}

fn relay() -> Net<'static> {
    Net { proxy: Some("http://127.0.0.1:47330"), peer: Some("oz0.egress-relay"), ..Net::default() }
}

#[test]
fn the_smallest_is_24_bytes_worked_out_by_hand() {
    let smallest = [0x10, 0, 0, 0, b'P', b'S', b'E', b'C', 6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0];
    let read = Specification::read(&smallest, SEEN).unwrap();
    assert_eq!(read, Specification { version: (1, 0), ..Specification::default() });
    // Every cut and every wrong identifier is malformed, never a crash.
    for length in 0..smallest.len() {
        assert_eq!(
            Specification::read(&smallest[..length], SEEN).unwrap_err().hresult,
            hresult::INVALID_DATA
        );
    }
    let mut other = smallest;
    other[4..8].copy_from_slice(b"SBOX");
    assert_eq!(Specification::read(&other, SEEN).unwrap_err().hresult, hresult::INVALID_DATA);
}

#[test]
fn any_byte_of_a_large_one_may_be_another_without_a_crash() {
    let wanted = Wanted {
        version: (1, 1),
        capabilities: Some("internetClient,registryRead"),
        ui: 0x3de,
        paths: &[
            (4, &[r"C:\work"]),
            (5, &[r"C:\sdk", r"D:\"]),
            (6, &[r"C:\work\.git\hooks"]),
            (8, &[r"C:\"]),
        ],
        network: Some(Net { egress: Some(0), ingress: Some((0, 0)), ..Net::default() }),
    };
    let good = bytes(&wanted);
    let read = Specification::read(&good, NEWER).unwrap();
    assert_eq!(read.read_only.unwrap(), [r"C:\sdk", r"D:\"]);
    assert_eq!(read.network.unwrap().ingress, Some(Ingress::default()));
    let mut refused = 0;
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            refused += usize::from(Specification::read(&bad, NEWER).is_err());
        }
    }
    assert!(refused > good.len(), "{refused} refused of {} changes", good.len() * 8);
}

#[test]
fn a_newer_contract_is_not_supported() {
    assert_eq!(refused(&Wanted { version: (1, 1), ..plain() }, SEEN).0, hresult::NOT_SUPPORTED);
    assert_eq!(refused(&Wanted { version: (2, 0), ..plain() }, NEWER).0, hresult::NOT_SUPPORTED);
    // An older one is taken by a newer Windows, and may not name what came later.
    assert!(Specification::read(&bytes(&plain()), NEWER).is_ok());
    let enumerate: &[(u16, &[&str])] = &[(8, &[r"C:\"])];
    assert_eq!(refused(&Wanted { paths: enumerate, ..plain() }, NEWER).0, hresult::INVALID_DATA);
    let newer = Contract { features: 0x3, ..NEWER };
    assert_eq!(
        refused(&Wanted { version: (1, 1), paths: enumerate, ..plain() }, newer).0,
        hresult::NOT_SUPPORTED
    );
    let ingress = Some(Net { ingress: Some((0, 0)), ..Net::default() });
    assert_eq!(refused(&Wanted { network: ingress.clone(), ..plain() }, NEWER).0, hresult::INVALID_DATA);
    assert_eq!(
        refused(&Wanted { version: (1, 1), network: ingress, ..plain() }, newer).0,
        hresult::NOT_SUPPORTED
    );
}

#[test]
fn a_proxy_goes_with_its_peer_and_nothing_else() {
    let with = |network| Wanted {
        network: Some(network),
        capabilities: Some("privateNetworkClientServer"),
        ..plain()
    };
    let read = Specification::read(&bytes(&with(relay())), SEEN).unwrap().network.unwrap();
    assert_eq!(read.proxy.unwrap().unwrap(), "http://127.0.0.1:47330");
    assert_eq!(read.peer.unwrap(), "oz0.egress-relay");
    for (net, why) in [
        (Net { peer: None, ..relay() }, "a proxy without its peer"),
        (Net { egress: Some(0), ..relay() }, "a proxy and an egress table"),
        (
            Net { proxy: Some("http://10.0.0.1:80"), ..relay() },
            "the proxy's address is not http://, loopback and a port",
        ),
        (
            Net { proxy: Some("http://127.0.0.1"), ..relay() },
            "the proxy's address is not http://, loopback and a port",
        ),
    ] {
        assert_eq!(refused(&with(net), SEEN), (hresult::INVALID_ARGUMENT, why));
    }
    let both = Wanted { version: (1, 1), ..with(Net { ingress: Some((0, 0)), ..relay() }) };
    assert_eq!(refused(&both, NEWER), (hresult::INVALID_ARGUMENT, "a proxy and an ingress table"));
}

#[test]
fn paths_are_long_names_with_a_drive() {
    for path in [
        "work",
        r"\work",
        r"C:work",
        "C:/work",
        r"\\server\share",
        r"\\?\C:\work",
        r"C:\work\",
        r"C:\a\..\b",
        r"C:\a\.",
        r"C:\work:stream",
        "",
    ] {
        let all: &[&str] = &[path];
        assert_eq!(
            refused(&Wanted { paths: &[(4, all)], ..plain() }, SEEN).0,
            hresult::INVALID_ARGUMENT,
            "{path}"
        );
    }
    assert_eq!(
        refused(&Wanted { paths: &[(5, &[])], ..plain() }, SEEN).1,
        "a list of paths is there and empty"
    );
    let wildcard: &[(u16, &[&str])] = &[(6, &[r"C:\work\*.env"])];
    assert_eq!(refused(&Wanted { paths: wildcard, ..plain() }, SEEN).1, "a denied path has a wildcard");
    let deny: &[(u16, &[&str])] = &[(6, &[r"C:\work\.env"])];
    let without = Contract { features: 0x2, ..SEEN };
    assert_eq!(refused(&Wanted { paths: deny, ..plain() }, without).0, hresult::NOT_SUPPORTED);
    assert!(Specification::read(&bytes(&Wanted { paths: deny, ..plain() }), SEEN).is_ok());
}

#[test]
fn capabilities_are_joined_by_bare_commas_and_the_mask_has_ten_bits() {
    for text in ["", "a,", "a, b", ",a"] {
        let wanted = Wanted { capabilities: Some(text), ..plain() };
        assert_eq!(refused(&wanted, SEEN).0, hresult::INVALID_ARGUMENT, "{text}");
    }
    assert_eq!(refused(&Wanted { ui: 0x400, ..plain() }, SEEN).0, hresult::INVALID_ARGUMENT);
    assert!(Specification::read(&bytes(&Wanted { ui: 0x3ff, ..plain() }), SEEN).is_ok());
}
