//! What happens to each system call, and why: the one list that the program, `sandbox explain` and the
//! tests derive from. Knows calls by name only; the numbers are in [`super::numbers`].
//!
//! The filter is one of several walls. Where it lets a call pass, the reason names what holds it instead.

use std::fmt;

/// What the kernel is told to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs.
    Allow,
    /// EPERM: not in a sandbox.
    Deny,
    /// ENOSYS: as if the kernel did not have the call, so that programs take their older way.
    Absent,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub enum Treatment {
    /// The same for every argument.
    Always(Verdict),
    /// The first clause that holds decides; when none does, the verdict at the end.
    ByArgument(&'static [Clause], Verdict),
}

/// One line of a decision by arguments.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// Holds when all of these hold.
    pub all: &'static [Condition],
    /// What then happens.
    pub verdict: Verdict,
}

/// A question about 32 bits of one argument. Arguments are 64-bit registers; where the kernel takes an
/// `int` or a `umode_t` it ignores the upper half, and so does the question.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    /// Some of these bits are set.
    AnyBit(u8, Half, u32),
    /// The value, reduced to the bits of the mask, is one of these.
    OneOf(u8, Half, u32, &'static [u32]),
}

/// Which half of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Bits 0 to 31.
    Low,
    /// Bits 32 to 63.
    High,
}

/// Calls that are treated alike, and why.
pub struct Rule {
    /// What happens.
    pub treatment: Treatment,
    /// To which calls: names between spaces.
    pub calls: &'static str,
    /// Why.
    pub reason: &'static str,
}

const fn allow(reason: &'static str, calls: &'static str) -> Rule {
    Rule { treatment: Treatment::Always(Verdict::Allow), calls, reason }
}

const fn deny(calls: &'static str, reason: &'static str) -> Rule {
    Rule { treatment: Treatment::Always(Verdict::Deny), calls, reason }
}

const fn absent(calls: &'static str, reason: &'static str) -> Rule {
    Rule { treatment: Treatment::Always(Verdict::Absent), calls, reason }
}

/// Allowed when a clause holds, else denied.
const fn only(calls: &'static str, clauses: &'static [Clause], reason: &'static str) -> Rule {
    Rule { treatment: Treatment::ByArgument(clauses, Verdict::Deny), calls, reason }
}

/// Denied when a clause holds, else allowed.
const fn except(calls: &'static str, clauses: &'static [Clause], reason: &'static str) -> Rule {
    Rule { treatment: Treatment::ByArgument(clauses, Verdict::Allow), calls, reason }
}

const fn allow_if(all: &'static [Condition]) -> Clause {
    Clause { all, verdict: Verdict::Allow }
}

const fn deny_if(all: &'static [Condition]) -> Clause {
    Clause { all, verdict: Verdict::Deny }
}

const fn any_bit(argument: u8, bits: u32) -> Condition {
    Condition::AnyBit(argument, Half::Low, bits)
}

const fn is(argument: u8, values: &'static [u32]) -> Condition {
    Condition::OneOf(argument, Half::Low, u32::MAX, values)
}

const fn masked(argument: u8, mask: u32, values: &'static [u32]) -> Condition {
    Condition::OneOf(argument, Half::Low, mask, values)
}

const fn upper_half_is_zero(argument: u8) -> Condition {
    Condition::OneOf(argument, Half::High, u32::MAX, &[0])
}

// The kernel's values; those used here are the same on both architectures.
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
/// The kind of socket, without SOCK_CLOEXEC and SOCK_NONBLOCK.
const SOCK_TYPE: u32 = 0xf;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const NETLINK_ROUTE: u32 = 0;

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME is not among the flags of
/// clone: its bit belongs to the exit signal there.
const CLONE_NEW: u32 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;
/// CLONE_FS, CLONE_FILES, CLONE_SYSVSEM: what unshare may undo without a new namespace.
const UNSHARE_PLAIN: u32 = 0x200 | 0x400 | 0x4_0000;

const SET_ID: u32 = 0o6000;
/// O_CREAT and the bit of O_TMPFILE that is not O_DIRECTORY: only with them does open read its mode.
const MAKES_A_FILE: u32 = 0o100 | 0o20_000_000;
const S_IFMT: u32 = 0o170_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFBLK: u32 = 0o060_000;

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const TIOCSETD: u32 = 0x5423;

const PR_SET_MM: u32 = 35;

/// ADDR_NO_RANDOMIZE and PER_LINUX32.
const PERSONALITY_PLAIN: u32 = 0x4_0000 | 0x8;
/// Asks for the present value.
const PERSONALITY_QUERY: u32 = u32::MAX;

const SET_ID_REASON: &str = "a run by root could leave set-user-id files on the host";

