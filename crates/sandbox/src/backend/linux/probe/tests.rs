//! The probe on this machine, as root and as `nobody`, and on machines closed for real in one way each: what a
//! forked child does to itself before it probes ends with it.

use std::fs::{self, File};
use std::path::Path;

use oz0_fleet::check;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::DumpableBehavior;
use rustix::thread::{Gid, Uid};

use super::*;
use crate::backend::linux::cgroup;
use crate::backend::linux::seccomp::SockFilter;
use crate::sys::linux::forked::in_child;

const NOBODY: u32 = 65534;

fn linux(probe: &Probe) -> Linux {
    match probe.facts.system {
        System::Linux(linux) => linux,
        other => panic!("{other:?}"),
    }
}

/// The probe found the namespaces closed for this reason, at this step, with this answer; a run that meets the
/// same is refused with the same words, and node and page name the same fix.
fn assert_closed(finding: Namespaces, step: Step, errno: Errno) {
    let probe = probe();
    assert_eq!(probe.lacking.first(), Some(&Lacking::Namespaces { finding, step, errno }), "{probe:?}");
    assert_eq!(linux(&probe).namespaces, Some(finding));
    let lines = check::lines(&probe.facts);
    let refusal = probe.lacking[0].refusal();
    assert_eq!(lines[0], format!("Sandbox: tier 0: namespaces {}", finding.finding()));
    assert!(refusal.reason.starts_with(&lines[0]["Sandbox: tier 0: ".len()..]), "{refusal:?}");
    assert_eq!(lines[2], format!("Fix: {}", refusal.fix.as_deref().unwrap_or_default()));
    assert_eq!(refusal.code, finding.word());
    assert_eq!(Lacking::in_step(step, errno).map(|lacking| lacking.refusal()), Some(refusal));
}

fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// A user namespace with root in it, who may do everything there.
fn own_user_namespace() {
    process::unshare(libc::CLONE_NEWUSER).unwrap();
    write("/proc/self/setgroups", "deny");
    write("/proc/self/uid_map", "0 0 1");
    write("/proc/self/gid_map", "0 0 1");
}

fn own_mounts() {
    process::unshare(libc::CLONE_NEWNS).unwrap();
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private).unwrap();
}

fn become_user(number: u32) {
    rustix::thread::set_thread_groups(&[]).unwrap();
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
    // The change makes /proc/self root's; a program that starts as the user has its own.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
}

