//! The three lines of `sandbox check` and their JSON, from facts alone: the node prints them, and the Nodes page
//! prints the same from what the node reported. Knows no terminal and no page.

use serde::Serialize;

use crate::facts::{Cgroup, Edition, Facts, Linux, Mechanism, Namespaces, Psec, Seccomp, System, Windows};
use crate::platform::routed_tier;
use crate::{Fix, Platform, Tier};

/// The variable that a run on Windows needs as long as it is a preview.
const PREVIEW: &str = "OZ0_SANDBOX_PSEC_PREVIEW=1";

/// The three lines, in order.
pub fn lines(facts: &Facts) -> [String; 3] {
    [sandbox(facts), findings(facts), fix(facts)]
}

/// `Sandbox: tier …`: the tier, and why.
pub fn sandbox(facts: &Facts) -> String {
    let facts = facts.rechecked();
    if let Some(mechanism) = facts.mechanism {
        return format!("Sandbox: {} ({mechanism})", facts.tier);
    }
    format!("Sandbox: {}: {}", facts.tier, why(&facts))
}

fn why(facts: &Facts) -> String {
    let Some(fix) = Fix::of(facts) else { return String::new() };
    match fix {
        Fix::Namespaces(closed) => format!("namespaces {}", closed.finding()),
        Fix::Cgroup(reason, _) => format!("cgroup {}", reason.finding()),
        Fix::Seccomp(reason) => format!("seccomp {}", reason.finding()),
        Fix::SelfTest => match facts.system {
            System::Windows(windows) => format!("{}; the self-test has not run", of_windows(&windows)),
            _ => "everything that it needs is here; the self-test has not run".to_owned(),
        },
        Fix::Property(failed, _) => format!("the self-test failed at {failed}"),
        Fix::StartWithPsec(_) => {
            let machine = match facts.system {
                System::Windows(windows) => of_windows(&windows),
                _ => String::new(),
            };
            format!(
                "{machine}; this node does not run work in it; --sandbox psec runs the node's self-test at start"
            )
        }
        Fix::NoPsec(Some(build)) => format!("build {build} has no PSEC"),
        Fix::NoPsec(None) => "this build has no PSEC".to_owned(),
        Fix::PsecOff => "PSEC is switched off".to_owned(),
        Fix::PsecForbidden => "the administrator's policy forbids PSEC".to_owned(),
        Fix::PsecFailed => "PSEC does not work here".to_owned(),
        Fix::Server => "Windows Server has no tier-1 sandbox".to_owned(),
        Fix::EditionUnknown => "the edition of Windows could not be determined".to_owned(),
        Fix::NoTierOne(platform) => format!("there is none for {} yet", platform.name()),
        Fix::Unsaid => "the report lacks what tier 1 is decided by".to_owned(),
    }
}

/// What was found: `Linux KERNEL: …` or `Windows BUILD: …`.
pub fn findings(facts: &Facts) -> String {
    match facts.system {
        System::Linux(linux) => of_linux(&linux),
        System::Windows(windows) => of_windows(&windows),
        System::Macos => "macOS: not probed".to_owned(),
        System::Other => "Platform unknown: not probed".to_owned(),
    }
}

fn of_linux(linux: &Linux) -> String {
    fn said<T>(fact: Option<T>, words: impl FnOnce(T) -> String) -> String {
        fact.map_or_else(|| "unknown".to_owned(), words)
    }
    format!(
        "Linux {}: namespaces {}, cgroup {}, Landlock ABI {}, seccomp {}",
        said(linux.kernel, |kernel| kernel.to_string()),
        said(linux.namespaces, Namespaces::finding),
        said(linux.cgroup, |reason| reason.finding().to_owned()),
        said(linux.landlock, |abi| abi.to_string()),
        said(linux.seccomp, |reason| reason.finding().to_owned()),
    )
}

