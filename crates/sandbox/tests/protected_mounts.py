"""Mounts what a plan of protected paths says, as a launch does, and tries to get round it from inside.

Arguments: the workspace, a hidden folder, a file with the plan as JSON. Prints {name of the act: outcome}.
"""

import ctypes
import errno
import json
import os
import subprocess
import sys

work, hidden, plan = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
libc = ctypes.CDLL(None, use_errno=True)
BIND, REC, PRIVATE, REMOUNT, RDONLY, NOSUID, NODEV = 0x1000, 0x4000, 1 << 18, 32, 1, 2, 4
NEWNS, NEWUSER = 0x20000, 0x10000000
OPEN_TREE, MOVE_MOUNT = 428, 429
NOFOLLOW, CLONE, FROM_EMPTY, TO_EMPTY = 0x100, 1, 0x4, 0x40


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def mount(source, target, flags):
    call(libc.mount(source and os.fsencode(source), os.fsencode(target), None, flags, None))


uid, gid = os.getuid(), os.getgid()
call(libc.unshare(NEWNS | NEWUSER))
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"{uid} {uid} 1")
open("/proc/self/gid_map", "w").write(f"{gid} {gid} 1")
mount(None, "/", REC | PRIVATE)
mount(work, work, BIND)
mount(work, hidden, BIND)
for pin in plan["pins"]:
    path = os.path.join(hidden, os.path.relpath(pin["path"], work))
    if pin["kind"] == "folder":
        mount(path, path, BIND)
    else:
        tree = call(libc.syscall(OPEN_TREE, -100, os.fsencode(path), NOFOLLOW | CLONE))
        link = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        call(libc.syscall(MOVE_MOUNT, tree, b"", link, b"", FROM_EMPTY | TO_EMPTY))
for entry in plan["read_only"]:
    mount(entry["path"], entry["path"], BIND)
    mount(None, entry["path"], REMOUNT | BIND | RDONLY | NOSUID | NODEV)

# The new folder, so that the acts go through the mounts.
os.chdir("/")
os.chdir(work)
outcomes = {}


def act(name, function):
    try:
        function()
        outcomes[name] = "done"
    except OSError as error:
        outcomes[name] = errno.errorcode[error.errno]


def write(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write("x")


def git(*arguments):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    name = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
    done = subprocess.run(["/usr/bin/git", *name, *arguments], env=environment, capture_output=True)
    if done.returncode:
        sys.stderr.write(done.stderr.decode())
        raise OSError(errno.EIO, "git")


act("write a hook", lambda: write(".git/hooks/pre-commit"))
act("write the configuration", lambda: write(".git/config"))
act("remove the configuration", lambda: os.unlink(".git/config"))
act("move over the configuration", lambda: (write(".git/x"), os.rename(".git/x", ".git/config")))
act("another name for the configuration", lambda: os.link(".git/config", "y"))
act("rename the hooks", lambda: os.rename(".git/hooks", ".git/h"))
act("rename .git", lambda: os.rename(".git", "z"))
act("rename the nested folder", lambda: os.rename("a", "b"))
act("rename the nested root", lambda: os.rename("a/nested", "a/b"))
act("rename the nested .git", lambda: os.rename("a/nested/.git", "a/nested/g"))
act("write a nested hook", lambda: write("a/nested/.git/hooks/x"))
act("write a nested configuration", lambda: write("a/nested/.git/config"))
act("replace the gitfile", lambda: (write("sub/f"), os.rename("sub/f", "sub/.git")))
act("write the submodule's configuration", lambda: write(".git/modules/sub/config"))
act("rename the modules", lambda: os.rename(".git/modules", ".git/m"))
act("write settings", lambda: write(".claude/new"))
act("write through the link", lambda: write(".husky/x"))
act("remove the link", lambda: os.unlink(".husky"))
act("rename the link", lambda: os.rename(".husky", "h"))
act("replace the link", lambda: (os.symlink("/", "l"), os.rename("l", ".husky")))
act("rename the link's target", lambda: os.rename("tools", "t"))
act("list through the link", lambda: os.listdir(".husky"))
act("read the configuration", lambda: open(".git/config").read())
act("commit", lambda: (write("new"), git("add", "new"), git("commit", "-q", "-m", "new")))
act("commit in the nested repository", lambda: git("-C", "a/nested", "commit", "-q", "--allow-empty", "-m", "x"))
act("commit in the submodule", lambda: git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "x"))
act("change branch", lambda: git("checkout", "-q", "-b", "other"))
act("rename across", lambda: (write("a/one"), os.rename("a/one", "other"), os.link("other", "a/nested/two")))
print(json.dumps(outcomes))
