//! What a person types for a limit, read strictly, and shown in a form that reads back to the same value.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

use super::{Cpu, Limits};

/// A value that is no limit: what was typed, for what, why not, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} is no {what}: {why}; write {form}, for example {example}")]
pub struct LimitError {
    /// Which limit was meant.
    pub what: &'static str,
    /// What was typed.
    pub input: String,
    /// What is wrong with it.
    pub why: String,
    /// The form that is read.
    pub form: &'static str,
    /// A value of that form.
    pub example: &'static str,
}

/// The words of one limit's errors.
struct Words {
    what: &'static str,
    form: &'static str,
    example: &'static str,
}

const MEMORY: Words =
    Words { what: "memory limit", form: "a number and K, M, G or T (of 1024 each)", example: "512M or 1.5G" };
const CPU: Words =
    Words { what: "CPU cap", form: "cores or a percentage of one core", example: "0.5 or 150%" };
const PROCESSES: Words = Words { what: "limit of processes", form: "a whole number", example: "1024" };
const DURATION: Words =
    Words { what: "time-out", form: "numbers with d, h, m, s or ms, largest first", example: "90s or 1h30m" };
const KIND: Words =
    Words { what: "kind of job", form: "harness-session, plugin-server or command", example: "command" };

impl Words {
    fn error(&self, input: &str, why: impl Into<String>) -> LimitError {
        LimitError {
            what: self.what,
            input: input.to_owned(),
            why: why.into(),
            form: self.form,
            example: self.example,
        }
    }
}

impl LimitError {
    pub(super) fn kind(input: &str) -> LimitError {
        KIND.error(input, "there is none of that name")
    }
}

/// Reads `256M`, `1.5G`, `512MiB`. K, M, G and T are powers of 1024, with or without `iB`; a bare number of
/// bytes is refused, since `--memory 512` never means 512 bytes.
pub fn parse_memory(input: &str) -> Result<u64, LimitError> {
    let split = input.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(input.len());
    let (number, unit) = input.split_at(split);
    let unit = match unit.to_ascii_lowercase().as_str() {
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1_u64 << 40,
        "" => return Err(MEMORY.error(input, "the unit is missing")),
        "kb" | "mb" | "gb" | "tb" => {
            return Err(MEMORY.error(input, "units of 1000 are not taken"));
        }
        _ => return Err(MEMORY.error(input, "the unit is not known")),
    };
    let bytes = fixed_point(number, unit).map_err(|why| MEMORY.error(input, why))?;
    memory_within(bytes).map_err(|why| MEMORY.error(input, why))
}

fn memory_within(bytes: u64) -> Result<u64, String> {
    let (least, most) = (Limits::LEAST_MEMORY, Limits::MOST_MEMORY);
    within(bytes, least, most).map_err(|why| why.say(show_memory(least), show_memory(most)))
}

/// Shows bytes as [`parse_memory`] reads them: in the largest unit that is exact, and in KiB with a fraction
/// of at most ten digits (2 to the power 10 has no longer one) where the bytes fill no whole KiB.
pub fn show_memory(bytes: u64) -> String {
    for (letter, unit) in [('T', 1_u64 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{letter}", bytes / unit);
        }
    }
    let (whole, rest) = (bytes >> 10, bytes & 1023);
    let fraction = format!("{:010}", rest * 10_u64.pow(10) / 1024);
    format!("{whole}.{}K", fraction.trim_end_matches('0'))
}

/// Reads `0.5`, `2`, `150%`: hundredths of a core and nothing finer.
pub fn parse_cpu(input: &str) -> Result<Cpu, LimitError> {
    let (number, unit) = match input.strip_suffix('%') {
        Some(number) => (number, 1),
        None => (input, 100),
    };
    let hundredths = fixed_point(number, unit).map_err(|why| CPU.error(input, why))?;
    let (least, most) = (Cpu::LEAST, Cpu::MOST);
    within(hundredths, least.hundredths().into(), most.hundredths().into())
        .ok()
        .and_then(|hundredths| Cpu::from_hundredths(u32::try_from(hundredths).ok()?))
        .ok_or_else(|| CPU.error(input, format!("the least is {least} and the most {most}")))
}

