//! What the system-call filter and what lies behind it answer, asked by number from inside; each refused call
//! beside what must go on working.

use crate::support::{Outcome, Place, tests};

tests![
    c055_options_of_local_sockets_work,
    c056_io_uring_and_foreign_calls_are_refused,
    c095_other_protocols_and_families_are_refused,
    no_new_namespace_is_made,
    nothing_is_typed_into_a_terminal,
    mounts_keys_and_the_kernels_own_doors_are_closed,
    tracing_inside_works_and_the_first_process_is_closed,
    unknown_calls_answer_as_if_they_were_not_there,
    ;
    as root:
    set_id_bits_are_refused,
];

/// Helpers for the scripts: a call by number or name, and what it must answer.
const PRELUDE: &str = "
import ctypes, errno, os, platform, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = platform.machine() == 'x86_64'
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[a if isinstance(a, bytes) or a is None else ctypes.c_long(a) for a in arguments])
    return result, ctypes.get_errno()
def refused(name, number, *arguments, by=(errno.EPERM, errno.ENOSYS)):
    result, error = call(number, *arguments)
    assert result == -1 and error in by, (name, result, errno.errorcode.get(error, error))
";

fn ask(place: &Place, script: &str) -> Outcome {
    let run = place.python(&format!("{PRELUDE}{script}\nprint('done')"));
    assert_eq!(run.ok(), "done");
    run
}

fn c055_options_of_local_sockets_work(place: &Place) {
    ask(
        place,
        "
a, b = socket.socketpair()
a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
socket.send_fds(a, [b'x'], [0])
data, fds, _, _ = socket.recv_fds(b, 1, 1)
assert data == b'x' and len(fds) == 1
",
    );
}

fn c056_io_uring_and_foreign_calls_are_refused(place: &Place) {
    ask(
        place,
        "
parameters = bytes(120)
refused('io_uring_setup', 425, 8, parameters)
refused('io_uring_enter', 426, 0, 0, 0, 0, None, 0)
refused('io_uring_register', 427, 0, 0, None, 0)
if X86:
    # getpid by its number in the x32 table.
    refused('x32 getpid', 0x40000000 + 39)
",
    );
    // getpid by the 32-bit gate of x86-64: the control shows that this machine has it.
    if cfg!(target_arch = "x86_64") {
        let script = "
import ctypes, mmap, os
code = bytes.fromhex('53b814000000cd805bc3')
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(ctypes.CFUNCTYPE(ctypes.c_int)(at)() == os.getpid())
";
        let control = place.outside(&format!("python3 -c '{}'", script.replace('\'', "\"")));
        let inside = place.python(script);
        // A kernel without that gate kills both alike.
        if control.text() == "True" {
            assert_ne!(inside.text(), "True", "{}", inside.all());
        } else {
            inside.fails();
        }
    }
}

fn c095_other_protocols_and_families_are_refused(place: &Place) {
    ask(
        place,
        "
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
for family in (socket.AF_INET, socket.AF_INET6):
    for name, kind, protocol in [('mptcp', TCP, 262), ('sctp', TCP, 132), ('sctp', 5, 132), ('udplite', UDP, 136),
                                 ('icmp', UDP, 1), ('icmp6', UDP, 58), ('raw', socket.SOCK_RAW, 1), ('dccp', 6, 33)]:
        refused((name, family), 41 if X86 else 198, family, kind, protocol)
for name, family in [('vsock', 40), ('packet', 17), ('alg', 38), ('can', 29), ('bluetooth', 31), ('xdp', 44),
                     ('tipc', 30), ('rds', 21), ('key', 15), ('qipcrtr', 42), ('ax25', 3)]:
    for kind in (TCP, UDP, socket.SOCK_RAW):
        refused((name, kind), 41 if X86 else 198, family, kind, 0)
for protocol in (4, 6, 9, 12, 16):  # sock_diag, xfrm, audit, netfilter, generic
    refused(('netlink', protocol), 41 if X86 else 198, 16, socket.SOCK_RAW, protocol)
# TCP Fast Open: connecting by sendto goes no further than connect does.
fast = socket.socket()
try:
    fast.sendto(b'x', socket.MSG_FASTOPEN, ('198.51.100.7', 443))
    raise SystemExit('sent')
except OSError as error:
    assert error.errno in (errno.ENETUNREACH, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP), error
socket.socket(socket.AF_INET6, UDP).close()
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
",
    );
}

fn no_new_namespace_is_made(place: &Place) {
    ask(
        place,
        "
kinds = {'mnt': 0x20000, 'cgroup': 0x2000000, 'uts': 0x4000000, 'ipc': 0x8000000, 'user': 0x10000000,
         'pid': 0x20000000, 'net': 0x40000000, 'time': 0x80}
for name, flag in kinds.items():
    refused(('unshare', name), 272 if X86 else 97, flag)
    if name != 'time':
        refused(('clone', name), 56 if X86 else 220, flag | 17, None, None, None, None)
refused('clone3', 435, bytes(88), 88)
fd = os.open('/proc/self/ns/net', os.O_RDONLY)
refused('setns', 308 if X86 else 268, fd, 0)
pidfd = os.pidfd_open(os.getpid())
refused('setns of a process', 308 if X86 else 268, pidfd, 0x40000000)
",
    );
    place.outside("unshare --user true").ok();
    place.sh("unshare --user true").is_refused();
}

