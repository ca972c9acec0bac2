//! Which files a run reads and writes, and what is left of them: each refusal beside a control outside.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::support::{Outcome, Place, exists, finish, tests};

tests![
    c001_the_most_specific_path_wins_in_every_order,
    c002_a_grant_of_what_is_not_there_is_refused_by_name,
    c007_a_single_file_is_granted_and_its_neighbours_are_not,
    c007_each_type_of_file_is_granted_or_refused_by_name,
    c023_rename_and_link_across_folders_of_one_writable_root,
    c023_rename_across_roots_fails,
    c025_paths_through_links_work_under_both_names,
    c026_other_names_of_a_closed_file_stay_closed,
    c028_a_granted_file_cannot_be_cut,
    c067_tmp_is_private_and_gone_afterwards,
    a_folder_below_var_tmp_can_be_worked_in,
    c071_tmpdir_is_the_runs_own_whatever_the_caller_has,
    c143_home_and_what_is_not_granted_is_closed,
    writes_outside_are_refused,
    temp_and_home_leave_nothing,
    the_runs_own_memory_is_bounded_and_says_enospc,
    a_grant_around_the_data_directory_is_refused,
    two_runs_do_not_see_each_others_temp,
    owners_stay_the_callers,
    ;
    as root:
    the_data_directory_is_found_under_another_name_too,
    the_data_directory_is_covered_inside_the_systems_folders,
    nothing_secret_of_etc_is_inside,
    a_device_and_another_file_system_are_no_way_out,
];

fn c001_the_most_specific_path_wins_in_every_order(place: &Place) {
    let open = place.make_folder("closed/open");
    let project = place.make_folder("closed/open/project");
    let read = format!("--read={}", open.display());
    let write = format!("--write={}", project.display());
    let other = place.write("closed/other", "other");
    place.write("closed/open/readable", "readable");
    // Three entries: the working folder, the readable one and the writable one below it, in all six orders.
    let work = format!("--work={}", place.work.display());
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (number, order) in orders.into_iter().enumerate() {
        let options: Vec<&str> = order.iter().map(|at| [&work, &read, &write][*at].as_str()).collect();
        let run = |script: &str| {
            let mut run = place.node();
            run.args(["sandbox", "run"]).args(&options).args(["--", "sh", "-c", script]);
            finish(&mut run)
        };
        let file = project.join(format!("made{number}"));
        run(&format!("touch {} && cat {}/readable", file.display(), open.display())).ok();
        assert!(file.is_file());
        run(&format!("touch {}/x", open.display())).is_refused();
        run(&format!("cat {}", other.display())).fails().says("No such file");
    }
    place.outside(&format!("touch {}/x && cat {}", open.display(), other.display())).ok();
}

fn c002_a_grant_of_what_is_not_there_is_refused_by_name(place: &Place) {
    let absent = place.work.join("docs/specs");
    let option = format!("--write={}", absent.display());
    let refused = place.sh_with(&[&option], "true");
    refused.is_sandbox_refusal().says(&format!("--write {}: no such file or folder", absent.display()));
    refused.says(&format!("{} is missing", place.work.join("docs").display()));
    assert!(!place.work.join("docs").exists());
    place.outside("mkdir -p docs/specs").ok();
    place.sh_with(&[&option], "echo x >docs/specs/a").ok();
}

fn c007_a_single_file_is_granted_and_its_neighbours_are_not(place: &Place) {
    let file = place.write("test.log", "lines");
    place.write("neighbour", "secret");
    let cat = format!("cat {}", file.display());
    place.sh(&cat).fails();
    let option = format!("--read={}", file.display());
    assert_eq!(place.sh_with(&[&option], &cat).ok(), "lines");
    place.sh_with(&[&option], &format!("cat {}", place.beside("neighbour").display())).fails();
    place.sh_with(&[&option], &format!("echo x >{}", file.display())).is_refused();
    let option = format!("--write={}", file.display());
    place.sh_with(&[&option], &format!("echo more >>{}", file.display())).ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), "linesmore\n");
}