/// Reads a whole number of processes (tasks, where the system counts threads).
pub fn parse_processes(input: &str) -> Result<u32, LimitError> {
    let number = whole(input).map_err(|why| PROCESSES.error(input, why))?;
    processes_within(number).map_err(|why| PROCESSES.error(input, why))
}

fn processes_within(number: u64) -> Result<u32, String> {
    let (least, most) = (Limits::LEAST_PROCESSES, Limits::MOST_PROCESSES);
    within(number, least.into(), most.into())
        .ok()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| format!("the least is {least} and the most {most}"))
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads `90s`, `5m`, `1h30m`: each unit once, largest first.
pub fn parse_duration(input: &str) -> Result<Duration, LimitError> {
    let fail = |why: &str| DURATION.error(input, why);
    let (mut total, mut rest, mut units) = (0_u64, input, UNITS.as_slice());
    if rest.is_empty() {
        return Err(fail("it is empty"));
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(|| fail("the unit is missing"))?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let place = units
            .iter()
            .position(|(name, _)| *name == unit)
            .ok_or_else(|| fail("a unit is not known, comes twice or is out of order"))?;
        total = whole(number)
            .map_err(&fail)?
            .checked_mul(units[place].1)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| fail("it is too large"))?;
        (rest, units) = (after, &units[place + 1..]);
    }
    let duration = Duration::from_millis(total);
    let (least, most) = (Limits::LEAST_TIMEOUT, Limits::MOST_TIMEOUT);
    within(duration, least, most).map_err(|why| fail(&why.say(show_duration(least), show_duration(most))))
}

/// Shows a duration as [`parse_duration`] reads it, to the millisecond.
pub fn show_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, unit) in UNITS {
        if rest >= unit {
            text += &format!("{}{name}", rest / unit);
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A value out of bounds, before anything knows how to show the bounds.
struct OutOfBounds;

impl OutOfBounds {
    fn say(self, least: String, most: String) -> String {
        format!("the least is {least} and the most {most}")
    }
}

fn within<T: PartialOrd>(value: T, least: T, most: T) -> Result<T, OutOfBounds> {
    if value >= least && value <= most { Ok(value) } else { Err(OutOfBounds) }
}

fn whole(digits: &str) -> Result<u64, &'static str> {
    if digits.is_empty() {
        return Err("the number is missing");
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("that is not a whole number");
    }
    digits.parse().map_err(|_| "it is too large")
}

/// `whole[.fraction]` times `unit`, in integers, so that what is shown reads back to the same value. A fraction
/// that does not come out even in memory units is cut to the byte; one of a CPU must come out even.
fn fixed_point(number: &str, unit: u64) -> Result<u64, &'static str> {
    let (integer, fraction) = match number.split_once('.') {
        None => (number, None),
        Some((integer, fraction)) => (integer, Some(fraction)),
    };
    let integer = whole(integer)?.checked_mul(unit).ok_or("it is too large")?;
    let Some(fraction) = fraction else { return Ok(integer) };
    if fraction.len() > 12 {
        return Err("it has too many decimals");
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX));
    let scaled = u128::from(whole(fraction)?) * u128::from(unit);
    if unit <= 100 && !scaled.is_multiple_of(scale) {
        return Err("nothing finer than a hundredth of a core is held");
    }
    u64::try_from(scaled / scale).ok().and_then(|part| integer.checked_add(part)).ok_or("it is too large")
}

pub(super) fn memory_in_range<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    memory_within(u64::deserialize(from)?).map_err(D::Error::custom)
}

pub(super) fn processes_in_range<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    processes_within(u64::deserialize(from)?).map_err(D::Error::custom)
}