fn of_windows(windows: &Windows) -> String {
    let name = match windows.edition {
        Edition::Server => "Windows Server",
        Edition::Client | Edition::Unknown => "Windows",
    };
    let build = windows.build.map_or_else(|| "of an unknown build".to_owned(), |build| build.to_string());
    let contract = windows.contract.map_or_else(String::new, |contract| format!(" contract {contract}"));
    let features = windows.features.map(|features| format!(" ({})", features.words())).unwrap_or_default();
    let psec = match windows.psec {
        _ if windows.edition != Edition::Client => "not probed".to_owned(),
        Psec::NotProbed => "not probed".to_owned(),
        Psec::Absent => "no PSEC".to_owned(),
        Psec::Off => format!("PSEC{contract}, switched off"),
        Psec::Forbidden => "PSEC, forbidden by policy".to_owned(),
        Psec::Failed => format!("PSEC{contract}, not working"),
        Psec::Usable => format!("PSEC{contract}{features}"),
    };
    format!("{name} {build}: {psec}")
}

/// `Fix: …`, or that there is nothing to do.
pub fn fix(facts: &Facts) -> String {
    match Fix::of(facts) {
        Some(fix) => format!("Fix: {fix}"),
        None if facts.platform() == Platform::Windows => format!("Fix: none; runs still need {PREVIEW}"),
        None => "Fix: none".to_owned(),
    }
}

impl Namespaces {
    /// The finding in words, after `namespaces`.
    pub fn finding(self) -> String {
        match self {
            Namespaces::Open => "ok".to_owned(),
            Namespaces::AtLimit => "closed: their limit is reached".to_owned(),
            Namespaces::AppArmor => "closed by AppArmor".to_owned(),
            Namespaces::Container => "closed by the container around the node".to_owned(),
            Namespaces::ProcMasked => "without a /proc of their own: parts of it are covered here".to_owned(),
            Namespaces::Chroot => "closed in a chroot".to_owned(),
            Namespaces::IdMap => "without an id map for this user".to_owned(),
            Namespaces::NotBuilt => "not in this kernel".to_owned(),
            Namespaces::Refused => "refused".to_owned(),
            Namespaces::UsernsClone
            | Namespaces::MaxUser
            | Namespaces::MaxMount
            | Namespaces::MaxPid
            | Namespaces::MaxNetwork
            | Namespaces::MaxIpc
            | Namespaces::MaxUts
            | Namespaces::MaxCgroup => format!("closed by {}=0", self.setting().unwrap_or_default()),
        }
    }
}

impl Cgroup {
    /// The finding in words, after `cgroup`.
    pub const fn finding(self) -> &'static str {
        match self {
            Cgroup::V1 => "v1",
            Cgroup::V2 => "v2",
            Cgroup::NotMounted => "not mounted",
            Cgroup::NoControllers => "without memory, pids and cpu together",
            Cgroup::V1NotDelegated => "v1 (not delegated to this user)",
            Cgroup::V2NotDelegated | Cgroup::SystemdNotDelegated => "v2 (not delegated to this user)",
            Cgroup::SystemdLacksControllers => "v2 (delegated without all controllers)",
            Cgroup::HoldsProcesses | Cgroup::SystemdHoldsProcesses => "v2 (shared with other processes)",
            Cgroup::ReadOnly => "read-only",
            Cgroup::NotPermitted => "not permitted",
            Cgroup::Failed => "failed",
        }
    }
}

impl Seccomp {
    /// The finding in words, after `seccomp`.
    pub const fn finding(self) -> &'static str {
        match self {
            Seccomp::Works => "ok",
            Seccomp::Missing => "not in this kernel",
            Seccomp::Refused => "refused",
            Seccomp::NoProcessor => "has no filter for this processor",
        }
    }
}

/// The same facts for programs; also what a node reports. The kind of fix goes with them, never its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The facts.
    #[serde(flatten)]
    pub facts: Facts,
    /// What work is routed as.
    pub routed: Tier,
    /// The kind of fix.
    pub fix: Option<&'static str>,
}

impl Check {
    /// Of these facts.
    pub fn of(facts: &Facts) -> Check {
        let facts = facts.rechecked();
        Check { facts, routed: routed_tier(&facts), fix: Fix::of(&facts).map(Fix::code) }
    }
}

/// The first line when a run by hand would start: what the probe decides without a self-test.
///
/// None where it would not; then [`Fix::of`] says why.
pub fn runs_by_hand(facts: &Facts) -> Option<Mechanism> {
    match facts.system {
        System::Linux(linux) if linux.is_complete() => Some(Mechanism::Linux),
        System::Windows(windows) => {
            windows.contract.filter(|contract| windows.runs(*contract)).map(Mechanism::Psec)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
