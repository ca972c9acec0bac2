//! What the kernel's counters of a cgroup say, from the texts of their files. Touches no file.

use std::time::Duration;

use super::Version;
use crate::limits::Usage;

/// The use of a cgroup; `read` gives the text of a file in it, or none where this kernel has no such file.
pub(super) fn usage(version: Version, read: impl Fn(&str) -> Option<String>) -> Usage {
    let number = |file: &str| read(file).and_then(|text| text.trim().parse::<u64>().ok());
    let field = |file: &str, key: &str| read(file).and_then(|text| keyed(&text, key));
    let (peak, limit) = match version {
        Version::V1 => ("memory.max_usage_in_bytes", "memory.limit_in_bytes"),
        Version::V2 => ("memory.peak", "memory.max"),
    };
    let (memory_peak, memory_limit) = (number(peak), number(limit));
    let (reached, kills, throttled, used) = match version {
        // Without swap every charge meets the counter of memory and swap first: failures are counted there. Linux
        // 6.18 counts them nowhere (both read 0 after a kill), so a peak at the limit says the same.
        Version::V1 => (
            ["memory.failcnt", "memory.memsw.failcnt"]
                .iter()
                .any(|file| number(file).is_some_and(|count| count > 0))
                || memory_peak.zip(memory_limit).is_some_and(|(peak, limit)| peak >= limit - limit / 16),
            field("memory.oom_control", "oom_kill"),
            field("cpu.stat", "throttled_time").map(Duration::from_nanos),
            number("cpuacct.usage").map(Duration::from_nanos),
        ),
        Version::V2 => (
            field("memory.events", "max").is_some_and(|count| count > 0),
            field("memory.events", "oom_kill"),
            field("cpu.stat", "throttled_usec").map(Duration::from_micros),
            field("cpu.stat", "usage_usec").map(Duration::from_micros),
        ),
    };
    Usage {
        memory_peak,
        memory_limit,
        memory_limit_reached: reached,
        memory_kills: kills.unwrap_or(0),
        processes_peak: number("pids.peak"),
        processes_refused: field("pids.events", "max").unwrap_or(0),
        cpu_throttled: field("cpu.stat", "nr_throttled"),
        cpu_throttled_time: throttled.unwrap_or_default(),
        cpu_used: used,
    }
}

/// The number after `key` in a file of `key number` lines.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        if name == key { value.trim().parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |file| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn version_1_counts_failures_of_memory_and_swap_too() {
        let usage = usage(
            Version::V1,
            from(&[
                ("memory.max_usage_in_bytes", "200000000\n"),
                ("memory.limit_in_bytes", "268435456\n"),
                ("memory.failcnt", "0\n"),
                ("memory.memsw.failcnt", "17\n"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
                ("pids.events", "max 14\n"),
                ("pids.peak", "8\n"),
                (
                    "cpu.stat",
                    "nr_periods 9\nnr_throttled 4\nthrottled_time 200000000\nnr_bursts 0\nburst_time 0\n",
                ),
            ]),
        );
        assert_eq!((usage.memory_limit_reached, usage.memory_kills), (true, 2));
        assert_eq!((usage.processes_refused, usage.processes_peak), (14, Some(8)));
        assert_eq!((usage.cpu_throttled, usage.cpu_throttled_time), (Some(4), Duration::from_millis(200)));
        assert_eq!(usage.cpu_used, None);
    }

    #[test]
    fn version_1_takes_a_peak_at_the_limit_for_a_failure_that_was_not_counted() {
        let reached = |peak| {
            let files = [
                ("memory.max_usage_in_bytes", peak),
                ("memory.limit_in_bytes", "67108864\n"),
                ("memory.failcnt", "0\n"),
                ("memory.memsw.failcnt", "0\n"),
            ];
            usage(Version::V1, from(&files)).memory_limit_reached
        };
        assert!(reached("67108864\n") && reached("67051520\n") && !reached("50000000\n"));
    }

    #[test]
    fn version_2_reads_events_and_not_their_namesakes() {
        let usage = usage(
            Version::V2,
            from(&[
                ("memory.peak", "268435456\n"),
                ("memory.max", "268435456\n"),
                ("memory.events", "low 0\nhigh 0\nmax 31\noom 2\noom_kill 1\noom_group_kill 0\n"),
                (
                    "cpu.stat",
                    "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\nnr_periods 9\nnr_throttled 4\nthrottled_usec 200000\n",
                ),
            ]),
        );
        assert_eq!((usage.memory_limit_reached, usage.memory_kills), (true, 1));
        assert_eq!(usage.cpu_throttled_time, Duration::from_millis(200));
        assert_eq!(usage.cpu_used, Some(Duration::from_millis(1500)));
        // Kernels before 5.19 and 6.1 have no peaks: that is said, not taken for nothing.
        assert_eq!(usage.processes_peak, None);
    }
}
