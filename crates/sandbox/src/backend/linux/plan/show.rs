//! A plan as a person reads it: every step on a line, names of variables and never their values.

use std::fmt;
use std::path::Path;

use super::{NetworkPlan, Plan, Step};
use crate::limits::show_memory;
use crate::policy::Access;
use crate::text::escape;

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { identity, .. } = self;
        let words: Vec<String> = self.command.iter().map(escape).collect();
        writeln!(out, "command   {}", words.join(" "))?;
        writeln!(out, "start in  {}", escape(&self.start))?;
        writeln!(
            out,
            "user      {} ({}), group {}, kept inside",
            escape(&identity.user),
            identity.uid,
            identity.gid
        )?;
        match &self.cgroup {
            Some(cgroup) => writeln!(
                out,
                "cgroup    memory {}, {} tasks, {} cores of CPU time",
                show_memory(cgroup.memory),
                cgroup.processes,
                cgroup.cpu
            )?,
            None => writeln!(out, "cgroup    none")?,
        }
        let network = match self.network {
            NetworkPlan::Proxy { port } => {
                writeln!(out, "network   nothing but 127.0.0.1:{port}, where the egress proxy listens")?;
                ", net"
            }
            NetworkPlan::Host => {
                writeln!(out, "network   the node's own (not tier 1)")?;
                ""
            }
        };
        writeln!(out, "apart     user, pid, mnt, ipc, uts, cgroup{network} namespaces")?;
        let filter = if self.filter { "loaded" } else { "none" };
        writeln!(
            out,
            "filter    {filter}; no_new_privs; capabilities {}",
            if self.drop_privileges { "none" } else { "kept" }
        )?;
        match &self.landlock {
            Some(landlock) => {
                writeln!(out, "landlock  version {}, write below: {}", landlock.abi, list(&landlock.write))?
            }
            None => writeln!(out, "landlock  not in this kernel")?,
        }
        let terminal = if self.terminal { "its own" } else { "none; descriptors 0, 1 and 2 as they are" };
        writeln!(out, "terminal  {terminal}")?;
        writeln!(out, "tree      in memory of its own, at most {}:", show_memory(self.memory_files))?;
        for step in &self.tree {
            writeln!(out, "  {}", Line(step))?;
        }
        for note in &self.notes {
            writeln!(out, "note      {note}")?;
        }
        Ok(())
    }
}

fn list(paths: &[std::path::PathBuf]) -> String {
    paths.iter().map(escape).collect::<Vec<_>>().join(", ")
}

struct Line<'a>(&'a Step);

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Step::Folder { path, mode } => write!(out, "folder    {} ({mode:o})", escape(path)),
            Step::File { path, contents } => {
                write!(out, "file      {} ({} bytes)", escape(path), contents.len())
            }
            Step::Copy { source, path } => {
                write!(out, "copy      {}", escape(source))?;
                if source != path { write!(out, " at {}", escape(path)) } else { Ok(()) }
            }
            Step::Link { path, target } => write!(out, "link      {} -> {}", escape(path), escape(target)),
            Step::Bind { source, target, access, devices, .. } => {
                let word = match (access, devices) {
                    (_, true) => "device",
                    (Access::Read, _) => "read",
                    (Access::Write, _) => "write",
                };
                write!(out, "{word:<9} {}", escape(source))?;
                if source != target { write!(out, " at {}", escape(target)) } else { Ok(()) }
            }
            Step::Writable { path } => write!(out, "private   {}", escape(path)),
            Step::Proc { read_only } => {
                write!(out, "proc      /proc{}", if *read_only { ", read-only" } else { "" })
            }
            Step::Terminals => write!(out, "terminals /dev/pts"),
            Step::CgroupView => write!(out, "read      /sys/fs/cgroup, the run's own cgroup"),
            Step::Protect { path, .. } => write!(out, "protect   {}", escape(path)),
            Step::Pin { root, folders, .. } => {
                let below: Vec<String> = folders
                    .iter()
                    .map(|folder| escape(folder.strip_prefix(root).unwrap_or(Path::new("?"))))
                    .collect();
                write!(out, "pin       below {}: {}", escape(root), below.join(", "))
            }
            Step::Hide { path, .. } => write!(out, "close     {}", escape(path)),
            Step::Seal => write!(out, "seal      everything else read-only"),
        }
    }
}