/// A duration in JSON is the text that a person would type.
pub(super) mod optional_duration {
    use super::*;
    use serde::{Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(show_duration).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(from)?
            .map(|text| parse_duration(&text).map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_read_in_powers_of_1024() {
        for (input, bytes) in [
            ("256M", 256 * MIB),
            ("256m", 256 * MIB),
            ("512MiB", 512 * MIB),
            ("1.5G", 1536 * MIB),
            ("0.25gib", 256 * MIB),
            ("4096K", 4 * MIB),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_memory(input).unwrap(), bytes, "{input}");
        }
    }

    #[test]
    fn an_error_names_the_input_the_form_and_an_example() {
        for (input, why) in [
            ("", "unit is missing"),
            ("512", "unit is missing"),
            ("M", "number is missing"),
            ("-1G", "unit is not known"),
            ("1GB", "units of 1000"),
            ("1,5G", "unit is not known"),
            ("1..5G", "whole number"),
            ("1.G", "number is missing"),
            ("0G", "the least is 4M and the most 1024T"),
            ("1M", "the least is 4M"),
            ("1025T", "the most 1024T"),
            ("99999999999999999999T", "too large"),
            ("18446744073709551615T", "too large"),
            ("1 G", "unit is not known"),
        ] {
            let said = parse_memory(input).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{input:?} is no memory limit: ")), "{said}");
            assert!(said.contains(why) && said.ends_with("for example 512M or 1.5G"), "{said}");
        }
    }

    #[test]
    fn cpu_is_read_as_cores_or_percent() {
        for (input, hundredths) in
            [("0.5", 50), ("2", 200), ("150%", 150), ("1%", 1), ("0.01", 1), ("1.25", 125), ("1.250", 125)]
        {
            assert_eq!(parse_cpu(input).unwrap().hundredths(), hundredths, "{input}");
        }
        for (input, why) in [
            ("0", "the least is 0.01"),
            ("0%", "the least is 0.01"),
            ("0.001", "finer than a hundredth"),
            ("1.5%", "finer than a hundredth"),
            ("5000", "the most 4096"),
            ("-1", "whole number"),
            ("all", "whole number"),
            ("", "number is missing"),
            ("%", "number is missing"),
        ] {
            let said = parse_cpu(input).unwrap_err().to_string();
            assert!(said.contains(why) && said.ends_with("for example 0.5 or 150%"), "{said}");
        }
    }

    #[test]
    fn processes_are_a_whole_number_of_at_least_four() {
        assert_eq!(parse_processes("1024").unwrap(), 1024);
        for (input, why) in [
            ("0", "least is 4"),
            ("3", "least is 4"),
            ("4194305", "most 4194304"),
            ("1e3", "whole"),
            ("+8", "whole"),
        ] {
            let said = parse_processes(input).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains(&format!("{input:?}")), "{said}");
        }
    }

    #[test]
    fn durations_are_units_in_order() {
        for (input, millis) in
            [("90s", 90_000), ("5m", 300_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("1s500ms", 1500)]
        {
            assert_eq!(parse_duration(input).unwrap(), Duration::from_millis(millis), "{input}");
        }
        for (input, why) in [
            ("", "empty"),
            ("90", "unit is missing"),
            ("s", "number is missing"),
            ("0s", "least is 100ms"),
            ("50ms", "least is 100ms"),
            ("400d", "most 365d"),
            ("30m1h", "out of order"),
            ("1m1m", "out of order"),
            ("1.5h", "not known"),
            ("-5s", "not known"),
            ("99999999999999999999s", "too large"),
            ("18446744073709551615d", "too large"),
        ] {
            let said = parse_duration(input).unwrap_err().to_string();
            assert!(said.contains(why) && said.ends_with("for example 90s or 1h30m"), "{said}");
        }
    }

    proptest! {
        #[test]
        fn shown_memory_reads_back(bytes in Limits::LEAST_MEMORY..Limits::MOST_MEMORY) {
            prop_assert_eq!(parse_memory(&show_memory(bytes)).unwrap(), bytes);
        }

        #[test]
        fn shown_cpu_reads_back(hundredths in 1_u32..=409_600) {
            let cpu = Cpu::from_hundredths(hundredths).unwrap();
            prop_assert_eq!(parse_cpu(&cpu.to_string()).unwrap(), cpu);
        }

        #[test]
        fn shown_durations_read_back(millis in 100_u64..31_536_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&show_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(input in ".{0,24}") {
            if let Ok(bytes) = parse_memory(&input) {
                prop_assert!((Limits::LEAST_MEMORY..=Limits::MOST_MEMORY).contains(&bytes));
            }
            let _ = (parse_cpu(&input), parse_duration(&input), parse_processes(&input));
        }
    }
}
