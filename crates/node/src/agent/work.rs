//! What a lease asks for, as a policy of the sandbox: or why no node would run it. Touches nothing.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use oz0_egress::Allowlist;
use oz0_fleet::protocol::{self, Work};
use oz0_sandbox::environ::Environment;
use oz0_sandbox::limits::{self, Cpu, Limits, Overrides};
use oz0_sandbox::links::Links;
use oz0_sandbox::policy::{Caller, GitAccess, Network, Policy};

/// What a policy needs that is the node's.
pub struct Here<'a> {
    /// The node's own program.
    pub binary: &'a Path,
    /// The node's data directory.
    pub data_directory: &'a Path,
    /// The machine's memory in bytes.
    pub machine_memory: u64,
    /// The user whose settings decide what is protected.
    pub caller: &'a Caller,
}

/// Why no node would run it, for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotMeant(String);

impl NotMeant {
    /// For this reason.
    pub fn because(reason: impl Into<String>) -> NotMeant {
        NotMeant(reason.into())
    }
}

fn kind(kind: protocol::Kind) -> limits::Kind {
    match kind {
        protocol::Kind::HarnessSession => limits::Kind::HarnessSession,
        protocol::Kind::PluginServer => limits::Kind::PluginServer,
        protocol::Kind::Command => limits::Kind::Command,
    }
}

/// The limits of a job: its own, else its kind's as this machine can hold them.
pub fn limits(work: &Work, machine_memory: u64) -> Result<Limits, NotMeant> {
    let protocol::Limits { memory_mib, processes, cpu_hundredths, run_ms } = work.limits;
    let out_of_range = |what: &str| NotMeant(format!("its limit of {what} is not one that can be held"));
    let memory = memory_mib.map(|mib| u64::from(mib) << 20);
    let timeout = run_ms.map(Duration::from);
    if memory.is_some_and(|memory| !(Limits::LEAST_MEMORY..=Limits::MOST_MEMORY).contains(&memory)) {
        return Err(out_of_range("memory"));
    }
    if processes.is_some_and(|number| !(Limits::LEAST_PROCESSES..=Limits::MOST_PROCESSES).contains(&number)) {
        return Err(out_of_range("processes"));
    }
    if timeout.is_some_and(|time| !(Limits::LEAST_TIMEOUT..=Limits::MOST_TIMEOUT).contains(&time)) {
        return Err(out_of_range("time"));
    }
    let cpu = cpu_hundredths
        .map(|hundredths| Cpu::from_hundredths(hundredths).ok_or_else(|| out_of_range("CPU")))
        .transpose()?;
    Ok(Limits::fitted(kind(work.kind), machine_memory).with(Overrides { memory, processes, cpu, timeout }))
}

/// The memory that a job sets aside, in MiB.
pub fn memory_mib(limits: &Limits) -> u32 {
    u32::try_from(limits.memory.div_ceil(1 << 20)).unwrap_or(u32::MAX)
}

/// The policy of a job's command, in this folder.
pub fn policy(work: &Work, limits: Limits, folder: &Path, here: &Here<'_>) -> Result<Policy, NotMeant> {
    let mut environment = Environment::default();
    let secrets = work.secrets.iter().map(|(name, value)| (name.as_str(), value.reveal()));
    let plain = work.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in plain.chain(secrets) {
        // A name with `=` in it would be another name.
        if name.contains('=') {
            return Err(NotMeant("a variable's name holds `=`".into()));
        }
        let value = OsString::from(value);
        let word = OsString::from(format!("{name}="));
        // Checked as what a person types is; the value is set as it came.
        environment.add(&word, |_| None).map_err(|error| NotMeant(error.to_string()))?;
        if value.as_encoded_bytes().contains(&0) {
            return Err(NotMeant("a variable's value holds a NUL byte".into()));
        }
        environment.set(name, value);
    }
    let allow = Allowlist::parse(&work.allow).map_err(|error| NotMeant(error.to_string()))?;
    if work.forward.contains(&0) {
        return Err(NotMeant("port 0 cannot be forwarded".into()));
    }
    let command = work.command.iter().map(OsString::from).collect();
    Ok(base(
        command,
        limits,
        folder,
        here,
        environment,
        Network::Proxy { allow, forward: work.forward.clone() },
    ))
}

/// A policy of nothing but this.
pub fn base(
    command: Vec<OsString>,
    limits: Limits,
    folder: &Path,
    here: &Here<'_>,
    environment: Environment,
    network: Network,
) -> Policy {
    Policy {
        work: folder.to_owned(),
        read: Vec::new(),
        write: Vec::new(),
        protect: Vec::new(),
        sockets: Vec::new(),
        git: GitAccess::default(),
        network,
        limits,
        environment,
        // A folder that the node made has no links that lead anywhere.
        links: Links::Off,
        caller: here.caller.clone(),
        data_directory: here.data_directory.to_owned(),
        node_binary: here.binary.to_owned(),
        command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn work(change: serde_json::Value) -> Work {
        let mut work = json!({"kind": "command", "tier": "tier 1", "command": ["true"]});
        work.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(work).unwrap()
    }

    fn of(change: serde_json::Value) -> Result<Policy, NotMeant> {
        let work = work(change);
        let caller = Caller::default();
        let here = Here {
            binary: Path::new("/usr/bin/oz0-node"),
            data_directory: Path::new("/data"),
            machine_memory: 64 << 30,
            caller: &caller,
        };
        policy(&work, limits(&work, here.machine_memory)?, Path::new("/jobs/1"), &here)
    }

    #[test]
    fn what_is_not_said_is_the_kinds() {
        let policy = of(json!({"limits": {"memory_mib": 100, "run_ms": 2000}})).unwrap();
        let command = Limits::of(limits::Kind::Command);
        assert_eq!((policy.limits.memory, policy.limits.processes), (100 << 20, command.processes));
        assert_eq!(policy.limits.timeout, Some(Duration::from_secs(2)));
        assert_eq!(
            of(json!({"kind": "plugin-server"})).unwrap().limits,
            Limits::of(limits::Kind::PluginServer)
        );
        assert_eq!(memory_mib(&policy.limits), 100);
        assert!(matches!(policy.network, Network::Proxy { .. }), "never the node's own network");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_is_made() {
        for (change, why) in [
            (json!({"limits": {"memory_mib": 1}}), "memory"),
            (json!({"limits": {"processes": 1}}), "processes"),
            (json!({"limits": {"cpu_hundredths": 0}}), "CPU"),
            (json!({"limits": {"run_ms": 1}}), "time"),
            (json!({"allow": ["http://"]}), "http"),
            (json!({"forward": [0]}), "port 0"),
            (json!({"environment": {"OZ0_DATA_DIR": "/"}}), "OZ0_"),
            (json!({"environment": {"HTTPS_PROXY": "x"}}), "proxy"),
            (json!({"secrets": {"A=B": "x"}}), "="),
            (json!({"secrets": {"A": "x\0"}}), "NUL"),
        ] {
            let error = of(change.clone()).err().unwrap_or_else(|| panic!("{change}")).to_string();
            assert!(error.contains(why), "{change}: {error}");
        }
    }

    #[test]
    fn variables_and_secrets_are_passed() {
        let policy = of(json!({"environment": {"A": "1=2"}, "secrets": {"B": "geheim"}})).unwrap();
        assert_eq!(policy.environment.get("A").unwrap(), "1=2");
        assert_eq!(policy.environment.get("B").unwrap(), "geheim");
    }
}
