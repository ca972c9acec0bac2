//! Where runs' cgroups may go, from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup` alone:
//! which version, which mounted trees, and where in them this process is. Touches no file.

use std::path::{Path, PathBuf};

use super::{CgroupRefusal, Controller, Version};

/// A mounted tree and this process's place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub point: PathBuf,
    /// This process's own cgroup below that point; empty when it is the top, or lies outside what is mounted.
    pub own: PathBuf,
    /// Which of the needed controllers it has.
    pub controllers: Vec<Controller>,
}

/// All that holds one run's limits: one tree on version 2, up to three on version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which version.
    pub version: Version,
    /// The trees; the first one has the memory controller.
    pub hierarchies: Vec<Hierarchy>,
}

impl Layout {
    /// Version 2 when memory, pids and cpu are all there, else version 1 for all three, never mixed.
    /// `controllers_at` gives the text of `cgroup.controllers` in the folder where version 2 is mounted.
    pub fn choose(
        mountinfo: &str,
        own: &str,
        controllers_at: impl Fn(&Path) -> String,
    ) -> Result<Layout, CgroupRefusal> {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::read).collect();
        if mounts.is_empty() {
            return Err(CgroupRefusal::NotMounted);
        }
        let own: Vec<Own<'_>> = own.lines().filter_map(Own::read).collect();
        let (unified, lacking_v2) = version_2(&mounts, &own, controllers_at);
        if let (Some(tree), []) = (unified, lacking_v2.as_slice()) {
            return Ok(Layout { version: Version::V2, hierarchies: vec![tree] });
        }
        let (hierarchies, lacking_v1) = version_1(&mounts, &own);
        if lacking_v1.is_empty() {
            return Ok(Layout { version: Version::V1, hierarchies });
        }
        Err(CgroupRefusal::NoControllers { v2: lacking_v2, v1: lacking_v1 })
    }
}

/// The needed controllers that the text of a `cgroup.controllers` or `cgroup.subtree_control` lacks.
pub(super) fn lacking(text: &str) -> Vec<Controller> {
    let there: Vec<&str> = text.split_whitespace().collect();
    Controller::ALL.into_iter().filter(|controller| !there.contains(&controller.name())).collect()
}

fn version_2(
    mounts: &[Mount],
    own: &[Own<'_>],
    controllers_at: impl Fn(&Path) -> String,
) -> (Option<Hierarchy>, Vec<Controller>) {
    let path = own.iter().find(|own| own.controllers.is_empty()).map_or("/", |own| own.path);
    let trees = mounts.iter().filter(|mount| mount.controllers.is_none());
    match Mount::that_shows(trees, path) {
        None => (None, Controller::ALL.into()),
        Some((mount, own)) => {
            let lacking = lacking(&controllers_at(&mount.point));
            let controllers = Controller::ALL.into();
            (Some(Hierarchy { point: mount.point.clone(), own, controllers }), lacking)
        }
    }
}

fn version_1(mounts: &[Mount], own: &[Own<'_>]) -> (Vec<Hierarchy>, Vec<Controller>) {
    let (mut hierarchies, mut lacking) = (Vec::<Hierarchy>::new(), Vec::new());
    for controller in Controller::ALL {
        let has = |names: &[String]| names.iter().any(|name| name == controller.name());
        let path = own
            .iter()
            .find(|own| own.controllers.split(',').any(|name| name == controller.name()))
            .map_or("/", |own| own.path);
        let trees = mounts.iter().filter(|mount| mount.controllers.as_deref().is_some_and(has));
        let Some((mount, own)) = Mount::that_shows(trees, path) else {
            lacking.push(controller);
            continue;
        };
        match hierarchies.iter_mut().find(|tree| tree.point == mount.point) {
            Some(tree) => tree.controllers.push(controller),
            None => {
                let controllers = vec![controller];
                hierarchies.push(Hierarchy { point: mount.point.clone(), own, controllers });
            }
        }
    }
    (hierarchies, lacking)
}

/// A line of `/proc/self/cgroup`: `4:memory:/path`, or `0::/path` for version 2.
struct Own<'text> {
    controllers: &'text str,
    path: &'text str,
}

impl Own<'_> {
    fn read(line: &str) -> Option<Own<'_>> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        Some(Own { controllers, path })
    }
}

/// A cgroup mount of `/proc/self/mountinfo`.
struct Mount {
    root: String,
    point: PathBuf,
    /// None for version 2.
    controllers: Option<Vec<String>>,
}

impl Mount {
    /// `36 35 98:0 /root /point options [optional…] - type source super-options`
    fn read(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (unescaped(before.next()?), unescaped(before.next()?));
        let mut after = after.split(' ');
        let controllers = match after.next()? {
            "cgroup2" => None,
            "cgroup" => Some(after.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Mount { root, point: PathBuf::from(point), controllers })
    }

    /// The first of these mounts that shows the cgroup `path`, and what is left of the path below its point.
    /// One that shows it nowhere (made outside this cgroup namespace, say) still serves, from its top: whether
    /// this caller may write there is tried, not inferred.
    fn that_shows<'a>(mounts: impl Iterator<Item = &'a Mount>, path: &str) -> Option<(&'a Mount, PathBuf)> {
        let mounts: Vec<&Mount> = mounts.collect();
        let shown = mounts.iter().find_map(|mount| Some((*mount, below(path, &mount.root)?)));
        shown.or_else(|| mounts.first().map(|mount| (*mount, PathBuf::new())))
    }
}

