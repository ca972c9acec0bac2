//! The rules as a BPF program, made while the product is compiled. Knows how a filter is laid out, and
//! nothing of why a call is treated as it is.
//!
//! ```text
//! a call that did not come through the native call table → EPERM
//! a balanced search over ranges of numbers, one comparison a node
//! the three verdicts, then one jump for each decision by argument
//! the decisions
//! ```
//!
//! At load the kernel tries the program for every number, to learn which calls are always allowed, and
//! then skips it for those. A search over ranges keeps both that and the remaining calls cheap; a list of
//! 330 comparisons takes six times as long to load.

use super::numbers::{END, NUMBERS};
use super::rules::{Clause, Condition, Half, RULES, Treatment, Verdict};
use super::{Architecture, SockFilter};

/// More than enough, and far from the kernel's 4,096; the build fails when it is not.
const CAPACITY: usize = 512;

// Classic BPF: a load of a word, comparisons with the operand, a mask, a jump, a return.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

// Where `struct seccomp_data` has what.
const NUMBER_AT: u32 = 0;
const TABLE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const RETURN_ALLOW: u32 = 0x7fff_0000;
const RETURN_ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// x32 calls come through the table of x86_64 with this bit set.
const X32: u32 = 0x4000_0000;
/// What a tracer writes over a call that it wants skipped; the kernel runs nothing for it.
const SKIPPED: u32 = u32::MAX;

/// A finished program.
pub struct Program {
    code: [SockFilter; CAPACITY],
    length: usize,
}

impl Program {
    /// What to load.
    pub fn instructions(&self) -> &[SockFilter] {
        &self.code[..self.length]
    }

    const fn push(&mut self, code: u16, k: u32, jt: usize, jf: usize) {
        assert!(jt <= u8::MAX as usize && jf <= u8::MAX as usize, "a comparison skips at most 255");
        self.code[self.length] = SockFilter { code, jt: jt as u8, jf: jf as u8, k };
        self.length += 1;
    }
}

/// Where a search ends: a verdict, or from [`DECISIONS`] up a decision by argument.
type Leaf = usize;
const DECISIONS: Leaf = 3;

/// The numbers from one start to the next are treated alike.
struct Ranges {
    starts: [u32; CAPACITY],
    leaves: [Leaf; CAPACITY],
    count: usize,
}

impl Ranges {
    const fn push(&mut self, start: u32, leaf: Leaf) {
        if self.count == 0 || self.leaves[self.count - 1] != leaf {
            self.starts[self.count] = start;
            self.leaves[self.count] = leaf;
            self.count += 1;
        }
    }
}

/// Makes an architecture's program.
pub const fn compile(architecture: Architecture) -> Program {
    let mut program = Program { code: [SockFilter { code: 0, jt: 0, jf: 0, k: 0 }; CAPACITY], length: 0 };
    let (leaves, decisions, decision_count) = leaf_of_each_number(architecture);
    let ranges = ranges(architecture, &leaves);

    program.push(LOAD, TABLE_AT, 0, 0);
    program.push(IF_EQUAL, architecture.audit(), 1, 0);
    program.push(RETURN, returned(Verdict::Deny), 0, 0);
    program.push(LOAD, NUMBER_AT, 0, 0);

    // A tree over n ranges has n - 1 nodes, so the place of every leaf is known before the first node.
    let verdicts = program.length + ranges.count - 1;
    search(&mut program, &ranges, 0, ranges.count, verdicts);

    program.push(RETURN, returned(Verdict::Allow), 0, 0);
    program.push(RETURN, returned(Verdict::Deny), 0, 0);
    program.push(RETURN, returned(Verdict::Absent), 0, 0);

    // Comparisons skip at most 255 instructions, jumps any number: one jump a decision keeps the decisions
    // out of the tree's reach.
    let jumps = program.length;
    let mut next = 0;
    while next < decision_count {
        program.push(JUMP, 0, 0, 0);
        next += 1;
    }
    next = 0;
    while next < decision_count {
        program.code[jumps + next].k = (program.length - (jumps + next) - 1) as u32;
        decide(&mut program, &RULES[decisions[next]].treatment);
        next += 1;
    }
    program
}

/// Which leaf each number ends at, and the rule behind each decision.
const fn leaf_of_each_number(architecture: Architecture) -> ([Leaf; END], [usize; RULES.len()], usize) {
    let mut leaves = [leaf(Verdict::Absent); END];
    let mut decisions = [0; RULES.len()];
    let mut decision_count = 0;
    let mut leaf_of_rule = [None; RULES.len()];
    let mut place = 0;
    while place < NUMBERS.len() {
        if let Some(number) = architecture.number(&NUMBERS[place]) {
            let rule = RULE_OF[place];
            leaves[number as usize] = match (&RULES[rule].treatment, leaf_of_rule[rule]) {
                (Treatment::Always(verdict), _) => leaf(*verdict),
                (Treatment::ByArgument(..), Some(leaf)) => leaf,
                (Treatment::ByArgument(..), None) => {
                    let leaf = DECISIONS + decision_count;
                    leaf_of_rule[rule] = Some(leaf);
                    decisions[decision_count] = rule;
                    decision_count += 1;
                    leaf
                }
            };
        }
        place += 1;
    }
    (leaves, decisions, decision_count)
}

