//! What really confines the command, read from /proc of its own process while it waits to start. Nothing is
//! inferred from a probe; Landlock, which /proc does not show, is known from its own return value.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::{NetworkPlan, Plan};

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mechanism {
    /// Namespaces that are not the node's.
    pub namespaces: Vec<String>,
    /// no_new_privs is set.
    pub no_new_privileges: bool,
    /// A system-call filter is loaded.
    pub filter: bool,
    /// Every capability set is empty, the bounding set too.
    pub no_capabilities: bool,
    /// The cgroups it is in, as /proc lists them.
    pub cgroup: Vec<String>,
    /// Landlock's version, when the ruleset was taken.
    pub landlock: Option<u32>,
}

/// A process that is not confined as planned.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum Mismatch {
    /// A file of /proc cannot be read.
    #[error("/proc of the command cannot be read: {0}")]
    Unreadable(String),
    /// It is not confined as planned.
    #[error("the command's process is not confined as planned: {0}")]
    Missing(&'static str),
}

const KINDS: [&str; 7] = ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"];

/// The node's own namespaces, in the order of the kinds: read while the container is being made.
pub struct Ours([Option<PathBuf>; KINDS.len()]);

impl Ours {
    /// Read them.
    pub fn read() -> Ours {
        Ours(KINDS.map(|kind| std::fs::read_link(Path::new("/proc/self/ns").join(kind)).ok()))
    }
}

/// Read what confines process `pid`, and compare it with the plan.
pub fn verify(pid: i32, ours: &Ours, plan: &Plan, group: Option<&str>) -> Result<Mechanism, Mismatch> {
    let folder = Path::new("/proc").join(pid.to_string());
    let unreadable = |error: std::io::Error| Mismatch::Unreadable(error.to_string());
    let mut namespaces = Vec::new();
    for (kind, ours) in KINDS.iter().zip(&ours.0) {
        let theirs = std::fs::read_link(folder.join("ns").join(kind)).map_err(unreadable)?;
        let ours = ours.as_ref().ok_or(Mismatch::Missing("the node's own namespaces cannot be read"))?;
        if theirs != *ours {
            namespaces.push((*kind).to_string());
        } else if *kind != "net" || plan.network != NetworkPlan::Host {
            return Err(Mismatch::Missing("it shares a namespace with the node"));
        }
    }
    let status = std::fs::read_to_string(folder.join("status")).map_err(unreadable)?;
    let cgroup = std::fs::read_to_string(folder.join("cgroup")).map_err(unreadable)?;
    let mechanism = read(&status, &cgroup, namespaces, plan.landlock.as_ref().map(|landlock| landlock.abi));
    check(&mechanism, plan, group)?;
    Ok(mechanism)
}

fn read(status: &str, cgroup: &str, namespaces: Vec<String>, landlock: Option<u32>) -> Mechanism {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let empty = |name: &str| field(name).is_some_and(|set| set.bytes().all(|digit| digit == b'0'));
    Mechanism {
        namespaces,
        no_new_privileges: field("NoNewPrivs") == Some("1"),
        filter: field("Seccomp") == Some("2"),
        no_capabilities: ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].into_iter().all(empty),
        cgroup: cgroup
            .lines()
            .filter(|line| {
                let controllers = line.split(':').nth(1).unwrap_or_default();
                controllers.is_empty()
                    || controllers.split(',').any(|name| ["memory", "pids", "cpu"].contains(&name))
            })
            .map(str::to_owned)
            .collect(),
        landlock,
    }
}

/// Everything that the plan asks for is there, or the run ends.
fn check(found: &Mechanism, plan: &Plan, group: Option<&str>) -> Result<(), Mismatch> {
    let missing = |what| Err(Mismatch::Missing(what));
    if !found.no_new_privileges {
        return missing("no_new_privs is not set");
    }
    if plan.filter && !found.filter {
        return missing("no system-call filter is loaded");
    }
    if plan.drop_privileges && !found.no_capabilities {
        return missing("it holds capabilities");
    }
    if let Some(group) = group {
        let member = |line: &&String| line.rsplit('/').next() == Some(group);
        // Version 2 shows one line, version 1 one for each of the three; the other version's line stays put.
        let members = found.cgroup.iter().filter(member).count();
        let unified = found.cgroup.iter().any(|line| line.starts_with("0::") && member(&line));
        if !unified && members != 3 {
            return missing("it is not in the run's cgroup");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";

    #[test]
    fn every_line_of_proc_is_read() {
        let cgroup = "8:pids:/oz0/r1\n4:memory:/a/oz0/r1\n3:cpuset:/\n1:cpu:/oz0/r1\n0::/\n";
        let found = read(STATUS, cgroup, vec![], Some(6));
        assert!(found.no_new_privileges && found.filter && found.no_capabilities);
        assert_eq!(found.cgroup.len(), 4);
        let bad = read(&STATUS.replace("CapBnd:\t0", "CapBnd:\t8"), cgroup, vec![], None);
        assert!(!bad.no_capabilities);
        let bad = read(&STATUS.replace("Seccomp:\t2", "Seccomp:\t0"), cgroup, vec![], None);
        assert!(!bad.filter);
        // A line that is not there is no proof.
        assert!(!read("", cgroup, vec![], None).no_capabilities);
    }
}
