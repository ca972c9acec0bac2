//! Calls that the filter refuses, with arguments that do nothing: where the kernel itself answers, it finds
//! a bad descriptor, a null pointer, an empty path or a wrong flag.

use crate::backend::linux::seccomp::Verdict;

/// One call.
pub struct Attempt {
    pub call: &'static str,
    pub arguments: &'static [u64],
    pub expected: Verdict,
    pub outside: Outside,
}

/// What the same call gives without the filter.
#[derive(Clone, Copy)]
pub enum Outside {
    /// Another answer.
    Differs,
    /// Another answer for who holds this capability.
    Needs(u32),
    /// Perhaps the same, for this reason: then only the filtered half proves anything.
    MayBeTheSame(&'static str),
}

impl Attempt {
    pub fn arguments(&self) -> [u64; 6] {
        let mut arguments = [0; 6];
        for (place, argument) in arguments.iter_mut().zip(self.arguments) {
            *place = if *argument == EMPTY { c"".as_ptr().addr() as u64 } else { *argument };
        }
        arguments
    }
}

use Outside::{Differs, MayBeTheSame, Needs};

const fn deny(call: &'static str, arguments: &'static [u64], outside: Outside) -> Attempt {
    Attempt { call, arguments, expected: Verdict::Deny, outside }
}

const fn absent(call: &'static str, arguments: &'static [u64], outside: Outside) -> Attempt {
    Attempt { call, arguments, expected: Verdict::Absent, outside }
}

/// Stands for the address of an empty path.
const EMPTY: u64 = 0x7e57_0000_0000_0001;
const BAD: u64 = u64::MAX;
const NOBODY: u64 = 0x7fff_fff0;

const DAC_READ_SEARCH: u32 = 2;
const NET_RAW: u32 = 13;
const SYS_MODULE: u32 = 16;
const SYS_RAWIO: u32 = 17;
const SYS_CHROOT: u32 = 18;
const SYS_PACCT: u32 = 20;
const SYS_ADMIN: u32 = 21;
const SYS_BOOT: u32 = 22;
const SYS_TIME: u32 = 25;
const SYS_TTY_CONFIG: u32 = 26;
const SYSLOG: u32 = 34;
const AUDIT_READ: u32 = 37;
const BPF: u32 = 39;

const GONE: Outside = MayBeTheSame("the kernel has no such call");
const IO_URING: Outside = MayBeTheSame("kernel.io_uring_disabled may be set");

pub const ATTEMPTS: &[Attempt] = &[
    // Sockets: C095 and the rest of the families.
    deny("socket", &[2, 1, 262], Differs),
    deny("socket", &[10, 1, 262], Differs),
    deny("socket", &[2, 1, 132], Differs),
    deny("socket", &[2, 5, 132], Differs),
    deny("socket", &[2, 2, 136], Differs),
    deny("socket", &[2, 6, 33], Differs),
    deny("socket", &[2, 2, 1], Differs),
    deny("socket", &[2, 3, 1], Needs(NET_RAW)),
    deny("socket", &[10, 3, 58], Needs(NET_RAW)),
    deny("socket", &[2, 10, 0], Needs(NET_RAW)),
    deny("socket", &[17, 3, 0], Needs(NET_RAW)),
    deny("socket", &[16, 3, 15], Differs),
    deny("socket", &[16, 3, 9], Needs(AUDIT_READ)),
    deny("socket", &[31, 3, 1], Differs),
    deny("socket", &[38, 5, 0], Differs),
    deny("socket", &[40, 1, 0], Differs),
    deny("socket", &[44, 3, 0], Needs(NET_RAW)),
    deny("socketpair", &[2, 1, 0, 0], Differs),
    deny("socketpair", &[30, 1, 0, 0], Differs),
    // Namespaces. With CLONE_FS the kernel itself refuses a new user or mount namespace, so that no child
    // is made without the filter.
    deny("clone", &[0x1000_0200], Differs),
    deny("clone", &[0x0002_0200], Differs),
    deny("clone", &[0x4000_0000 | 0x1000_0200], Differs),
    deny("clone", &[0xffff_ffff_0000_0000 | 0x2000_0000 | 0x1000_0200], Differs),
    deny("clone", &[0x0200_0000 | 0x1000_0200], Differs),
    deny("clone", &[0x0400_0000 | 0x1000_0200], Differs),
    deny("clone", &[0x0800_0000 | 0x1000_0200], Differs),
    deny("unshare", &[0x1000_0000], MayBeTheSame("user namespaces may be switched off")),
    deny("unshare", &[0x0002_0000], Needs(SYS_ADMIN)),
    deny("unshare", &[0x80], Needs(SYS_ADMIN)),
    deny("unshare", &[0x1_0000_0000], Differs),
    deny("setns", &[BAD, 0], Differs),
    absent("clone3", &[0, 0], Differs),
    // Devices and the terminal.
    deny("ioctl", &[BAD, 0x5412, 0], Differs),
    deny("ioctl", &[BAD, 0xffff_ffff_0000_5412, 0], Differs),
    deny("ioctl", &[BAD, 0x541c, 0], Differs),
    deny("ioctl", &[BAD, 0x5423, 0], Differs),
    // Set-id bits and devices.
    deny("chmod", &[EMPTY, 0o4755], Differs),
    deny("fchmod", &[BAD, 0o2755], Differs),
    deny("fchmodat", &[BAD, EMPTY, 0o4755], Differs),
    deny("fchmodat2", &[BAD, EMPTY, 0o6755, 0], Differs),
    deny("creat", &[EMPTY, 0o4755], Differs),
    deny("open", &[EMPTY, 0o101, 0o4755], Differs),
    deny("openat", &[BAD, EMPTY, 0o101, 0o2755], Differs),
    deny("openat", &[BAD, EMPTY, 0o20_200_001, 0o4755], Differs),
    absent("openat2", &[BAD, EMPTY, 0, 0], Differs),
    deny("mknod", &[EMPTY, 0o104_755, 0], Differs),
    deny("mknod", &[EMPTY, 0o020_666, 0x103], Differs),
    deny("mknodat", &[BAD, EMPTY, 0o060_666, 0x800], Differs),
    // A process's own state.
    deny("prctl", &[35, 0, 0, 0, 1], Differs),
    deny("personality", &[0x40_0000], Differs),
    // Mounts.
    deny("mount", &[0, 0, 0, 0, 0], Needs(SYS_ADMIN)),
    deny("umount2", &[0, 0], Needs(SYS_ADMIN)),
    deny("pivot_root", &[0, 0], Needs(SYS_ADMIN)),
    deny("chroot", &[0], Needs(SYS_CHROOT)),
    deny("open_tree", &[BAD, 0, 0], Needs(SYS_ADMIN)),
    deny("open_tree_attr", &[BAD, 0, 0, 0, 0], Needs(SYS_ADMIN)),
    deny("move_mount", &[BAD, 0, BAD, 0, 0], Needs(SYS_ADMIN)),
    deny("fsopen", &[0, 0], Needs(SYS_ADMIN)),
    deny("fsconfig", &[BAD, BAD, 0, 0, 0], Differs),
    deny("fsmount", &[BAD, 0, 0], Needs(SYS_ADMIN)),
    deny("fspick", &[BAD, 0, 0], Needs(SYS_ADMIN)),
    deny("mount_setattr", &[BAD, 0, 0, 0, 0], Needs(SYS_ADMIN)),
    // Large kernel interfaces. C056: io_uring.
    deny("io_uring_setup", &[8, 0], IO_URING),
    deny("io_uring_enter", &[BAD, 0, 0, 0, 0, 0], IO_URING),
    deny("io_uring_register", &[BAD, 0, 0, 0], IO_URING),
    deny("add_key", &[0, 0, 0, 0, 0], Differs),
    deny("request_key", &[0, 0, 0, 0], Differs),
    deny("keyctl", &[NOBODY, 0, 0, 0, 0], Differs),
    deny("bpf", &[NOBODY, 0, 0], Needs(BPF)),
    deny("perf_event_open", &[0, 0, 0, BAD, BAD], Differs),
    deny("userfaultfd", &[BAD], Differs),
    deny("open_by_handle_at", &[BAD, 0, 0], Needs(DAC_READ_SEARCH)),
    deny("fanotify_init", &[BAD, 0], Needs(SYS_ADMIN)),
    deny("fanotify_mark", &[BAD, 0, 0, BAD, 0], Differs),
    deny("pidfd_getfd", &[BAD, 0, 0], Differs),
    deny("kcmp", &[NOBODY, NOBODY, 0, 0, 0], Differs),
    deny("migrate_pages", &[NOBODY, 0, 0, 0], Differs),
    deny("memfd_secret", &[BAD], Differs),
    deny("lsm_set_self_attr", &[BAD, 0, 0, BAD], Differs),
    // The machine.
    deny("syslog", &[NOBODY, 0, 0], Needs(SYSLOG)),
    deny("kexec_load", &[0, NOBODY, 0, BAD], Needs(SYS_BOOT)),
    deny("kexec_file_load", &[BAD, BAD, 0, 0, BAD], Needs(SYS_BOOT)),
    deny("reboot", &[0, 0, 0, 0], Needs(SYS_BOOT)),
    deny("init_module", &[0, 0, 0], Needs(SYS_MODULE)),
    deny("finit_module", &[BAD, 0, 0], Needs(SYS_MODULE)),
    deny("delete_module", &[0, 0], Needs(SYS_MODULE)),
    deny("swapon", &[0, BAD], Needs(SYS_ADMIN)),
    deny("swapoff", &[0], Needs(SYS_ADMIN)),
    deny("acct", &[1], Needs(SYS_PACCT)),
    deny("quotactl", &[BAD, 0, 0, 0], Differs),
    deny("quotactl_fd", &[BAD, BAD, 0, 0], Differs),
    deny("settimeofday", &[1, 0], Needs(SYS_TIME)),
    deny("clock_settime", &[NOBODY, 0], Differs),
    deny("sethostname", &[0, BAD], Needs(SYS_ADMIN)),
    deny("setdomainname", &[0, BAD], Needs(SYS_ADMIN)),
    deny("vhangup", &[], Needs(SYS_TTY_CONFIG)),
    deny("iopl", &[NOBODY], Needs(SYS_RAWIO)),
    deny("ioperm", &[NOBODY, 1, 1], Differs),
    deny("modify_ldt", &[BAD, 0, 0], Differs),
    // Gone.
    absent("uselib", &[0], GONE),
    absent("ustat", &[0, 0], GONE),
    absent("sysfs", &[3], GONE),
    absent("_sysctl", &[0], GONE),
    absent("create_module", &[0, 0], GONE),
    absent("get_kernel_syms", &[0], GONE),
    absent("query_module", &[0, 0, 0, 0, 0], GONE),
    absent("nfsservctl", &[0, 0, 0], GONE),
    absent("getpmsg", &[], GONE),
    absent("putpmsg", &[], GONE),
    absent("afs_syscall", &[], GONE),
    absent("tuxcall", &[], GONE),
    absent("security", &[], GONE),
    absent("set_thread_area", &[0], GONE),
    absent("get_thread_area", &[0], GONE),
    absent("lookup_dcookie", &[0, 0, 0], GONE),
    absent("epoll_ctl_old", &[], GONE),
    absent("epoll_wait_old", &[], GONE),
    absent("vserver", &[], GONE),
];