fn c007_each_type_of_file_is_granted_or_refused_by_name(place: &Place) {
    let fifo = place.beside("fifo");
    place.outside(&format!("mkfifo {}", fifo.display())).ok();
    let socket = place.beside("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let target = place.write("target", "through the link");
    let link = place.beside("link");
    symlink(&target, &link).unwrap();

    let grant =
        |path: &std::path::Path, script: &str| place.sh_with(&[format!("--read={}", path.display())], script);
    // A FIFO: whoever waits at its other end is the caller's choice.
    let told = place.start(place.command("sh").args(["-c", &format!("echo told >{}", fifo.display())]));
    assert_eq!(grant(&fifo, &format!("timeout 10 cat {}", fifo.display())).ok(), "told");
    drop(told.wait_with_output());
    grant(&socket, "true").is_sandbox_refusal().says("--allow-socket");
    assert_eq!(grant("/dev/null".as_ref(), "cat /dev/null && echo read").ok(), "read");
    let both = format!("cat {} && cat {}", link.display(), target.display());
    assert_eq!(grant(&link, &both).ok(), "through the linkthrough the link");
}

fn c023_rename_and_link_across_folders_of_one_writable_root(place: &Place) {
    place.outside("mkdir a b && touch a/f a/g").ok();
    place
        .python("import os; os.rename('a/f','b/f'); os.link('a/g','b/g'); os.symlink('b/f','s'); os.replace('b/g','a/h')")
        .ok();
    assert!(place.work.join("b/f").exists() && place.work.join("a/h").exists());
}

fn c023_rename_across_roots_fails(place: &Place) {
    let other = place.make_folder("other");
    place.write("work/f", "");
    let option = format!("--write={}", other.display());
    let script = format!("import os; os.rename('f','{}/f')", other.display());
    place
        .run(&[option.as_str()], &["/usr/bin/python3", "-c", &script])
        .fails()
        .says_one_of(&["Invalid cross-device link", "Permission denied"]);
    // mv copies and removes: that is allowed, both are writable.
    place.sh_with(&[&option], &format!("mv f {}/f", other.display())).ok();
    assert!(other.join("f").exists());
}

fn c025_paths_through_links_work_under_both_names(place: &Place) {
    let real = place.make_folder("mnt/r/home/u/p");
    place.write("mnt/r/home/u/file", "seen");
    let linked = place.beside("h");
    symlink("mnt/r/home/u", &linked).unwrap();
    let mut run = place.node();
    run.args(["sandbox", "run", "--work"]).arg(linked.join("p"));
    run.arg("--read").arg(linked.join("file"));
    let script = format!(
        "touch here && cat {} && test -e {} && test -e {} && cd {} && pwd",
        linked.join("file").display(),
        linked.join("p/here").display(),
        real.join("here").display(),
        linked.join("p").display(),
    );
    run.args(["--", "sh", "-c", &script]);
    let said = finish(&mut run).ok();
    assert_eq!(said, format!("seen{}", linked.join("p").display()));
    assert!(real.join("here").exists());
}

fn c026_other_names_of_a_closed_file_stay_closed(place: &Place) {
    let secret = place.write("secret", "canary-026");
    let path = secret.display();
    let attempts = [
        format!("cat /proc/self/root{path}"),
        format!("cat /proc/1/root{path}"),
        "ls /proc/1/root/home".into(),
        "cat /proc/self/cwd/../secret".into(),
        "cat ../secret".into(),
        "ls /proc/1/cwd/".into(),
        format!("cat /proc/1/fd/*{path}"),
        "cat /dev/fd/3".into(),
        "cat /proc/self/fd/3".into(),
        format!("$(ls /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* 2>/dev/null | head -1) {path}"),
    ];
    for attempt in &attempts {
        place.sh(attempt).fails().says_not("canary-026");
    }
    assert_eq!(place.outside(&format!("cat /proc/self/root{path} && cat ../secret")).ok().len(), 20);
    // A descriptor that the caller left open.
    let leaving = format!("exec 3<{path}; \"$@\"");
    let mut run = place.command("sh");
    run.args(["-c", &leaving, "sh"]).arg(crate::support::session::binary());
    run.args(["sandbox", "run", "--work"]).arg(&place.work).args(["--", "cat", "/dev/fd/3"]);
    finish(&mut run).fails().says_not("canary-026");
}

fn c028_a_granted_file_cannot_be_cut(place: &Place) {
    let file = place.write("read-only", "kept");
    let script = format!(
        "import os, ctypes
path = b'{}'
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, result):
    assert result == -1, name
    assert ctypes.get_errno() in (1, 13, 16, 30, 9, 22), (name, ctypes.get_errno())
refused('truncate', libc.truncate(path, ctypes.c_long(0)))
refused('open', libc.open(path, os.O_RDONLY | os.O_TRUNC))
fd = os.open(path, os.O_RDONLY)
refused('ftruncate', libc.ftruncate(fd, ctypes.c_long(0)))
refused('fallocate', libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(2)))
refused('chmod', libc.chmod(path, 0o777))
refused('unlink', libc.unlink(path))
refused('utimes', libc.utimes(path, None))
refused('setxattr', libc.setxattr(path, b'user.x', b'y', ctypes.c_size_t(1), 0))
print('all refused')
",
        file.display()
    );
    let option = format!("--read={}", file.display());
    let run = place.run(&[option.as_str()], &["/usr/bin/python3", "-c", &script]);
    assert_eq!(run.ok(), "all refused");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    place.outside(&format!("truncate -s 0 {}", file.display())).ok();
}

