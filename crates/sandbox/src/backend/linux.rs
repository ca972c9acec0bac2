//! The Linux backend: namespaces, Landlock, seccomp, cgroups.

pub mod cgroup;
pub mod seccomp;
