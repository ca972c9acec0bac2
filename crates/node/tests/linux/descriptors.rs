//! What comes in through descriptors: 0, 1 and 2 as they are or refused, nothing else.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};

use crate::support::{Place, finish, session, tests};

tests![
    a_folder_as_standard_descriptor_is_refused,
    a_bare_path_as_standard_descriptor_is_refused,
    a_socket_without_a_peer_is_refused_and_one_with_a_peer_works,
    a_closed_standard_descriptor_becomes_dev_null,
    only_the_standard_descriptors_are_inherited,
    a_file_that_was_opened_for_reading_is_not_opened_again_for_writing,
    dev_stderr_to_a_file_works,
    ;
    as root:
    a_block_device_as_standard_input_is_refused,
];

fn folder(place: &Place) -> OwnedFd {
    File::open(place.work.parent().unwrap()).unwrap().into()
}

fn a_folder_as_standard_descriptor_is_refused(place: &Place) {
    place.write("outside", "canary");
    // What it would open: the control is the same act outside.
    let mut control = place.command("cat");
    control.arg("/proc/self/fd/0/outside").stdin(folder(place));
    assert_eq!(finish(&mut control).ok(), "canary");
    let mut run = place.sandbox(&[] as &[&str], &["cat", "/proc/self/fd/0/outside"]);
    finish(run.stdin(folder(place))).is_sandbox_refusal().says("standard input is a folder");
    let mut run = place.sandbox(&[] as &[&str], &["cat", "/proc/self/fd/1/outside"]);
    let run = run.stdout(folder(place)).stderr(Stdio::piped()).spawn().unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output is a folder"));
    // Its own complaint cannot be read there, its status can.
    let mut run = place.sandbox(&[] as &[&str], &["cat", "/proc/self/fd/2/outside"]);
    let run = run.stderr(folder(place)).stdout(Stdio::piped()).spawn().unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0));
}

fn a_bare_path_as_standard_descriptor_is_refused(place: &Place) {
    let file = place.write("file", "canary");
    let bare = rustix::fs::open(&file, OFlags::PATH, Mode::empty()).unwrap();
    let mut run = place.sandbox(&[] as &[&str], &["cat", "/proc/self/fd/0"]);
    finish(run.stdin(bare)).is_sandbox_refusal().says("standard input is a bare path (O_PATH)");
}

fn a_socket_without_a_peer_is_refused_and_one_with_a_peer_works(place: &Place) {
    let lone: OwnedFd = UnixDatagram::unbound().unwrap().into();
    let mut run = place.sandbox(&[] as &[&str], &["true"]);
    finish(run.stdin(lone)).is_sandbox_refusal().says("standard input is a socket that is not connected");
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::io::Write::write_all(&mut &ours, b"through a socket").unwrap();
    drop(ours);
    let mut run = place.sandbox(&[] as &[&str], &["cat"]);
    assert_eq!(finish(run.stdin(OwnedFd::from(theirs))).ok(), "through a socket");
}

fn a_closed_standard_descriptor_becomes_dev_null(place: &Place) {
    // Else whatever is opened first would land there, by chance.
    for redirect in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let mut run = place.command("sh");
        let script = format!(
            "\"$0\" sandbox run --work \"$1\" --report ../report -- sh -c 'cat; readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 >links' {redirect}"
        );
        run.args(["-c", &script]).arg(session::binary()).arg(&place.work).current_dir(&place.work);
        finish(&mut run).ok();
        let links = std::fs::read_to_string(place.work.join("links")).unwrap();
        assert!(links.contains("/dev/null"), "{redirect}: {links}");
        assert!(!links.contains("socket:"), "{redirect}: {links}");
    }
}

fn only_the_standard_descriptors_are_inherited(place: &Place) {
    let script = "exec 3</etc/hosts 4>x 7</ 63</etc/hosts; exec \"$@\"";
    let mut run = place.command("bash");
    run.args(["-c", script, "bash"]).arg(session::binary()).current_dir(&place.home);
    run.args(["sandbox", "run", "--work"]).arg(&place.work);
    run.args(["--", "python3", "-c", "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"]);
    // The fourth is the listing's own.
    assert_eq!(finish(&mut run).ok(), "['0', '1', '2', '3']");
}

fn a_file_that_was_opened_for_reading_is_not_opened_again_for_writing(place: &Place) {
    let file = place.write("file", "kept");
    let act = "echo x >/proc/self/fd/0";
    let mut run = place.sandbox(&[] as &[&str], &["sh", "-c", act]);
    finish(run.stdin(File::open(&file).unwrap())).is_refused();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    let mut run = place.sandbox(&[] as &[&str], &["sh", "-c", "cat /dev/stdin"]);
    assert_eq!(finish(run.stdin(File::open(&file).unwrap())).ok(), "kept");
    let mut control = place.command("sh");
    finish(control.args(["-c", act]).stdin(File::open(&file).unwrap())).ok();
}

fn dev_stderr_to_a_file_works(place: &Place) {
    let log = place.write("log", "");
    let open = || OpenOptions::new().append(true).open(&log).unwrap();
    let mut run =
        place.sandbox(&[] as &[&str], &["sh", "-c", "echo one >>/dev/stderr; echo two >>/dev/stdout"]);
    let status = run.stderr(open()).stdout(open()).status().unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(status.success(), "{said}");
    assert_eq!(said, "one\ntwo\n");
}

fn a_block_device_as_standard_input_is_refused(place: &Place) {
    let path = place.beside("disk");
    // A node of a loop device that nothing is attached to; the refusal comes before any read.
    let made = std::process::Command::new("mknod").arg(&path).args(["b", "7", "0"]).status().unwrap();
    assert!(made.success());
    let disk = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    let disk = disk.or_else(|_| rustix::fs::open(device(), OFlags::RDONLY, Mode::empty())).unwrap();
    let mut run = place.sandbox(&[] as &[&str], &["true"]);
    finish(run.stdin(disk)).is_sandbox_refusal().says("standard input is a block device");
}

/// A block device of this machine.
fn device() -> std::path::PathBuf {
    let name = std::fs::read_dir("/sys/block").unwrap().next().unwrap().unwrap().file_name();
    std::path::Path::new("/dev").join(name)
}