fn c067_tmp_is_private_and_gone_afterwards(place: &Place) {
    let name = format!("oz0-suite-private-{}", std::process::id());
    let script = format!(
        "echo x >/tmp/{name} && mktemp && mktemp -p /tmp && mktemp -p /var/tmp && \
         python3 -c 'import tempfile; print(tempfile.gettempdir())'"
    );
    let said = place.sh(&script).ok();
    assert!(said.ends_with("/tmp"), "{said}");
    assert!(!exists(format!("/tmp/{name}").as_ref()));
    place.sh(&format!("test ! -e /tmp/{name}")).ok();
}

fn c071_tmpdir_is_the_runs_own_whatever_the_caller_has(place: &Place) {
    let long = "x".repeat(120);
    for value in ["/nonexistent", "", "~/scratch", "/tmp/with space", long.as_str()] {
        let mut run = place.sandbox(
            &["--env", "TMPDIR"],
            &["sh", "-c", "test -d \"$TMPDIR\" && test ${#TMPDIR} -le 20 && mktemp && mktemp -d"],
        );
        finish(run.env("TMPDIR", value)).ok();
    }
}

fn c143_home_and_what_is_not_granted_is_closed(place: &Place) {
    let canary = fs::canonicalize(place.write("home/secret.txt", "canary-143")).unwrap();
    let read = format!("cat {}", canary.display());
    place.sh(&read).fails().says_not("canary-143");
    place.outside(&read).ok();
    let mut explain = place.node();
    explain.args(["sandbox", "explain", "--work"]).arg(&place.work);
    let said = finish(&mut explain).ok();
    assert!(said.lines().any(|line| line == "reads        the system; home: no"), "{said}");
    let home = |option: &str, path: &std::path::Path| {
        let mut explain = place.node();
        explain
            .args(["sandbox", "explain", "--data-dir=/nowhere", "--work"])
            .arg(&place.work)
            .arg(option)
            .arg(path);
        finish(&mut explain).ok()
    };
    assert!(home("--read", &place.home).contains("home: yes"));
    assert!(home("--read", &canary).contains("home: no, but for what is named here"));
    // Listing the places where other people's files lie shows none of them.
    for folder in ["/home", "/root", "/srv", "/mnt", "/media", "/boot"] {
        place.sh(&format!("ls -A {folder} 2>/dev/null | grep .")).fails();
    }
}

