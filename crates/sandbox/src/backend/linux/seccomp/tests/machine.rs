//! A machine for the part of classic BPF that filters use, strict where the kernel is: an unknown
//! instruction, a load outside the call's data or a jump past the end is a fault.

use crate::backend::linux::seccomp::{SockFilter, Verdict};

/// What the kernel shows a filter of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which call table it came through.
    pub table: u32,
    /// Its number there.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> Option<u32> {
        match offset {
            0 => Some(self.number),
            4 => Some(self.table),
            8 | 12 => Some(0),
            _ if offset.is_multiple_of(4) => {
                let argument = *self.arguments.get((offset as usize - 16) / 8)?;
                Some(if offset.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 })
            }
            _ => None,
        }
    }
}

/// What the program returns, as a verdict.
pub fn answer(program: &[SockFilter], call: &Call) -> Result<Verdict, String> {
    match run(program, call)? {
        0x7fff_0000 => Ok(Verdict::Allow),
        0x0005_0001 => Ok(Verdict::Deny),
        0x0005_0026 => Ok(Verdict::Absent),
        other => Err(format!("returns {other:#x}")),
    }
}

/// What the program returns.
pub fn run(program: &[SockFilter], call: &Call) -> Result<u32, String> {
    trace(program, call, |_| ())
}

/// What the program returns, with every place that it passes shown on the way.
pub fn trace(program: &[SockFilter], call: &Call, mut pass: impl FnMut(usize)) -> Result<u32, String> {
    let mut accumulator = 0;
    let mut place = 0;
    loop {
        let instruction = program.get(place).ok_or("runs past the end")?;
        pass(place);
        place += 1;
        let mut skip = |is_true: bool| {
            place += usize::from(if is_true { instruction.jt } else { instruction.jf });
        };
        match instruction.code {
            0x20 => accumulator = call.word(instruction.k).ok_or("loads outside the call")?,
            0x15 => skip(accumulator == instruction.k),
            0x35 => skip(accumulator >= instruction.k),
            0x45 => skip(accumulator & instruction.k != 0),
            0x54 => accumulator &= instruction.k,
            0x05 => place += instruction.k as usize,
            0x06 => return Ok(instruction.k),
            other => return Err(format!("unknown instruction {other:#x}")),
        }
    }
}

/// What the kernel asks of a program before it takes it.
pub fn check(program: &[SockFilter]) -> Result<(), String> {
    for (place, instruction) in program.iter().enumerate() {
        let furthest = match instruction.code {
            0x15 | 0x35 | 0x45 => usize::from(instruction.jt.max(instruction.jf)),
            0x05 => instruction.k as usize,
            0x20 if instruction.k % 4 != 0 || instruction.k >= 64 => {
                return Err(format!("{place} loads at {}", instruction.k));
            }
            0x20 | 0x54 | 0x06 => 0,
            other => return Err(format!("{place} is {other:#x}")),
        };
        if place + 1 + furthest >= program.len() && instruction.code != 0x06 {
            return Err(format!("{place} leaves the program"));
        }
    }
    match program.last() {
        Some(last) if last.code == 0x06 => Ok(()),
        _ => Err("does not end with a return".into()),
    }
}

/// The instruction gone wrong in the ways that would change what the program says.
pub fn mutants(original: SockFilter) -> Vec<SockFilter> {
    let with = |change: fn(&mut SockFilter)| {
        let mut mutant = original;
        change(&mut mutant);
        mutant
    };
    match original.code {
        0x15 | 0x35 => vec![
            with(|it| std::mem::swap(&mut it.jt, &mut it.jf)),
            with(|it| it.k = it.k.wrapping_add(1)),
            with(|it| it.k = it.k.wrapping_sub(1)),
        ],
        0x45 => vec![
            with(|it| std::mem::swap(&mut it.jt, &mut it.jf)),
            with(|it| it.k &= it.k - 1),
            with(|it| it.k &= !(1 << it.k.ilog2())),
            with(|it| it.k |= 1 << it.k.trailing_ones()),
        ],
        0x54 => vec![with(|it| it.k &= it.k - 1), with(|it| it.k |= 1 << it.k.trailing_ones())],
        0x20 => vec![with(|it| it.k += 4), with(|it| it.k = it.k.saturating_sub(4))],
        0x05 => vec![with(|it| it.k += 1), with(|it| it.k = it.k.saturating_sub(1))],
        _ => vec![
            with(|it| it.k = if it.k == 0x7fff_0000 { 0x0005_0001 } else { 0x7fff_0000 }),
            with(|it| it.k ^= 1),
        ],
    }
    .into_iter()
    .filter(|mutant| *mutant != original)
    .collect()
}
