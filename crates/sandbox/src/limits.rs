//! The limits of a run: one table of kinds, and the values a person may type instead.
//! Knows nothing of cgroups or job objects.

mod parse;
mod usage;

pub use parse::{
    LimitError, parse_cpu, parse_duration, parse_memory, parse_processes, show_duration, show_memory,
};
pub use usage::{LimitHit, Usage};

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What a job is; its kind sets its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An agent's session that the runtime runs.
    HarnessSession,
    /// A long-lived process that a session talks to.
    PluginServer,
    /// A plain command.
    Command,
}

/// The one table of defaults. The kernel's limit of tasks counts threads (java does not start under 8 and
/// builds start hundreds), so these figures are far above a count of processes.
const DEFAULTS: [(Kind, &str, Limits); 3] = [
    (Kind::HarnessSession, "harness-session", default_of(8 * GIB, 4096, 400)),
    (Kind::PluginServer, "plugin-server", default_of(2 * GIB, 1024, 100)),
    (Kind::Command, "command", default_of(4 * GIB, 2048, 400)),
];

const fn default_of(memory: u64, processes: u32, cpu: u32) -> Limits {
    Limits { memory, processes, cpu: Cpu(cpu), timeout: None }
}

impl Kind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [Kind; 3] = [Kind::HarnessSession, Kind::PluginServer, Kind::Command];

    fn row(self) -> &'static (Kind, &'static str, Limits) {
        match self {
            Kind::HarnessSession => &DEFAULTS[0],
            Kind::PluginServer => &DEFAULTS[1],
            Kind::Command => &DEFAULTS[2],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().1)
    }
}

impl FromStr for Kind {
    type Err = LimitError;

    fn from_str(input: &str) -> Result<Kind, LimitError> {
        Kind::ALL.into_iter().find(|kind| kind.row().1 == input).ok_or_else(|| LimitError::kind(input))
    }
}

/// A hard cap on CPU time, in hundredths of one core. The cap is for all processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpu(u32);

impl Cpu {
    /// The least: the kernel takes no quota under 1 ms in a period of 100 ms.
    pub const LEAST: Cpu = Cpu(1);
    /// The most: more cores than any machine has.
    pub const MOST: Cpu = Cpu(409_600);

    /// A cap of that many hundredths of a core, when it is between [`Cpu::LEAST`] and [`Cpu::MOST`].
    pub fn from_hundredths(hundredths: u32) -> Option<Cpu> {
        let cpu = Cpu(hundredths);
        (Cpu::LEAST..=Cpu::MOST).contains(&cpu).then_some(cpu)
    }

    /// The cap in hundredths of a core.
    pub const fn hundredths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cores, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{cores}"),
            rest if rest % 10 == 0 => write!(f, "{cores}.{}", rest / 10),
            rest => write!(f, "{cores}.{rest:02}"),
        }
    }
}

impl FromStr for Cpu {
    type Err = LimitError;

    fn from_str(input: &str) -> Result<Cpu, LimitError> {
        parse_cpu(input)
    }
}

impl TryFrom<String> for Cpu {
    type Error = LimitError;

    fn try_from(input: String) -> Result<Cpu, LimitError> {
        parse_cpu(&input)
    }
}

impl From<Cpu> for String {
    fn from(cpu: Cpu) -> String {
        cpu.to_string()
    }
}

/// What a run may use, all its processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory in bytes. Resident use, not address space: java and node reserve far more than they use.
    #[serde(deserialize_with = "parse::memory_in_range")]
    pub memory: u64,
    /// Processes; on Linux the kernel counts threads too.
    #[serde(deserialize_with = "parse::processes_in_range")]
    pub processes: u32,
    /// A hard cap on CPU time.
    pub cpu: Cpu,
    /// How long the run may take; none: as long as it likes.
    #[serde(default, with = "parse::optional_duration")]
    pub timeout: Option<Duration>,
}

impl Limits {
    /// The least memory a run may have: below it not even the sandbox's own first process lives.
    pub const LEAST_MEMORY: u64 = 4 * MIB;
    /// The most memory a limit may say.
    pub const MOST_MEMORY: u64 = 1024 * 1024 * GIB;
    /// The fewest tasks: the sandbox's first process, the command, and two that it starts.
    pub const LEAST_PROCESSES: u32 = 4;
    /// The kernel's own most.
    pub const MOST_PROCESSES: u32 = 4_194_304;
    /// The shortest time-out.
    pub const LEAST_TIMEOUT: Duration = Duration::from_millis(100);
    /// The longest time-out.
    pub const MOST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