fn writes_outside_are_refused(place: &Place) {
    let other = place.make_folder("other");
    place.write("other/file", "kept");
    let option = format!("--read={}", other.display());
    for act in
        ["touch new", "echo x >file", "rm file", "mv file file2", "mkdir d", "ln file l", "chmod 600 file"]
    {
        let script = format!("cd {} && {act}", other.display());
        place.sh_with(&[&option], &script).is_refused();
    }
    for path in ["/usr/x", "/etc/x", "/etc/passwd", "/x", "/run/x", "/var/x", "/dev/x", "/sys/fs/cgroup/x"] {
        place.sh(&format!("echo x >{path}")).is_refused();
    }
    assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "kept");
    place.outside(&format!("cd {} && touch new && mv file file2", other.display())).ok();
}

fn temp_and_home_leave_nothing(place: &Place) {
    let before = temp_entries();
    place.sh("echo x >$HOME/.cache && mkdir -p $TMPDIR/deep/er && echo y >/dev/shm/z").ok();
    let left: Vec<String> = temp_entries().into_iter().filter(|name| !before.contains(name)).collect();
    let ours: Vec<&String> = left.iter().filter(|name| !name.starts_with("oz0-suite-")).collect();
    assert!(ours.iter().all(|name| !name.contains("deep")), "{ours:?}");
    assert!(!place.home.join(".cache").exists() && !exists("/dev/shm/z".as_ref()));
}

