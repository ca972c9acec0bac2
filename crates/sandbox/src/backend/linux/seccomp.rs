//! The system-call filter: a table of data with a reason a line ([`rules`]), the kernel's numbers
//! ([`numbers`]), and the program that the compiler makes from both ([`mod@program`]), so that a launch loads
//! a finished array. Knows no system: it compiles everywhere, and `sys` loads what it gives.
//!
//! Every call that Linux has is named once and judged. A number that is not named gets ENOSYS, a denied
//! call EPERM, and nothing is ever killed: a program that probes for a call falls back.

mod numbers;
mod program;
mod rules;
#[cfg(test)]
mod tests;

pub use rules::{Clause, Condition, Half, Treatment, Verdict};

/// One instruction of a classic BPF program, laid out as the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SockFilter {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip when a comparison is true.
    pub jt: u8,
    /// How many instructions to skip when a comparison is false.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// A processor architecture that has a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// AMD64, with its i386 and x32 call tables closed.
    X86_64,
    /// 64-bit Arm, with its 32-bit call table closed.
    Aarch64,
}

impl Architecture {
    /// The one this program was built for; without a filter for it there is no sandbox.
    pub const fn host() -> Option<Self> {
        if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(Self::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// The kernel's `AUDIT_ARCH_*` value: which call table a call came through.
    const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    /// The call's number here, where it has one.
    const fn number(self, call: &numbers::Number) -> Option<u16> {
        let number = match self {
            Self::X86_64 => call.x86_64,
            Self::Aarch64 => call.aarch64,
        };
        if number == numbers::NONE { None } else { Some(number) }
    }
}

/// The filter, ready to load; made at build time.
///
/// There is one: a run that shares the host's network gets the same, since what the filter closes there
/// (raw and packet sockets, MPTCP, vsock) no other part would.
pub fn program(architecture: Architecture) -> &'static [SockFilter] {
    match architecture {
        Architecture::X86_64 => X86_64.instructions(),
        Architecture::Aarch64 => AARCH64.instructions(),
    }
}

static X86_64: program::Program = program::compile(Architecture::X86_64);
static AARCH64: program::Program = program::compile(Architecture::Aarch64);

/// One line of `sandbox explain`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kernel's name for the call.
    pub call: &'static str,
    /// Its number on the architecture that was asked about.
    pub number: u16,
    /// What happens to it.
    pub treatment: &'static Treatment,
    /// Why.
    pub reason: &'static str,
}

/// Every call of an architecture with its treatment and the reason for it, in the order of the numbers'
/// list.
pub fn table(architecture: Architecture) -> impl Iterator<Item = Row> {
    numbers::NUMBERS.iter().enumerate().filter_map(move |(place, call)| {
        let rule = &rules::RULES[program::RULE_OF[place]];
        architecture.number(call).map(|number| Row {
            call: call.name,
            number,
            treatment: &rule.treatment,
            reason: rule.reason,
        })
    })
}