    /// The defaults of a kind, whatever the machine.
    pub fn of(kind: Kind) -> Limits {
        kind.row().2
    }

    /// The defaults of a kind on a machine with that much memory. A default above three quarters of it would
    /// let a run drive the whole machine out of memory before its limit is reached, so it is lowered to that.
    /// A value that a person typed is taken as typed and never passes through here.
    pub fn fitted(kind: Kind, machine_memory: u64) -> Limits {
        let table = Limits::of(kind);
        let most = (machine_memory / 4 * 3 / MIB * MIB).max(Limits::LEAST_MEMORY);
        Limits { memory: table.memory.min(most), ..table }
    }

    /// These limits with what a person typed in their place.
    pub fn with(self, typed: Overrides) -> Limits {
        Limits {
            memory: typed.memory.unwrap_or(self.memory),
            processes: typed.processes.unwrap_or(self.processes),
            cpu: typed.cpu.unwrap_or(self.cpu),
            timeout: typed.timeout.or(self.timeout),
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory {}, processes {}, cpu {}", show_memory(self.memory), self.processes, self.cpu)?;
        match self.timeout {
            Some(timeout) => write!(f, ", timeout {}", show_duration(timeout)),
            None => Ok(()),
        }
    }
}

/// Values that a person typed; what is absent stays the kind's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--memory`
    pub memory: Option<u64>,
    /// `--processes`
    pub processes: Option<u32>,
    /// `--cpu`
    pub cpu: Option<Cpu>,
    /// `--timeout`
    pub timeout: Option<Duration>,
}

/// One of the limits: its name in reports and the flag that raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Memory of all processes together.
    Memory,
    /// Processes, or tasks where the system counts threads.
    Processes,
    /// CPU time.
    Cpu,
    /// The run's time.
    Timeout,
}

impl Limit {
    /// The flag of `sandbox run` that sets it.
    pub const fn flag(self) -> &'static str {
        match self {
            Limit::Memory => "--memory",
            Limit::Processes => "--processes",
            Limit::Cpu => "--cpu",
            Limit::Timeout => "--timeout",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.flag().trim_start_matches('-')
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_kind_in_its_own_row() {
        for kind in Kind::ALL {
            assert_eq!(kind.row().0, kind);
            assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        let refused = "daemon".parse::<Kind>().unwrap_err().to_string();
        assert!(refused.contains("\"daemon\"") && refused.contains("plugin-server"), "{refused}");
    }

    /// C080: java and node start with the defaults; threads count, so every kind allows for 1024 and more.
    #[test]
    fn c080_every_default_allows_for_threads() {
        for kind in Kind::ALL {
            let limits = Limits::of(kind);
            assert!(limits.processes >= 1024 && limits.memory >= GIB, "{kind}: {limits}");
        }
    }

    #[test]
    fn a_default_fits_the_machine_and_a_typed_value_stays() {
        let small = Limits::fitted(Kind::Command, 2 * GIB);
        assert_eq!(small.memory, 1536 * MIB);
        assert_eq!(Limits::fitted(Kind::Command, 64 * GIB), Limits::of(Kind::Command));
        assert_eq!(Limits::fitted(Kind::Command, 0).memory, Limits::LEAST_MEMORY);
        let typed = small.with(Overrides { memory: Some(16 * GIB), ..Overrides::default() });
        assert_eq!((typed.memory, typed.processes), (16 * GIB, small.processes));
    }

    #[test]
    fn limits_are_the_same_after_json() {
        let limits = Limits {
            timeout: Some(Duration::from_millis(5_400_250)),
            cpu: Cpu(150),
            ..Limits::of(Kind::Command)
        };
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(text, r#"{"memory":4294967296,"processes":2048,"cpu":"1.5","timeout":"1h30m250ms"}"#);
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
    }

    #[test]
    fn json_takes_no_limit_that_is_none() {
        let good = r#"{"memory":4294967296,"processes":2048,"cpu":"1.5"}"#;
        assert!(serde_json::from_str::<Limits>(good).is_ok());
        for (from, to) in [("4294967296", "0"), ("2048", "0"), ("1.5", "0"), ("1.5", "inf")] {
            let bad = good.replace(from, to);
            assert!(serde_json::from_str::<Limits>(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cap_shows_as_it_is_typed() {
        for (hundredths, shown) in [(1, "0.01"), (50, "0.5"), (100, "1"), (125, "1.25")] {
            assert_eq!(Cpu(hundredths).to_string(), shown);
        }
        assert!(Cpu::from_hundredths(0).is_none());
    }
}
