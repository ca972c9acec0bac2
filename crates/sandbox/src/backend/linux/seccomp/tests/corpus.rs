//! Calls that try every number, and for decisions by argument every value that a rule names, alone and with
//! each single bit turned.

use super::machine::Call;
use crate::backend::linux::seccomp::numbers::END;
use crate::backend::linux::seccomp::{Architecture, Condition, Half, Treatment, table};

/// Every number there is, a few that there are not, and the decisions in detail.
pub fn calls(architecture: Architecture) -> impl Iterator<Item = Call> {
    let native = architecture.audit();
    let numbers = (0..END as u32 + 64)
        .chain([0x3fff_ffff, 0x4000_0000, 0x4000_0001, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX])
        .map(move |number| Call { table: native, number, arguments: [0; 6] });
    let foreign = [native - 1, native + 1, native ^ 0x4000_0000, 0x4000_0003, 0x4000_0028, 0, u32::MAX]
        .into_iter()
        .flat_map(|table| [0, 39, 200, END as u32].map(|number| Call { table, number, arguments: [0; 6] }));
    let decisions = table(architecture).flat_map(move |row| {
        let number = u32::from(row.number);
        let bases = bases(row.treatment);
        let arguments: Vec<_> = bases.iter().flat_map(turned).chain(bases.iter().copied()).collect();
        // A range that begins one number early or late would take a neighbour into the decision.
        [number, number.saturating_sub(1), number + 1].into_iter().flat_map(move |number| {
            arguments.clone().into_iter().map(move |arguments| Call { table: native, number, arguments })
        })
    });
    numbers.chain(foreign).chain(decisions)
}

/// Argument lists that reach every clause of a decision: the values that it names, in every combination.
fn bases(treatment: &Treatment) -> Vec<[u64; 6]> {
    let Treatment::ByArgument(clauses, _) = treatment else { return Vec::new() };
    let mut named: [Vec<u64>; 6] = Default::default();
    for condition in clauses.iter().flat_map(|clause| clause.all) {
        let (argument, half, values) = match *condition {
            Condition::AnyBit(argument, half, bits) => (argument, half, vec![bits]),
            Condition::OneOf(argument, half, _, values) => (argument, half, values.to_vec()),
        };
        let shift = if half == Half::Low { 0 } else { 32 };
        named[usize::from(argument)].extend(values.iter().map(|value| u64::from(*value) << shift));
    }
    let mut bases = vec![[0; 6]];
    for (argument, values) in named.iter_mut().enumerate().filter(|(_, values)| !values.is_empty()) {
        values.extend([0, u64::from(u32::MAX)]);
        values.sort_unstable();
        values.dedup();
        bases = bases
            .iter()
            .flat_map(|base| {
                values.iter().map(move |value| {
                    let mut base = *base;
                    base[argument] = *value;
                    base
                })
            })
            .collect();
    }
    bases
}

/// The same arguments with each single bit turned.
fn turned(base: &[u64; 6]) -> impl Iterator<Item = [u64; 6]> {
    let base = *base;
    (0..6 * 64).map(move |bit| {
        let mut turned = base;
        turned[bit / 64] ^= 1 << (bit % 64);
        turned
    })
}
