//! What a run used of its limits, and which of them it reached. Knows no system: whoever holds the limits
//! fills in what that system counts.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Limit, Limits, show_memory};

/// What all processes of a run used together. `None`: this system does not count it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The most memory at once, in bytes (file cache included, which gives way before the limit kills).
    pub memory_peak: Option<u64>,
    /// The limit of memory as the system holds it, in bytes.
    pub memory_limit: Option<u64>,
    /// Whether the run's own limit of memory was reached; that ends nothing as long as cache gives way.
    pub memory_limit_reached: bool,
    /// Processes that were killed for want of memory, whichever process of the run it was. On Windows none is killed:
    /// there it counts how often memory was refused.
    pub memory_kills: u64,
    /// The most processes at once (tasks, where the system counts threads).
    pub processes_peak: Option<u64>,
    /// How many new processes (or threads) were refused.
    pub processes_refused: u64,
    /// In how many periods the run was held back by its cap on CPU.
    pub cpu_throttled: Option<u64>,
    /// For how long, over all cores together.
    pub cpu_throttled_time: Duration,
    /// CPU time used.
    pub cpu_used: Option<Duration>,
}

/// A cap on CPU counts as reached when it held the run back for this long…
const NOTABLE_WAIT: Duration = Duration::from_millis(100);
/// …and for at least this part of the CPU time it used: every burst is held back for a moment.
const NOTABLE_PART: u32 = 10;

impl Usage {
    /// The limits that this use reached. Memory: a process was killed and the run's own limit had been reached;
    /// a kill without that was the machine's (see [`Usage::killed_by_the_machine`]).
    pub fn hit(&self, limits: &Limits) -> Vec<LimitHit> {
        let mut hits = Vec::new();
        if self.memory_kills > 0 && self.memory_limit_reached {
            hits.push(LimitHit {
                limit: Limit::Memory,
                value: show_memory(self.memory_limit.unwrap_or(limits.memory)),
                peak: self.memory_peak.map(show_memory),
                times: self.memory_kills,
            });
        }
        let full = self.processes_peak.is_none_or(|peak| peak >= limits.processes.into());
        if self.processes_refused > 0 && full {
            hits.push(LimitHit {
                limit: Limit::Processes,
                value: limits.processes.to_string(),
                peak: self.processes_peak.map(|peak| peak.to_string()),
                times: self.processes_refused,
            });
        }
        let part = self.cpu_used.unwrap_or_default() / NOTABLE_PART;
        if let Some(times @ 1..) = self.cpu_throttled
            && self.cpu_throttled_time >= NOTABLE_WAIT.max(part)
        {
            hits.push(LimitHit { limit: Limit::Cpu, value: limits.cpu.to_string(), peak: None, times });
        }
        hits
    }

    /// Processes were killed for want of memory although the run's own limit was never reached: the machine,
    /// or a limit around the node, ran out.
    pub fn killed_by_the_machine(&self) -> bool {
        self.memory_kills > 0 && !self.memory_limit_reached
    }
}

/// A limit that a run reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which.
    pub limit: Limit,
    /// Its value, as it is typed.
    pub value: String,
    /// The most that was used, where the system counts it.
    pub peak: Option<String>,
    /// How often: processes killed, processes refused, periods held back.
    pub times: u64,
}

impl LimitHit {
    /// The flag that raises the limit.
    pub fn flag(&self) -> &'static str {
        self.limit.flag()
    }
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit: {} {} reached (", self.limit, self.value)?;
        if let Some(peak) = &self.peak {
            write!(f, "peak {peak}, ")?;
        }
        let plural = if self.times == 1 { "" } else { "s" };
        match self.limit {
            Limit::Memory if cfg!(windows) => write!(f, "memory refused: {} time{plural}", self.times)?,
            Limit::Memory => write!(f, "processes killed: {}", self.times)?,
            Limit::Processes if cfg!(windows) => write!(f, "new processes refused: {}", self.times)?,
            Limit::Processes => write!(f, "new tasks refused: {}, threads count", self.times)?,
            Limit::Cpu => write!(f, "held back in {} period{plural}", self.times)?,
            Limit::Timeout => write!(f, "ended {} time{plural}", self.times)?,
        }
        write!(f, "); {} raises it", self.flag())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, parse_memory};
    use super::*;

    fn limits() -> Limits {
        Limits { memory: parse_memory("256M").unwrap(), processes: 8, ..Limits::of(Kind::Command) }
    }

    #[test]
    fn nothing_reached_nothing_said() {
        let quiet = Usage {
            memory_peak: Some(256 << 20),
            // Reached by file cache that gave way: no process was hurt.
            memory_limit_reached: true,
            processes_peak: Some(8),
            cpu_throttled: Some(3),
            cpu_throttled_time: Duration::from_millis(20),
            ..Usage::default()
        };
        assert_eq!(quiet.hit(&limits()), []);
        assert!(!quiet.killed_by_the_machine());
    }

    /// C082: the limit, its value and the peak are in one line.
    #[test]
    fn c082_a_kill_names_limit_value_peak_and_flag() {
        let usage = Usage {
            memory_peak: Some(256 << 20),
            memory_limit: Some(256 << 20),
            memory_limit_reached: true,
            memory_kills: 1,
            ..Usage::default()
        };
        let hits = usage.hit(&limits());
        assert_eq!(
            hits[0].to_string(),
            "limit: memory 256M reached (peak 256M, processes killed: 1); --memory raises it"
        );
        assert_eq!(hits.len(), 1);
    }

    #[test]
    fn a_kill_below_the_limit_is_the_machines() {
        let usage = Usage { memory_kills: 1, memory_peak: Some(1 << 20), ..Usage::default() };
        assert!(usage.hit(&limits()).is_empty() && usage.killed_by_the_machine());
    }

    #[test]
    fn refused_tasks_count_when_the_runs_own_limit_was_full() {
        let refused = |peak| Usage { processes_refused: 14, processes_peak: peak, ..Usage::default() };
        for peak in [None, Some(8)] {
            let hits = refused(peak).hit(&limits());
            assert_eq!((hits.len(), hits[0].flag()), (1, "--processes"));
        }
        assert_eq!(refused(Some(5)).hit(&limits()), [], "a limit further out refused them");
    }

    #[test]
    fn a_cap_is_reached_when_it_really_held_the_run_back() {
        let held = |wait, used| Usage {
            cpu_throttled: Some(5),
            cpu_throttled_time: Duration::from_millis(wait),
            cpu_used: Some(Duration::from_millis(used)),
            ..Usage::default()
        };
        assert_eq!(held(300, 200).hit(&limits())[0].flag(), "--cpu");
        assert_eq!(held(300, 60_000).hit(&limits()), []);
    }
}
