//! Plans broken in one way each.

use std::path::{Path, PathBuf};

use oz0_fleet::Property;
use oz0_sandbox::backend::linux::plan::{CgroupPlan, NetworkPlan, Plan, Step};
use oz0_sandbox::policy::Access;
use oz0_sandbox::selftest::Node;

/// A plan broken in one way, and what the self-test must say.
pub struct Hole {
    pub name: &'static str,
    pub property: Property,
    pub change: Box<dyn Fn(&mut Plan) + Sync>,
}

fn hole(name: &'static str, property: Property, change: impl Fn(&mut Plan) + Sync + 'static) -> Hole {
    Hole { name, property, change: Box::new(change) }
}

pub fn holes(node: &Node) -> Vec<Hole> {
    let data = node.data_directory.clone();
    vec![
        hole("the working directory is read-only", Property::Launch, |plan| {
            let start = plan.start.clone();
            give(plan, |target| *target == *start, Access::Read);
        }),
        hole("the command starts in a folder of the run's own memory", Property::Launch, |plan| {
            let start = plan.start.clone();
            plan.tree.retain(|step| !matches!(step, Step::Bind { target, .. } if *target == start));
        }),
        hole("what is granted for reading is writable", Property::Files, |plan| {
            let readable = plan.start.with_file_name("readable");
            give(plan, |target| *target == *readable, Access::Write);
            allow_writes(plan, readable);
        }),
        hole("the folder around the working directory is shown", Property::Files, |plan| {
            let around = plan.start.parent().unwrap().to_owned();
            show(plan, &around, Access::Read);
        }),
        hole("a folder beside the working directory is writable", Property::Files, |plan| {
            let outside = plan.start.with_file_name("outside");
            show(plan, &outside, Access::Write);
            allow_writes(plan, outside);
        }),
        hole("the data directory of the check is shown", Property::Files, |plan| {
            show(plan, &plan.start.with_file_name("data"), Access::Read);
        }),
        hole("the node's own data directory is shown", Property::Files, move |plan| {
            show(plan, &data, Access::Read);
        }),
        hole("the run has the host's network", Property::Egress, |plan| plan.network = NetworkPlan::Host),
        hole("no cgroup", Property::JobLimits, |plan| plan.cgroup = None),
        hole("four times the memory", Property::JobLimits, |plan| limit(plan, |group| group.memory *= 4)),
        hole("a hundred more processes", Property::JobLimits, |plan| {
            limit(plan, |group| group.processes = group.processes.saturating_add(100));
        }),
        hole("no cap on CPU", Property::JobLimits, |plan| {
            limit(plan, |group| group.cpu = oz0_sandbox::limits::Cpu::MOST);
        }),
        hole("room for the command after all", Property::FailClosed, |plan| {
            limit(plan, |group| group.processes = group.processes.max(5));
        }),
        hole("a limit that the kernel takes instead of the one asked for", Property::FailClosed, |plan| {
            limit(plan, |group| group.processes = group.processes.min(1000));
        }),
        hole("nothing is read-only", Property::ProtectedPaths, |plan| {
            plan.tree.retain(|step| !matches!(step, Step::Protect { .. }));
        }),
        hole("hooks are writable", Property::ProtectedPaths, |plan| {
            plan.tree.retain(|step| !matches!(step, Step::Protect { path, .. } if path.ends_with("hooks")));
        }),
        hole("the configuration is writable", Property::ProtectedPaths, |plan| {
            plan.tree.retain(|step| !matches!(step, Step::Protect { path, .. } if path.ends_with("config")));
        }),
        hole("nothing is held in place", Property::ProtectedPaths, |plan| {
            plan.tree.retain(|step| !matches!(step, Step::Pin { .. }));
        }),
        hole("all of .git is read-only", Property::ProtectedPaths, |plan| {
            let git = plan.start.join(".git");
            if git.is_dir() {
                let end = plan.tree.len() - 1;
                plan.tree.insert(end, Step::Protect { path: git, folder: true });
            }
        }),
    ]
}

/// Holes that only a root caller can be led into.
pub fn holes_for_root() -> Vec<Hole> {
    vec![
        // Landlock alone, and an unreadable first process alone, each stop this. An ordinary user's command has
        // lost its capabilities by exec, and may not look into a first process that has them.
        hole("the first process is readable", Property::Environment, |plan| {
            plan.drop_privileges = false;
            plan.landlock = None;
        }),
    ]
}

fn limit(plan: &mut Plan, change: impl Fn(&mut CgroupPlan)) {
    if let Some(group) = &mut plan.cgroup {
        change(group);
    }
}

fn give(plan: &mut Plan, which: impl Fn(&Path) -> bool, given: Access) {
    for step in &mut plan.tree {
        if let Step::Bind { target, access, .. } = step
            && which(target)
        {
            *access = given;
        }
    }
}

fn allow_writes(plan: &mut Plan, path: PathBuf) {
    if let Some(landlock) = &mut plan.landlock
        && path.exists()
    {
        landlock.write.push(path);
    }
}

/// Bind a folder of the host that the plan leaves out, where there is one.
fn show(plan: &mut Plan, folder: &Path, access: Access) {
    if !folder.is_dir() {
        return;
    }
    let mounts = plan.tree.iter().position(|step| !step.is_in_memory()).unwrap();
    let made = |plan: &Plan, path: &Path| {
        plan.tree.iter().any(|step| matches!(step, Step::Folder { path: made, .. } if made == path))
    };
    let mut missing: Vec<&Path> =
        folder.ancestors().filter(|path| path.parent().is_some() && !made(plan, path)).collect();
    missing.reverse();
    for (number, path) in missing.iter().enumerate() {
        plan.tree.insert(mounts + number, Step::Folder { path: path.to_path_buf(), mode: 0o755 });
    }
    // Before the working directory's own, which may lie in it; after what makes the run's own memory writable.
    let start = plan.start.clone();
    let work = plan
        .tree
        .iter()
        .position(|step| matches!(step, Step::Bind { target, .. } if *target == start))
        .unwrap();
    let bind = |path: &Path, access| Step::Bind {
        source: path.into(),
        target: path.into(),
        access,
        folder: true,
        devices: false,
    };
    plan.tree.insert(work, bind(folder, access));
}