fn nothing_is_typed_into_a_terminal(place: &Place) {
    ask(
        place,
        "
import pty, fcntl
master, slave = pty.openpty()
for name, request in [('TIOCSTI', 0x5412), ('TIOCLINUX', 0x541c), ('TIOCSETD', 0x5423)]:
    refused(name, 16 if X86 else 29, slave, request, bytes(8))
    # The kernel takes the lower half of the request alone.
    refused(name + ' with upper bits', 16 if X86 else 29, slave, request | (1 << 32), bytes(8))
import termios
termios.tcgetattr(slave)
",
    );
}

fn mounts_keys_and_the_kernels_own_doors_are_closed(place: &Place) {
    ask(
        place,
        "
calls = {'mount': (165, 40), 'umount2': (166, 39), 'pivot_root': (155, 41), 'chroot': (161, 51),
         'swapon': (167, 224), 'reboot': (169, 142), 'init_module': (175, 105), 'delete_module': (176, 106),
         'kexec_load': (246, 104), 'add_key': (248, 217), 'request_key': (249, 218), 'keyctl': (250, 219),
         'perf_event_open': (298, 241), 'bpf': (321, 280), 'userfaultfd': (323, 282),
         'acct': (163, 89), 'settimeofday': (164, 170),
         'sethostname': (170, 161), 'quotactl': (179, 60), 'open_by_handle_at': (304, 265)}
for name, numbers in calls.items():
    result, error = call(numbers[0 if X86 else 1], None, None, None, None, None)
    assert result == -1 and error in (errno.EPERM, errno.ENOSYS, errno.EACCES), (name, errno.errorcode.get(error, error))
for name, number in {'open_tree': 428, 'move_mount': 429, 'fsopen': 430, 'fsmount': 432, 'mount_setattr': 442}.items():
    refused(name, number, None, None, None, None, None)
",
    );
}

fn tracing_inside_works_and_the_first_process_is_closed(place: &Place) {
    ask(
        place,
        "
PTRACE = 101 if X86 else 117
# Processes of the run may watch each other: debuggers work.
child = os.fork()
if child == 0:
    import time; time.sleep(30); os._exit(0)
result, error = call(PTRACE, 0x4206, child, None, None)
allowed = result == 0
if not allowed:
    assert error == errno.EPERM, errno.errorcode.get(error, error)
os.kill(child, 9)
os.waitpid(child, 0)
for name, request in [('ATTACH', 16), ('SEIZE', 0x4206)]:
    result, error = call(PTRACE, request, 1, None, None)
    assert result == -1 and error == errno.EPERM, (name, error)
import struct
buffer = ctypes.create_string_buffer(16)
for name, number in [('process_vm_readv', 310 if X86 else 270), ('process_vm_writev', 311 if X86 else 271)]:
    local = struct.pack('QQ', ctypes.addressof(buffer), 16)
    remote = struct.pack('QQ', 0x400000, 16)
    result, error = call(number, 1, local, 1, remote, 1, 0)
    assert result == -1 and error in (errno.EPERM, errno.ENOSYS), (name, error)
pidfd = os.pidfd_open(1)
refused('pidfd_getfd', 438, pidfd, 3, 0)
",
    );
}

fn unknown_calls_answer_as_if_they_were_not_there(place: &Place) {
    ask(
        place,
        "
for number in (600, 1000, 5000, 0x3fffffff):
    refused(number, number, by=(errno.ENOSYS,))
refused('openat2', 437, -100, b'/etc/passwd', bytes(24), 24, by=(errno.ENOSYS,))
",
    );
}

fn set_id_bits_are_refused(place: &Place) {
    ask(
        place,
        "
open('f', 'w').close()
def denied(name, act):
    try:
        act()
    except PermissionError:
        return
    raise SystemExit(name)
for mode in (0o4755, 0o2755, 0o6755):
    denied('chmod', lambda: os.chmod('f', mode))
    denied('fchmodat', lambda: os.chmod('f', mode, dir_fd=os.open('.', os.O_RDONLY)))
    fd = os.open('f', os.O_RDONLY)
    denied('fchmod', lambda: os.fchmod(fd, mode))
    denied('open', lambda: os.open('g', os.O_CREAT | os.O_WRONLY, mode))
    denied('mknod', lambda: os.mknod('h', 0o100000 | mode))
os.chmod('f', 0o755)
",
    );
    place.outside("touch control && chmod 4755 control").ok();
    place.sh("cp -p control copy; stat -c %a copy").says_not("4755");
    let left = place.outside("find . -perm /6000 ! -name control").ok();
    assert_eq!(left, "");
}