/// The list. Every call in [`super::numbers`] is in exactly one line; the build fails otherwise.
pub const RULES: &[Rule] = &[
    // By argument.
    only(
        "socket",
        &[
            allow_if(&[is(0, &[AF_UNIX])]),
            allow_if(&[
                is(0, &[AF_INET, AF_INET6]),
                masked(1, SOCK_TYPE, &[SOCK_STREAM]),
                is(2, &[0, IPPROTO_TCP]),
            ]),
            allow_if(&[
                is(0, &[AF_INET, AF_INET6]),
                masked(1, SOCK_TYPE, &[SOCK_DGRAM]),
                is(2, &[0, IPPROTO_UDP]),
            ]),
            allow_if(&[is(0, &[AF_NETLINK]), is(2, &[NETLINK_ROUTE])]),
        ],
        "local sockets, TCP, UDP and the list of interfaces; other families (vsock, packet, AF_ALG) and \
         protocols (MPTCP, SCTP, ICMP) pass namespaces or Landlock by, or are kernel code nobody needs",
    ),
    only(
        "socketpair",
        &[allow_if(&[is(0, &[AF_UNIX])])],
        "local pairs; their options stay open: Chromium sets SO_PASSCRED on one",
    ),
    except(
        "clone",
        &[deny_if(&[any_bit(0, CLONE_NEW)])],
        "threads and processes; a new namespace would give back capabilities that the run has dropped",
    ),
    only(
        "unshare",
        &[allow_if(&[masked(0, !UNSHARE_PLAIN, &[0]), upper_half_is_zero(0)])],
        "a thread's own files and folder; a new namespace would give back capabilities",
    ),
    except(
        "ioctl",
        &[deny_if(&[is(1, &[TIOCSTI, TIOCLINUX, TIOCSETD])])],
        "devices are few inside; typing into the terminal, pasting into a console and line disciplines \
         are denied; file flags need capabilities where they could harm",
    ),
    except("chmod fchmod creat", &[deny_if(&[any_bit(1, SET_ID)])], SET_ID_REASON),
    except("fchmodat fchmodat2", &[deny_if(&[any_bit(2, SET_ID)])], SET_ID_REASON),
    except("open", &[deny_if(&[any_bit(1, MAKES_A_FILE), any_bit(2, SET_ID)])], SET_ID_REASON),
    except("openat", &[deny_if(&[any_bit(2, MAKES_A_FILE), any_bit(3, SET_ID)])], SET_ID_REASON),
    except(
        "mknod",
        &[deny_if(&[any_bit(1, SET_ID)]), deny_if(&[masked(1, S_IFMT, &[S_IFCHR, S_IFBLK])])],
        "pipes, sockets and files; no device, no set-id bit",
    ),
    except(
        "mknodat",
        &[deny_if(&[any_bit(2, SET_ID)]), deny_if(&[masked(2, S_IFMT, &[S_IFCHR, S_IFBLK])])],
        "pipes, sockets and files; no device, no set-id bit",
    ),
    except(
        "prctl",
        &[deny_if(&[is(0, &[PR_SET_MM])])],
        "a process's own state; PR_SET_MM changes what /proc shows of it and serves checkpoints only",
    ),
    only(
        "personality",
        &[allow_if(&[masked(0, !PERSONALITY_PLAIN, &[0])]), allow_if(&[is(0, &[PERSONALITY_QUERY])])],
        "debuggers switch address randomisation off and builds say linux32; the rest weakens mappings",
    ),
    // Allowed.
    allow(
        "works on what is already open",
        "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek close close_range \
         dup dup2 dup3 fcntl flock fsync fdatasync sync syncfs sync_file_range ftruncate fallocate \
         fadvise64 readahead sendfile splice tee vmsplice copy_file_range getdents getdents64 fstat fstatfs \
         cachestat",
    ),
    allow(
        "paths lead only where the mounts and Landlock let them",
        "stat lstat newfstatat statx statfs access faccessat faccessat2 readlink readlinkat getcwd chdir \
         fchdir truncate rename renameat renameat2 link linkat unlink unlinkat symlink symlinkat rmdir \
         utime utimes futimesat utimensat umask name_to_handle_at file_getattr",
    ),
    allow("the kernel drops set-id bits when it makes a folder", "mkdir mkdirat"),
    allow(
        "owners outside the run's one user need capabilities that it does not have",
        "chown lchown fchown fchownat",
    ),
    allow(
        "security.capability needs CAP_SETFCAP, which the run does not have; the name is behind a pointer",
        "setxattr lsetxattr fsetxattr setxattrat",
    ),
    allow(
        "attributes of files that it can reach",
        "getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat removexattr \
         lremovexattr fremovexattr removexattrat",
    ),
    allow("immutable and append-only need a capability; other flags are the owner's", "file_setattr"),
    allow(
        "its own memory, held by the cgroup",
        "mmap mprotect munmap mremap msync mincore madvise brk mlock mlock2 munlock mlockall munlockall \
         remap_file_pages memfd_create pkey_mprotect pkey_alloc pkey_free mseal map_shadow_stack membarrier",
    ),
    allow(
        "Java and Node.js ask where memory lies; another process is reached only as ptrace reaches it",
        "mbind get_mempolicy set_mempolicy set_mempolicy_home_node move_pages process_madvise",
    ),
    allow(
        "starts and ends programs, within the cgroup's count",
        "fork vfork execve execveat exit exit_group wait4 waitid set_tid_address rseq restart_syscall \
         set_robust_list get_robust_list arch_prctl",
    ),
    allow(
        "the PID namespace holds only the run's own processes",
        "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal process_mrelease \
         getpid getppid gettid getpgrp getpgid setpgid getsid setsid",
    ),
    allow(
        "debuggers and crash reporters; reaches the PID namespace's processes only, and pid 1 is not \
         dumpable",
        "ptrace process_vm_readv process_vm_writev",
    ),
    allow(
        "a process's own signals, clocks and timers",
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack \
         pause alarm getitimer setitimer nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday \
         time times timer_create timer_settime timer_gettime timer_getoverrun timer_delete",
    ),
    allow(
        "reads the clock's state; to set it the kernel wants CAP_SYS_TIME on the host",
        "adjtimex clock_adjtime",
    ),
    allow(
        "waits for events",
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait \
         epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime \
         inotify_init inotify_init1 inotify_add_watch inotify_rm_watch futex futex_waitv futex_wake \
         futex_wait futex_requeue pipe pipe2",
    ),
    allow(
        "the older asynchronous calls open nothing: they work on descriptors",
        "io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel",
    ),
    allow(
        "sockets of the families above; the network namespace decides where they lead",
        "connect accept accept4 bind listen shutdown sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg \
         getsockname getpeername getsockopt setsockopt",
    ),
    allow(
        "the IPC namespace is the run's own",
        "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open \
         mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    ),
    allow(
        "scheduling of its own processes, within the limits of the user and the cgroup",
        "sched_yield sched_setparam sched_getparam sched_setscheduler sched_getscheduler \
         sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_setaffinity \
         sched_getaffinity sched_setattr sched_getattr getpriority setpriority ioprio_set ioprio_get getcpu",
    ),
    allow(
        "reads or lowers what it may do; raising needs capabilities, and no_new_privs is set",
        "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid \
         setresuid setresgid setfsuid setfsgid setgroups capget capset getrlimit setrlimit prlimit64 \
         seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self lsm_get_self_attr \
         lsm_list_modules",
    ),
    allow("facts that /proc gives as well", "uname sysinfo getrusage getrandom statmount listmount"),
    // Denied.
    deny("setns", "entering another namespace leaves this one"),
    deny(
        "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick \
         mount_setattr",
        "the mounts are the sandbox",
    ),
    deny(
        "io_uring_setup io_uring_enter io_uring_register",
        "its operations open files and sockets without passing this filter; programs that probe for it \
         fall back",
    ),
    deny("add_key request_key keyctl", "keyrings belong to the host's session and user"),
    deny("bpf perf_event_open userfaultfd", "large kernel interfaces that builds and tests do not need"),
    deny("open_by_handle_at", "a handle opens a file of the file system past the mounts"),
    deny("fanotify_init fanotify_mark", "watches whole file systems; inotify stays open"),
    deny(
        "pidfd_getfd kcmp migrate_pages",
        "takes from or looks into another process in ways that no debugger here needs",
    ),
    deny("memfd_secret", "takes pages out of the kernel's own map, for the whole machine"),
    deny("lsm_set_self_attr", "changes the security label that the node started with"),
    deny("syslog", "the kernel's log is the host's"),
    deny(
        "kexec_load kexec_file_load reboot init_module finit_module delete_module swapon swapoff acct \
         quotactl quotactl_fd settimeofday clock_settime sethostname setdomainname vhangup iopl ioperm",
        "administers the machine",
    ),
    deny("modify_ldt", "serves 16- and 32-bit code, whose calls are closed here anyway"),
    // Absent.
    absent(
        "clone3 openat2",
        "the flags are behind a pointer that no filter can follow; the C library falls back",
    ),
    absent(
        "uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg \
         afs_syscall tuxcall security set_thread_area get_thread_area lookup_dcookie epoll_ctl_old \
         epoll_wait_old vserver",
        "gone from current kernels, or never there",
    ),
];

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allowed",
            Self::Deny => "denied (EPERM)",
            Self::Absent => "absent (ENOSYS)",
        })
    }
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always(verdict) => verdict.fmt(f),
            Self::ByArgument(_, Verdict::Allow) => f.write_str("allowed, except by argument"),
            Self::ByArgument(_, _) => f.write_str("denied, except by argument"),
        }
    }
}