/// What a probe might have changed of this process.
fn state() -> Vec<String> {
    let mut state = vec![fs::read_dir("/proc/self/fd").unwrap().count().to_string()];
    for kind in ["cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts"] {
        state.push(fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let fields = ["Seccomp:", "NoNewPrivs:", "CapEff:", "CapBnd:", "Uid:"];
    state.extend(
        status.lines().filter(|line| fields.iter().any(|field| line.starts_with(field))).map(str::to_owned),
    );
    state.push(fs::read_to_string("/proc/self/mountinfo").unwrap());
    state.push(fs::read_to_string("/proc/thread-self/children").unwrap());
    state
}

#[test]
fn this_machine_has_everything_as_root() {
    in_child(|| {
        let before = state();
        let probe = probe();
        assert_eq!(state(), before);
        assert!(probe.lacking.is_empty(), "{:?}", probe.lacking);
        let linux = linux(&probe);
        assert!(linux.is_complete(), "{linux:?}");
        assert_eq!(linux.user, User::new(0));
        assert_eq!(linux.landlock, Landlock::new(tree::landlock_abi().unwrap_or(0).into()));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(linux.kernel, Kernel::of_release(&release));
        assert!(linux.kernel.is_some());
        // A probe alone shows no tier.
        assert_eq!((probe.facts.asked, probe.facts.tier), (Tier::One, Tier::Zero));
    });
}

/// A user to whom nobody hands a cgroup.
const STRANGER: u32 = 61_234;

#[test]
fn an_ordinary_user_lacks_a_cgroup_and_nothing_else() {
    in_child(|| {
        become_user(STRANGER);
        let before = state();
        let probe = probe();
        assert_eq!(state(), before);
        let linux = linux(&probe);
        assert_eq!(linux.namespaces, Some(Namespaces::Open), "{:?}", probe.lacking);
        assert_eq!(linux.seccomp, Some(Seccomp::Works), "{:?}", probe.lacking);
        assert_eq!(linux.user, User::new(STRANGER));
        let [lacking @ Lacking::Cgroup(CgroupRefusal::NotDelegated { uid: STRANGER, .. })] =
            &probe.lacking[..]
        else {
            panic!("{:?}", probe.lacking)
        };
        assert_eq!(linux.cgroup, lacking.cgroup_fact());
        assert!(linux.cgroup.is_some_and(|cgroup| !cgroup.is_usable()), "{linux:?}");
        assert_eq!(check::lines(&probe.facts)[2], format!("Fix: {}", lacking.refusal().fix.unwrap()));
    });
}

#[test]
fn nobody_has_everything_once_a_cgroup_is_delegated() {
    // The tests of cgroups do the same, one at a time under this lock.
    let alone = File::create(std::env::temp_dir().join("oz0-delegated-to-nobody.lock")).unwrap();
    alone.lock().unwrap();
    let delegation = cgroup::delegate("nobody", None).unwrap();
    let tried = std::panic::catch_unwind(|| {
        in_child(|| {
            if delegation.version == Version::V2 {
                // There an ordinary user must be inside already.
                let own = std::process::id().to_string();
                fs::write(delegation.folders[0].join("oz0-node/cgroup.procs"), own).unwrap();
            }
            become_user(NOBODY);
            let before = state();
            let probe = probe();
            assert_eq!(state(), before);
            assert!(probe.lacking.is_empty(), "{:?}", probe.lacking);
            assert!(linux(&probe).is_complete(), "{probe:?}");
            assert_eq!(linux(&probe).user, User::new(NOBODY));
        });
    });
    // What somebody else delegated before stays.
    if !delegation.made.is_empty() {
        cgroup::undo("nobody").unwrap();
    }
    tried.unwrap();
}

#[test]
fn each_limit_of_namespaces_is_named() {
    for (file, finding, step) in [
        ("user", Namespaces::MaxUser, Step::User),
        ("pid", Namespaces::MaxPid, Step::Pid),
        ("mnt", Namespaces::MaxMount, Step::Mount),
        ("ipc", Namespaces::MaxIpc, Step::Ipc),
        ("uts", Namespaces::MaxUts, Step::Uts),
        ("cgroup", Namespaces::MaxCgroup, Step::Cgroup),
        ("net", Namespaces::MaxNetwork, Step::Network),
    ] {
        in_child(|| {
            own_user_namespace();
            // These hold for this user namespace and those below it.
            write(&format!("/proc/sys/user/max_{file}_namespaces"), "0");
            assert_closed(finding, step, Errno::NOSPC);
        });
    }
}

/// The limit may lie further out, where it cannot be read from here.
#[test]
fn a_limit_further_out_is_a_limit() {
    in_child(|| {
        own_user_namespace();
        write("/proc/sys/user/max_user_namespaces", "1");
        own_user_namespace();
        assert_closed(Namespaces::AtLimit, Step::User, Errno::NOSPC);
    });
}

#[test]
fn a_masked_proc_is_found() {
    in_child(|| {
        own_mounts();
        rustix::mount::mount_bind(c"/dev/null", c"/proc/version").unwrap();
        assert_closed(Namespaces::ProcMasked, Step::Proc, Errno::PERM);
    });
}

#[test]
fn a_chroot_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let proc = folder.path().join("proc");
    fs::create_dir(&proc).unwrap();
    in_child(|| {
        own_mounts();
        rustix::mount::mount_bind_recursive("/proc", &proc).unwrap();
        rustix::process::chroot(folder.path()).unwrap();
        rustix::process::chdir("/").unwrap();
        assert_closed(Namespaces::Chroot, Step::User, Errno::PERM);
    });
}

#[test]
fn a_user_without_a_number_is_found() {
    in_child(|| {
        process::unshare(libc::CLONE_NEWUSER).unwrap();
        assert_closed(Namespaces::IdMap, Step::User, Errno::PERM);
    });
}

/// Answers one call with this error, as a container's filter does.
fn refusing(call: i64, errno: i32) -> [SockFilter; 4] {
    let (load, equal, give) = (0x20, 0x15, 0x06);
    let number = u32::try_from(call).unwrap();
    let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(errno).unwrap();
    [
        SockFilter { code: load, jt: 0, jf: 0, k: 0 },
        SockFilter { code: equal, jt: 0, jf: 1, k: number },
        SockFilter { code: give, jt: 0, jf: 0, k: refuse },
        SockFilter { code: give, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

/// Namespaces that are made and give nothing are closed ones: each use of them is tried.
#[test]
fn a_filter_around_the_node_is_found_at_each_step() {
    for (call, errno, step) in [
        (libc::SYS_clone3, Errno::NOSYS, Step::User),
        (libc::SYS_clone3, Errno::PERM, Step::User),
        (libc::SYS_unshare, Errno::PERM, Step::Mount),
        (libc::SYS_sethostname, Errno::PERM, Step::Uts),
        (libc::SYS_mount_setattr, Errno::PERM, Step::Bind),
        (libc::SYS_fsmount, Errno::ACCESS, Step::Tmpfs),
        (libc::SYS_move_mount, Errno::PERM, Step::Tmpfs),
    ] {
        in_child(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            filter::load_filter(&refusing(call, errno.raw_os_error())).unwrap();
            let probe = probe();
            let expected = Lacking::Namespaces { finding: Namespaces::Container, step, errno };
            assert_eq!(probe.lacking.first(), Some(&expected), "{probe:?}");
        });
    }
}

#[test]
fn a_kernel_that_takes_no_filter_is_found() {
    for (errno, finding) in [(Errno::NOSYS, Seccomp::Missing), (Errno::PERM, Seccomp::Refused)] {
        in_child(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            filter::load_filter(&refusing(libc::SYS_seccomp, errno.raw_os_error())).unwrap();
            let probe = probe();
            let lacking = Lacking::Seccomp { finding, answer: Some((Step::Filter, errno)) };
            assert_eq!(probe.lacking, [lacking]);
            assert_eq!(linux(&probe).seccomp, Some(finding));
            assert!(!linux(&probe).is_complete());
        });
    }
}

#[test]
fn a_read_only_cgroup_tree_is_found() {
    in_child(|| {
        own_mounts();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut covered = 0;
        for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
            let point = Path::new(line.split(' ').nth(4).unwrap());
            let flags = MountFlags::BIND | MountFlags::RDONLY;
            rustix::mount::mount_remount(point, flags, "").unwrap();
            covered += 1;
        }
        assert!(covered > 0, "{mounts}");
        let probe = probe();
        // Where the folder for runs is there already, what is seen is that it may not be written.
        let found = linux(&probe).cgroup;
        assert!(matches!(found, Some(Cgroup::ReadOnly | Cgroup::NotPermitted)), "{:?}", probe.lacking);
        assert_eq!(linux(&probe).namespaces, Some(Namespaces::Open), "{:?}", probe.lacking);
        assert!(probe.lacking[0].refusal().fix.unwrap().contains("may write"));
    });
}

/// A fork of a process with threads may hang: it is not tried, and nothing is claimed.
#[test]
fn with_threads_nothing_is_tried_and_nothing_is_claimed() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || held.recv());
        assert!(matches!(try_namespaces(), Err(Lacking::Untried { what: "namespaces", .. })));
        assert!(matches!(try_filter(), Err(Lacking::Untried { what: "seccomp", .. })));
        drop(hold);
    });
}

#[test]
fn an_attempt_that_breaks_off_is_no_answer() {
    in_child(|| {
        let lost = |attempt: fn() -> Result<(), (Step, Errno)>| match in_fork(0, attempt) {
            Err(Trouble::Lost(why)) => why,
            _ => "an answer",
        };
        assert_eq!(lost(|| std::panic::resume_unwind(Box::new(()))), "the attempt broke off");
        assert_eq!(lost(|| process::exit_now(7)), "the attempt ended without an answer");
        assert!(in_fork(0, || Ok(())).is_ok());
    });
}
