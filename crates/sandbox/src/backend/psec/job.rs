//! A job object's numbers, from a run's limits. Makes no job.

use crate::limits::Limits;

/// JOB_OBJECT_LIMIT_ACTIVE_PROCESS (Microsoft Learn, JOBOBJECT_BASIC_LIMIT_INFORMATION, as those below).
pub const ACTIVE_PROCESS: u32 = 0x8;
/// JOB_OBJECT_LIMIT_JOB_MEMORY: memory that all processes together have committed.
pub const JOB_MEMORY: u32 = 0x200;
/// JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE: what still runs ends with the last handle.
pub const KILL_ON_JOB_CLOSE: u32 = 0x2000;
/// JOB_OBJECT_LIMIT_BREAKAWAY_OK, which no job here has.
pub const BREAKAWAY_OK: u32 = 0x800;
/// JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK, which no job here has.
pub const SILENT_BREAKAWAY_OK: u32 = 0x1000;

/// JOB_OBJECT_CPU_RATE_CONTROL_ENABLE and …HARD_CAP (Microsoft Learn, JOBOBJECT_CPU_RATE_CONTROL_INFORMATION).
pub const CPU_ENABLE_HARD_CAP: u32 = 0x1 | 0x4;

/// The whole machine, in the unit of CpuRate.
const WHOLE_MACHINE: u64 = 10_000;

/// What is set on the job of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobNumbers {
    /// LimitFlags.
    pub flags: u32,
    /// ActiveProcessLimit: processes, not threads.
    pub processes: u32,
    /// JobMemoryLimit, in bytes.
    pub memory: u64,
    /// ControlFlags.
    pub cpu_flags: u32,
    /// CpuRate: a share of all processors in ten-thousandths; zero is none.
    pub cpu_rate: u32,
}

impl JobNumbers {
    /// For these limits on a machine with that many logical processors.
    pub fn of(limits: &Limits, processors: u32) -> JobNumbers {
        let processors = u64::from(processors.max(1));
        let share = u64::from(limits.cpu.hundredths()) * WHOLE_MACHINE / (100 * processors);
        JobNumbers {
            flags: ACTIVE_PROCESS | JOB_MEMORY | KILL_ON_JOB_CLOSE,
            processes: limits.processes,
            memory: limits.memory,
            cpu_flags: CPU_ENABLE_HARD_CAP,
            cpu_rate: u32::try_from(share.clamp(1, WHOLE_MACHINE)).unwrap_or(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Cpu, Kind};

    fn rate(cores: &str, processors: u32) -> u32 {
        let limits = Limits { cpu: cores.parse().unwrap(), ..Limits::of(Kind::Command) };
        JobNumbers::of(&limits, processors).cpu_rate
    }

    #[test]
    fn a_cap_in_cores_is_a_share_of_the_machine() {
        assert_eq!(rate("1", 1), 10_000);
        assert_eq!(rate("1", 8), 1250);
        assert_eq!(rate("0.5", 8), 625);
        assert_eq!(rate("4", 2), 10_000);
        assert_eq!(rate("0.01", 192), 1);
        assert_eq!(rate("0.01", u32::MAX), 1);
        assert_eq!(rate("1", 0), 10_000);
        let most = Limits { cpu: Cpu::MOST, ..Limits::of(Kind::Command) };
        assert_eq!(JobNumbers::of(&most, 1).cpu_rate, 10_000);
    }

    #[test]
    fn nothing_breaks_away_and_everything_ends_with_the_job() {
        let limits = Limits::of(Kind::PluginServer);
        let numbers = JobNumbers::of(&limits, 4);
        assert_eq!(numbers.flags, 0x2208);
        assert_eq!(numbers.flags & (BREAKAWAY_OK | SILENT_BREAKAWAY_OK), 0);
        assert_eq!(numbers.cpu_flags, 5);
        assert_eq!((numbers.processes, numbers.memory), (limits.processes, limits.memory));
    }
}