/// `path` relative to `root`, when it lies at or below it and neither leads upward.
fn below(path: &str, root: &str) -> Option<PathBuf> {
    let rest = Path::new(path).strip_prefix(root).ok()?;
    let upward = |path: &Path| path.components().any(|part| part.as_os_str() == "..");
    (!upward(rest) && !upward(Path::new(root))).then(|| rest.to_owned())
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescaped(field: &str) -> String {
    let mut text = String::new();
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 4);
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                text.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian 12 with systemd: version 2 alone.
    const UNIFIED: &str = "\
24 30 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
28 24 0:25 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
    const SESSION: &str = "0::/user.slice/user-1000.slice/session-3.scope\n";

    /// A hybrid: every version-1 controller by itself, version 2 without controllers.
    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const HYBRID_OWN: &str = "\
9:name=systemd:/
8:pids:/
4:memory:/agent/99ce
2:cpuacct:/
1:cpu:/
0::/
";

    /// A container on a version-1 host, without a cgroup namespace: the mounts' root is the container's cgroup.
    const CONTAINER: &str = "\
700 699 0:29 /docker/ab12 /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime master:11 - cgroup cgroup rw,cpu,cpuacct
701 699 0:32 /docker/ab12 /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:14 - cgroup cgroup rw,memory
702 699 0:36 /docker/ab12 /sys/fs/cgroup/pids ro,nosuid,nodev,noexec,relatime master:18 - cgroup cgroup rw,pids
";
    const CONTAINER_OWN: &str = "\
8:pids:/docker/ab12
4:memory:/docker/ab12/inner
2:cpu,cpuacct:/docker/ab12
";

    fn all(_: &Path) -> String {
        "cpuset cpu io memory hugetlb pids rdma misc\n".to_owned()
    }

    fn none(_: &Path) -> String {
        "\n".to_owned()
    }

    fn shown(layout: &Layout) -> Vec<(&str, &str, String)> {
        let tree = |tree: &Hierarchy| super::super::listed(&tree.controllers);
        layout
            .hierarchies
            .iter()
            .map(|at| (at.point.to_str().unwrap(), at.own.to_str().unwrap(), tree(at)))
            .collect()
    }

    #[test]
    fn version_2_with_all_three_is_one_tree() {
        let layout = Layout::choose(UNIFIED, SESSION, all).unwrap();
        assert_eq!(layout.version, Version::V2);
        assert_eq!(
            shown(&layout),
            [("/sys/fs/cgroup", "user.slice/user-1000.slice/session-3.scope", "memory, pids, cpu".into())]
        );
    }

    #[test]
    fn a_hybrid_uses_version_1_for_all_three() {
        let layout = Layout::choose(HYBRID, HYBRID_OWN, none).unwrap();
        assert_eq!(layout.version, Version::V1);
        assert_eq!(
            shown(&layout),
            [
                ("/sys/fs/cgroup/memory", "agent/99ce", "memory".into()),
                ("/sys/fs/cgroup/pids", "", "pids".into()),
                ("/sys/fs/cgroup/cpu", "", "cpu".into()),
            ]
        );
    }

    #[test]
    fn versions_are_never_mixed() {
        // Version 2 has two of the three and version 1 the third: neither will do.
        let without_cpu: String =
            HYBRID.lines().filter(|line| !line.ends_with(",cpu")).map(|line| format!("{line}\n")).collect();
        let some = |_: &Path| "cpu pids".to_owned();
        assert_eq!(
            Layout::choose(&without_cpu, HYBRID_OWN, some),
            Err(CgroupRefusal::NoControllers { v2: vec![Controller::Memory], v1: vec![Controller::Cpu] })
        );
        // The control: all of version 1 back, and it is chosen whole although version 2 has two.
        assert_eq!(Layout::choose(HYBRID, HYBRID_OWN, some).unwrap().version, Version::V1);
    }

    #[test]
    fn a_container_is_where_its_mounts_say() {
        let layout = Layout::choose(CONTAINER, CONTAINER_OWN, none).unwrap();
        assert_eq!(
            shown(&layout),
            [
                ("/sys/fs/cgroup/memory", "inner", "memory".into()),
                ("/sys/fs/cgroup/pids", "", "pids".into()),
                ("/sys/fs/cgroup/cpu,cpuacct", "", "cpu".into()),
            ]
        );
    }

    #[test]
    fn controllers_that_share_a_tree_share_a_folder() {
        let shared = "40 31 0:9 / /cg rw - cgroup cgroup rw,cpu,memory,pids\n";
        let layout = Layout::choose(shared, "3:cpu,memory,pids:/a\n", none).unwrap();
        assert_eq!(shown(&layout), [("/cg", "a", "memory, pids, cpu".into())]);
    }

    #[test]
    fn a_path_that_leads_upward_is_not_followed() {
        let made_outside = "28 24 0:25 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (mounts, own) in [(UNIFIED, "0::/../session-3.scope\n"), (made_outside, "0::/\n")] {
            assert_eq!(Layout::choose(mounts, own, all).unwrap().hierarchies[0].own, Path::new(""));
        }
    }

    #[test]
    fn escaped_mount_points_are_read() {
        let spaced = r"28 24 0:25 / /srv/my\040cgroups\134x rw - cgroup2 cgroup2 rw";
        let layout = Layout::choose(spaced, "0::/\n", all).unwrap();
        assert_eq!(layout.hierarchies[0].point, Path::new(r"/srv/my cgroups\x"));
    }

    #[test]
    fn without_cgroups_it_is_said() {
        let proc_only = UNIFIED.lines().next().unwrap();
        assert_eq!(Layout::choose(proc_only, SESSION, all), Err(CgroupRefusal::NotMounted));
    }
}
