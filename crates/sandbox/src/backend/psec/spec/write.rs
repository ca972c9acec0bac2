//! A specification as the bytes that Windows takes. Defaults and empty lists are left out, as Microsoft's own client
//! leaves them out (microsoft/mxc, base_container_helpers.rs).

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, UOffsetT, Vector, WIPOffset};
use oz0_fleet::Contract;

use super::layout::{IDENTIFIER, endpoint, environment, network, proxy};
use super::{Network, Specification};
use crate::backend::psec::paths::WindowsPath;

type Builder = FlatBufferBuilder<'static>;
type Table = WIPOffset<flatbuffers::TableFinishedWIPOffset>;
type Strings = WIPOffset<Vector<'static, ForwardsUOffset<&'static str>>>;

/// The bytes of a specification, to be sent in this version.
pub fn encode(specification: &Specification, version: Contract) -> Vec<u8> {
    let mut builder = Builder::with_capacity(1024);
    let capabilities = specification.network.capabilities().map(|names| builder.create_string(names));
    let mut list = |paths: &[WindowsPath]| strings(&mut builder, paths);
    let read_write = list(&specification.read_write);
    let read_only = list(&specification.read_only);
    let deny = list(&specification.deny);
    let enumerate = list(&specification.enumerate);
    let policy = network_policy(&mut builder, &specification.network);

    let table = builder.start_table();
    builder.push_slot(environment::UI_RESTRICTIONS.offset(), specification.ui.0, 0);
    if let Some(enumerate) = enumerate {
        builder.push_slot_always(environment::FS_ENUMERATE.offset(), enumerate);
    }
    builder.push_slot_always(environment::NETWORK_POLICY.offset(), policy);
    for (slot, paths) in [
        (environment::FS_DENY, deny),
        (environment::FS_READ_ONLY, read_only),
        (environment::FS_READ_WRITE, read_write),
    ] {
        if let Some(paths) = paths {
            builder.push_slot_always(slot.offset(), paths);
        }
    }
    if let Some(capabilities) = capabilities {
        builder.push_slot_always(environment::CAPABILITIES.offset(), capabilities);
    }
    push_version(&mut builder, version);
    let table = builder.end_table(table);
    finish(builder, table)
}

/// The least that Windows takes, which the probe makes an environment of.
pub fn encode_minimal(version: Contract) -> Vec<u8> {
    let mut builder = Builder::with_capacity(64);
    let table = builder.start_table();
    push_version(&mut builder, version);
    let table = builder.end_table(table);
    finish(builder, table)
}

/// The struct of two 16-bit numbers as the one 32-bit number that has the same bytes, which is aligned to more than
/// the struct asks for.
fn push_version(builder: &mut Builder, version: Contract) {
    let both = u32::from(version.major) | u32::from(version.minor) << 16;
    builder.push_slot_always(environment::VERSION.offset(), both);
}

fn finish(mut builder: Builder, root: Table) -> Vec<u8> {
    builder.finish(root, Some(IDENTIFIER));
    builder.finished_data().to_vec()
}

fn strings(builder: &mut Builder, paths: &[WindowsPath]) -> Option<Strings> {
    let strings: Vec<_> = paths.iter().map(|path| builder.create_string(&path.to_string())).collect();
    (!strings.is_empty()).then(|| builder.create_vector(&strings))
}

fn network_policy(builder: &mut Builder, way: &Network) -> Table {
    match way {
        Network::Closed => {
            // The default action is deny, and a default is not written: the table alone says it.
            let table = builder.start_table();
            builder.push_slot::<i8>(endpoint::DEFAULT_ACTION.offset(), DENY, DENY);
            let egress = builder.end_table(table);
            let table = builder.start_table();
            builder.push_slot_always(network::EGRESS.offset(), egress);
            builder.end_table(table)
        }
        Network::Proxied(proxied) => {
            let url = builder.create_string(&proxied.url());
            let peer = builder.create_string(&proxied.peer.to_string());
            let table = builder.start_table();
            builder.push_slot_always(proxy::URL.offset(), url);
            let proxy = builder.end_table(table);
            let table = builder.start_table();
            builder.push_slot_always(network::PEER.offset(), peer);
            builder.push_slot_always(network::PROXY.offset(), proxy);
            builder.end_table(table)
        }
    }
}

/// `FilterAction.deny`.
const DENY: i8 = 0;

/// The type of an offset is what the layout's numbers are made for.
const _: () = assert!(size_of::<UOffsetT>() == 4);
