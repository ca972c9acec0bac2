//! Which files hold a run's limits, and with which contents, on either version. Touches no file.

use super::{Controller, Version};
use crate::limits::{Cpu, Limits};

/// One file to write in a run's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub controller: Controller,
    pub file: &'static str,
    pub value: String,
    /// A file that kernels without swap accounting do not have.
    pub may_be_missing: bool,
}

impl Setting {
    /// Whether what reads back is the limit that was written: the same, or memory rounded down to whole pages
    /// (64 KiB where they are largest).
    pub fn taken(&self, read: &str) -> bool {
        let read = read.trim_end();
        if read == self.value {
            return true;
        }
        match (self.controller, self.value.parse::<u64>(), read.parse::<u64>()) {
            (Controller::Memory, Ok(asked), Ok(read)) => {
                asked.checked_sub(read).is_some_and(|less| less < 65536)
            }
            _ => false,
        }
    }
}

/// Quotas are of this period, in microseconds. The kernel's own default: shorter ones cost more switches,
/// longer ones hold a run back for longer at a time.
const PERIOD: u64 = 100_000;

/// The files in the order in which they must be written. Swap: a run gets none, so that its memory limit is
/// one of all its memory and one run cannot slow the machine for others.
pub(super) fn settings(version: Version, limits: &Limits) -> Vec<Setting> {
    let needed = |controller, file, value: String| Setting { controller, file, value, may_be_missing: false };
    let swap =
        |file, value: String| Setting { controller: Controller::Memory, file, value, may_be_missing: true };
    let memory = limits.memory.to_string();
    let quota = u64::from(limits.cpu.hundredths()) * PERIOD / 100;
    match version {
        Version::V2 => vec![
            needed(Controller::Memory, "memory.max", memory),
            swap("memory.swap.max", "0".to_owned()),
            needed(Controller::Pids, "pids.max", limits.processes.to_string()),
            needed(Controller::Cpu, "cpu.max", format!("{quota} {PERIOD}")),
        ],
        // Memory and swap together may never be below memory alone, and both start without a limit: so memory
        // comes first.
        Version::V1 => vec![
            needed(Controller::Memory, "memory.limit_in_bytes", memory.clone()),
            swap("memory.memsw.limit_in_bytes", memory),
            swap("memory.swappiness", "0".to_owned()),
            needed(Controller::Pids, "pids.max", limits.processes.to_string()),
            needed(Controller::Cpu, "cpu.cfs_period_us", PERIOD.to_string()),
            needed(Controller::Cpu, "cpu.cfs_quota_us", quota.to_string()),
        ],
    }
}

/// Files that hold a limit around a cgroup, each with what it reads when there is none.
pub(super) fn unset(version: Version, controllers: &[Controller]) -> Vec<(&'static str, &'static str)> {
    match version {
        Version::V1 => controllers
            .iter()
            .map(|controller| match controller {
                // The largest number of whole pages; how large depends on the page.
                Controller::Memory => ("memory.limit_in_bytes", "92233720368547"),
                Controller::Pids => ("pids.max", "max"),
                Controller::Cpu => ("cpu.cfs_quota_us", "-1"),
            })
            .collect(),
        Version::V2 => vec![
            ("memory.max", "max"),
            ("memory.high", "max"),
            ("memory.swap.max", "max"),
            ("pids.max", "max"),
            ("cpu.max", "max"),
            ("io.max", ""),
            ("cpuset.cpus", ""),
        ],
    }
}

/// Whether the text of one of [`unset`]'s files holds a limit.
pub(super) fn holds_a_limit(text: &str, unset: &str) -> bool {
    let text = text.trim();
    if unset.is_empty() { !text.is_empty() } else { !text.starts_with(unset) }
}

/// The cap that `cpu.cfs_quota_us` and `cpu.cfs_period_us` of a version-1 cgroup say. The kernel refuses a
/// child a larger one (version 2 allows it and holds the smaller).
pub(super) fn cap_of(quota: &str, period: &str) -> Option<Cpu> {
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    Cpu::from_hundredths(u32::try_from((quota * 100).checked_div(period)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Kind, parse_cpu, parse_memory};

    fn limits() -> Limits {
        Limits {
            memory: parse_memory("256M").unwrap(),
            processes: 64,
            cpu: parse_cpu("0.5").unwrap(),
            ..Limits::of(Kind::Command)
        }
    }

    fn shown(version: Version) -> String {
        settings(version, &limits())
            .iter()
            .map(|set| {
                format!(
                    "{} {}{}\n",
                    set.file,
                    set.value,
                    if set.may_be_missing { " (may be missing)" } else { "" }
                )
            })
            .collect()
    }

    #[test]
    fn version_2_files() {
        assert_eq!(
            shown(Version::V2),
            "memory.max 268435456\nmemory.swap.max 0 (may be missing)\npids.max 64\ncpu.max 50000 100000\n"
        );
    }

    #[test]
    fn version_1_files_with_memory_before_memory_and_swap() {
        assert_eq!(
            shown(Version::V1),
            "memory.limit_in_bytes 268435456\nmemory.memsw.limit_in_bytes 268435456 (may be missing)\n\
             memory.swappiness 0 (may be missing)\npids.max 64\ncpu.cfs_period_us 100000\ncpu.cfs_quota_us 50000\n"
        );
    }

    #[test]
    fn the_smallest_cap_is_a_quota_the_kernel_takes() {
        let least = Limits { cpu: Cpu::LEAST, ..limits() };
        let quota = settings(Version::V1, &least).pop().unwrap();
        assert_eq!((quota.file, quota.value.as_str()), ("cpu.cfs_quota_us", "1000"));
    }

    #[test]
    fn a_limit_is_taken_when_it_reads_back() {
        let all = settings(Version::V2, &Limits { memory: 268_435_456 + 5000, ..limits() });
        let (memory, pids, cpu) = (&all[0], &all[2], &all[3]);
        assert!(memory.taken("268439552\n") && memory.taken("268440456\n"));
        assert!(!memory.taken("max\n") && !memory.taken("268440457\n") && !memory.taken("0\n"));
        assert!(pids.taken("64\n") && !pids.taken("max\n") && !pids.taken("63\n"));
        assert!(cpu.taken("50000 100000\n") && !cpu.taken("max 100000\n"));
    }

    #[test]
    fn a_limit_around_is_told_from_none() {
        for (version, file, free, held) in [
            (Version::V1, "memory.limit_in_bytes", "9223372036854771712\n", "268435456\n"),
            (Version::V1, "cpu.cfs_quota_us", "-1\n", "50000\n"),
            (Version::V2, "memory.max", "max\n", "268435456\n"),
            (Version::V2, "cpu.max", "max 100000\n", "50000 100000\n"),
            (Version::V2, "cpuset.cpus", "\n", "0-1\n"),
        ] {
            let unset =
                unset(version, &Controller::ALL).into_iter().find(|(name, _)| *name == file).unwrap().1;
            assert!(!holds_a_limit(free, unset) && holds_a_limit(held, unset), "{file}");
        }
        // 64 KiB pages show another largest number.
        assert!(!holds_a_limit("9223372036854710272\n", unset(Version::V1, &Controller::ALL)[0].1));
    }

    #[test]
    fn a_parents_cap_is_read() {
        assert_eq!(cap_of("150000\n", "100000\n"), Cpu::from_hundredths(150));
        assert_eq!(cap_of("-1\n", "100000\n"), None);
        assert_eq!(cap_of("1\n", "0\n"), None);
    }
}