const fn ranges(architecture: Architecture, leaves: &[Leaf; END]) -> Ranges {
    let mut ranges = Ranges { starts: [0; CAPACITY], leaves: [0; CAPACITY], count: 0 };
    let mut number = 0;
    while number < END {
        ranges.push(number as u32, leaves[number]);
        number += 1;
    }
    ranges.push(END as u32, leaf(Verdict::Absent));
    if let Architecture::X86_64 = architecture {
        ranges.push(X32, leaf(Verdict::Deny));
    }
    ranges.push(SKIPPED, leaf(Verdict::Allow));
    ranges
}

/// Emits the tree over the ranges from `first` up to `end`, the lower half straight after its node.
const fn search(program: &mut Program, ranges: &Ranges, first: usize, end: usize, verdicts: usize) {
    if end - first < 2 {
        return;
    }
    let middle = first + (end - first) / 2;
    let after = program.length + 1;
    let upper = after + (middle - first - 1);
    let upper_at = if end - middle == 1 { verdicts + ranges.leaves[middle] } else { upper };
    let lower_at = if middle - first == 1 { verdicts + ranges.leaves[first] } else { after };
    program.push(IF_AT_LEAST, ranges.starts[middle], upper_at - after, lower_at - after);
    search(program, ranges, first, middle, verdicts);
    search(program, ranges, middle, end, verdicts);
}

/// Emits one decision by argument.
const fn decide(program: &mut Program, treatment: &Treatment) {
    let (clauses, otherwise) = match treatment {
        Treatment::ByArgument(clauses, otherwise) => (*clauses, *otherwise),
        Treatment::Always(verdict) => (&[] as &[Clause], *verdict),
    };
    let mut next = 0;
    while next < clauses.len() {
        let clause = &clauses[next];
        let mut left = length_of(clause.all);
        let mut condition = 0;
        while condition < clause.all.len() {
            left -= length_of_one(&clause.all[condition]);
            // A failed condition skips the rest of its clause, the return included.
            ask(program, &clause.all[condition], left + 1);
            condition += 1;
        }
        program.push(RETURN, returned(clause.verdict), 0, 0);
        next += 1;
    }
    program.push(RETURN, returned(otherwise), 0, 0);
}

/// Emits one condition: goes on when it holds, skips `rest` instructions after its own when it does not.
const fn ask(program: &mut Program, condition: &Condition, rest: usize) {
    match *condition {
        Condition::AnyBit(argument, half, bits) => {
            program.push(LOAD, offset(argument, half), 0, 0);
            program.push(IF_ANY_BIT, bits, 0, rest);
        }
        Condition::OneOf(argument, half, mask, values) => {
            program.push(LOAD, offset(argument, half), 0, 0);
            if mask != u32::MAX {
                program.push(AND, mask, 0, 0);
            }
            let mut next = 0;
            while next < values.len() {
                let after = values.len() - next - 1;
                program.push(IF_EQUAL, values[next], after, if after == 0 { rest } else { 0 });
                next += 1;
            }
        }
    }
}

const fn length_of(conditions: &[Condition]) -> usize {
    let mut length = 0;
    let mut next = 0;
    while next < conditions.len() {
        length += length_of_one(&conditions[next]);
        next += 1;
    }
    length
}

const fn length_of_one(condition: &Condition) -> usize {
    match *condition {
        Condition::AnyBit(..) => 2,
        Condition::OneOf(_, _, mask, values) => 1 + (mask != u32::MAX) as usize + values.len(),
    }
}

/// Both architectures are little-endian: the low half comes first.
const fn offset(argument: u8, half: Half) -> u32 {
    assert!(argument < 6, "a call has six arguments");
    ARGUMENTS_AT + 8 * argument as u32 + if let Half::High = half { 4 } else { 0 }
}

const fn leaf(verdict: Verdict) -> Leaf {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Deny => 1,
        Verdict::Absent => 2,
    }
}

const fn returned(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => RETURN_ALLOW,
        Verdict::Deny => RETURN_ERRNO | EPERM,
        Verdict::Absent => RETURN_ERRNO | ENOSYS,
    }
}

/// The rule of each call in [`NUMBERS`]. The build fails for a call without a rule, a call with two, and a
/// rule for a call that does not exist.
pub const RULE_OF: [usize; NUMBERS.len()] = {
    let mut rule_of = [None; NUMBERS.len()];
    let mut rule = 0;
    while rule < RULES.len() {
        let calls = RULES[rule].calls.as_bytes();
        let mut at = 0;
        while at < calls.len() {
            let mut end = at;
            while end < calls.len() && calls[end] != b' ' {
                end += 1;
            }
            let place = place_of(calls, at, end);
            assert!(rule_of[place].is_none(), "a call has two rules");
            rule_of[place] = Some(rule);
            at = end + 1;
        }
        rule += 1;
    }
    let mut complete = [0; NUMBERS.len()];
    let mut place = 0;
    while place < NUMBERS.len() {
        complete[place] = rule_of[place].expect("every call has a rule");
        place += 1;
    }
    complete
};

/// Where a name stands in [`NUMBERS`].
const fn place_of(text: &[u8], at: usize, end: usize) -> usize {
    let mut place = 0;
    while place < NUMBERS.len() {
        let name = NUMBERS[place].name.as_bytes();
        let mut same = 0;
        while name.len() == end - at && same < name.len() && name[same] == text[at + same] {
            same += 1;
        }
        if same == end - at {
            return place;
        }
        place += 1;
    }
    panic!("a rule names a call that does not exist")
}