fn temp_entries() -> Vec<String> {
    let entries = fs::read_dir("/tmp").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

fn the_runs_own_memory_is_bounded_and_says_enospc(place: &Place) {
    let fill = "dd if=/dev/zero of=/tmp/big bs=1M count=200";
    let run = place.sh_with(&["--memory=64M", "--json"], fill);
    assert_ne!(run.status, Some(0), "{}", run.all());
    let full = run.stderr.contains("No space left on device");
    // Either the file system is full first, or the cgroup that counts its pages.
    let report = run.report();
    let limits = report["hits"].to_string();
    assert!(full || limits.contains("memory"), "{}", run.all());
    place.sh_with(&["--memory=64M"], "dd if=/dev/zero of=/tmp/big bs=1M count=20 2>/dev/null").ok();
}

fn a_grant_around_the_data_directory_is_refused(place: &Place) {
    let data = place.make_folder("grant/data");
    place.make_folder("grant/data/identity");
    place.write("grant/data/identity/node.key", "canary-key");
    let around = place.beside("grant");
    let inside = data.join("identity");
    for option in ["--read", "--write", "--work"] {
        for path in [&around, &data, &inside] {
            let mut run = place.node();
            run.args(["sandbox", "run", option]).arg(path);
            run.arg("--data-dir").arg(&data).args(["--", "true"]);
            finish(&mut run).is_sandbox_refusal().says("the node's data directory").says("--data-dir");
        }
    }
    // A relative one is meant from where the caller stands.
    let mut run =
        place.sandbox(&[format!("--read={}", around.display()).as_str(), "--data-dir=grant/data"], &["true"]);
    finish(&mut run).is_sandbox_refusal().says("the node's data directory");
    let link = place.beside("link");
    symlink("grant/data", &link).unwrap();
    let options = [format!("--data-dir={}", link.display()), format!("--read={}", around.display())];
    place.sh_with(&options, "true").is_sandbox_refusal();
    let other = format!("--data-dir={}", place.beside("elsewhere").display());
    let read = format!("--read={}", around.display());
    place.sh_with(&[other, read], &format!("cat {}/identity/node.key", data.display())).ok();
}

fn two_runs_do_not_see_each_others_temp(place: &Place) {
    let mut first = place.sandbox(&[] as &[&str], &["sh", "-c", "echo x >/tmp/first; touch ready; read x"]);
    let mut first = first.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let ready = place.work.join("ready");
    crate::support::wait_for("the first run", std::time::Duration::from_secs(10), || {
        ready.exists().then_some(())
    });
    place.sh("test ! -e /tmp/first").ok();
    drop(first.stdin.take());
    first.wait().unwrap();
}

fn owners_stay_the_callers(place: &Place) {
    place.sh("mkdir made && touch made/file && git init -q repository").ok();
    for path in ["made", "made/file", "repository/.git/HEAD"] {
        let metadata = fs::symlink_metadata(place.work.join(path)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (place.user.uid(), place.user.gid()), "{path}");
    }
    // C134: git outside works on it without safe.directory.
    place.outside("git -C repository status").ok();
}

/// A script in a mount namespace of the test's own; nothing of it is seen elsewhere.
fn apart(place: &Place, script: &str) -> Outcome {
    let mut unshare = Command::new("/usr/bin/unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]);
    unshare.arg(crate::support::session::binary()).env("HOME", &place.home).current_dir(&place.work);
    finish(&mut unshare)
}

fn the_data_directory_is_found_under_another_name_too(place: &Place) {
    let data = place.make_folder("data");
    place.write("data/key", "canary-key");
    let alias = place.make_folder("alias/here");
    let below = place.make_folder("below");
    let (data, alias, below) = (data.display(), alias.display(), below.display());
    let around = place.beside("alias");
    let around = around.display();
    let bind = format!("mount --bind {data} {alias}; cat {alias}/key");
    apart(place, &bind).ok();
    let run = format!("{bind}; \"$1\" sandbox run --data-dir {data}");
    apart(place, &format!("{run} --read {alias} -- true")).exits(125);
    apart(place, &format!("{run} --read {around} -- true")).says("the node's data directory").exits(125);
    // The folder that holds the data directory, mounted elsewhere.
    let parent = place.beside("");
    let parent = parent.display();
    let bind = format!("mount --bind {parent} {below}; cat {below}/data/key");
    apart(place, &bind).ok();
    let run = format!("{bind} >/dev/null; \"$1\" sandbox run --data-dir {data} --read {below}");
    apart(place, &format!("{run} -- cat {below}/data/key")).says_not("canary-key").exits(125);
}

fn the_data_directory_is_covered_inside_the_systems_folders(place: &Place) {
    let data = place.make_folder("data");
    place.write("data/key", "canary-key");
    let mount = format!(
        "mkdir -p {0}/x && mount -t tmpfs none /opt && mkdir /opt/data /opt/other && cp {0}/key /opt/data/ && \
         echo seen >/opt/other/file",
        data.display()
    );
    let run = format!("{mount}; \"$1\" sandbox run --data-dir /opt/data --work {}", place.work.display());
    apart(place, &format!("{run} -- cat /opt/other/file")).ok();
    for act in ["cat /opt/data/key", "ls /opt/data", "touch /opt/data/x"] {
        apart(place, &format!("{run} -- sh -c '{act}'")).says_not("canary-key").is_refused();
    }
}

fn nothing_secret_of_etc_is_inside(place: &Place) {
    for file in
        ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private"]
    {
        place.sh(&format!("cat {file} || ls {file}")).fails();
    }
    // What root alone may read is not among what was copied or bound.
    let listed = place.sh("find /etc ! -perm -004 ! -type l").ok();
    assert_eq!(listed, "");
    place.outside("cat /etc/shadow").ok();
}

fn a_device_and_another_file_system_are_no_way_out(place: &Place) {
    place.sh("mknod disk b 254 0").is_refused();
    place.sh("mount -t tmpfs none /tmp").fails();
    // A device node that lies in the workspace does not open.
    place.outside("mknod null c 1 3 && echo x >null").ok();
    place.sh("echo x >null").is_refused();
}

/// Inside, /var/tmp is a link to the run's own TEMP, unless something below it is granted.
fn a_folder_below_var_tmp_can_be_worked_in(place: &Place) {
    let script = format!(
        "d=$(mktemp -d /var/tmp/oz0-suite-XXXXXX); {} sandbox run --work $d -- sh -c 'touch a; mktemp >/dev/null'; ls $d; rm -r $d",
        crate::support::session::binary().display()
    );
    assert_eq!(place.outside(&script).ok(), "a");
}
