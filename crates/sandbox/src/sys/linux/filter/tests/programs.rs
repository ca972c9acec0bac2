//! Real programs under the filter.

use super::filtered;

/// What a program printed; it must end well.
fn printed(argv: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let output = filtered(argv)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", argv[0]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{argv:?}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// C055: options of a local pair stay open.
#[test]
fn c055_a_socket_pair_passes_credentials() {
    let program = "import socket
a, b = socket.socketpair()
a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
print('ok')";
    assert_eq!(printed(&["/usr/bin/python3", "-c", program]), "ok\n");
}

#[test]
fn python_starts_threads_processes_and_servers() {
    let program = "
import asyncio, concurrent.futures, os, socket, sqlite3, subprocess
print(subprocess.run(['/bin/echo', 'child'], capture_output=True, text=True).stdout, end='')
with concurrent.futures.ThreadPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, 2])))
with concurrent.futures.ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, [-3, 4])))
async def serve():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    print(await reader.read())
    server.close()
asyncio.run(serve())
sqlite3.connect('base').execute('create table a(b)')
socket.getaddrinfo('127.0.0.1', 80)
print(len(socket.if_nameindex()) > 0)";
    assert_eq!(printed(&["/usr/bin/python3", "-c", program]), "child\n[1, 2]\n[3, 4]\nb''\nTrue\n");
}

/// No way leaves a set-id bit, for root either; the kernel itself drops it from a new folder.
#[test]
fn no_set_id_bit_is_left_behind() {
    let program = "
import errno, os, stat
def refused(act):
    try: act()
    except OSError as error: return error.errno == errno.EPERM
    return False
open('a', 'w').close()
made = os.open('a', os.O_RDONLY)
print(refused(lambda: os.chmod('a', 0o4755)), refused(lambda: os.chmod('a', 0o2755)),
    refused(lambda: os.fchmod(made, 0o6755)), refused(lambda: os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755)),
    refused(lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755)),
    refused(lambda: os.mknod('c', stat.S_IFREG | 0o4755)), refused(lambda: os.mknod('d', stat.S_IFCHR | 0o600, 259)))
os.umask(0)
os.mkdir('e', 0o6755)
os.chmod('a', 0o1755)
print(sorted(os.listdir()), [name for name in os.listdir() if os.stat(name).st_mode & 0o6000])";
    let expected = format!("{}\n['a', 'e'] []\n", ["True"; 7].join(" "));
    assert_eq!(printed(&["/usr/bin/python3", "-c", program]), expected);
}

#[test]
fn shell_tar_and_git_work() {
    let script = "set -e
git init -q r; cd r; git config user.email a@example.invalid; git config user.name a
echo 1 > f; git add f; git commit -qm x; git clone -q . ../c; git worktree add -q ../w; cd ..
tar cf r.tar r; mkdir t; tar xpf r.tar -C t; cp -a r q; mkfifo p; (sleep 0.01) & wait
git -C c log --oneline | wc -l";
    assert_eq!(printed(&["/bin/sh", "-c", script]).trim(), "1");
}
