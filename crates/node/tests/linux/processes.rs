//! What a process inside is and sees of others: nothing of the node's, no rights, its own user.

use crate::support::{Place, finish, tests};

tests![
    the_user_stays_the_caller_and_holds_no_capability,
    the_first_process_is_closed,
    only_the_runs_processes_are_seen,
    programs_with_set_id_bits_give_nothing,
    namespaces_are_the_runs_own,
    no_core_file_is_left,
    the_report_says_what_confined_it,
    ;
    as root:
    the_kernels_settings_cannot_be_written,
];

fn the_user_stays_the_caller_and_holds_no_capability(place: &Place) {
    let said = place.sh("id -u; id -g; grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status").ok();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some(place.user.uid().to_string().as_str()));
    assert_eq!(lines.next(), Some(place.user.gid().to_string().as_str()));
    let rest: Vec<&str> = lines.collect();
    let sets: Vec<&&str> = rest.iter().filter(|line| line.starts_with("Cap")).collect();
    assert_eq!(sets.len(), 5);
    assert!(sets.iter().all(|line| line.ends_with(":\t0000000000000000")), "{said}");
    assert!(rest.contains(&"NoNewPrivs:\t1") && rest.contains(&"Seccomp:\t2"), "{said}");
    // No other user's file is opened by a right that root has outside.
    place.sh("touch f && chown 1:1 f").fails().says_one_of(&["Invalid argument", "not permitted"]);
}

fn the_first_process_is_closed(place: &Place) {
    for act in [
        "cat /proc/1/environ",
        "head -c 1 /proc/1/mem",
        // Root sees which numbers are open, as the owner of the folder; not what they are.
        "readlink -v /proc/1/fd/0",
        "cat /proc/1/fd/0",
        "ls -L /proc/1/fd/3",
        "ls /proc/1/root/",
        "ls /proc/1/cwd/",
        "cat /proc/1/maps",
        "cat /proc/1/auxv",
        "readlink -v /proc/1/exe",
        "ls /proc/1/map_files/",
        "cat /proc/1/task/1/environ",
        "cat /proc/1/stack",
        "ls -l /proc/1/ns/net",
        "echo 1000 >/proc/1/oom_score_adj",
        "echo x >/proc/1/comm",
    ] {
        place.sh(&format!("LC_ALL=C {act}")).is_refused();
    }
    // The same of a process of its own is open.
    place.sh("cat /proc/$$/environ >/dev/null && ls /proc/$$/fd/ /proc/$$/root/").ok();
    place.sh("kill -9 1; kill -STOP 1; sleep 0.1; echo alive").says("alive");
}

fn only_the_runs_processes_are_seen(place: &Place) {
    let said = place.sh("cd /proc && echo [0-9]*").ok();
    assert_eq!(said, "1 2", "{said}");
    let control = place.outside("cd /proc && ls -d [0-9]* | wc -l").ok();
    assert!(control.parse::<u32>().unwrap() > 2);
    // The caller's process cannot be reached by its number.
    let mine = std::process::id();
    place.sh(&format!("kill -0 {mine}")).fails().says("No such process");
}

fn programs_with_set_id_bits_give_nothing(place: &Place) {
    // su, mount and the like are set-user-id on the host; inside the mount ignores the bit.
    let said = place.sh("find /usr/bin -perm -4000 | head -1").ok();
    assert!(!said.is_empty(), "no set-user-id program to try on this machine");
    let said = place.sh("grep -c nosuid /proc/self/mounts; grep -vc nosuid /proc/self/mounts");
    assert!(
        said.text().ends_with("\n0"),
        "a mount without nosuid: {}",
        place.sh("cat /proc/self/mounts").all()
    );
}

fn namespaces_are_the_runs_own(place: &Place) {
    let list = "for k in user mnt pid ipc uts cgroup net; do readlink /proc/self/ns/$k; done";
    let inside = place.sh(list).ok();
    let outside = place.outside(list).ok();
    assert_eq!((inside.lines().count(), outside.lines().count()), (7, 7));
    for (one, other) in inside.lines().zip(outside.lines()) {
        assert_ne!(one, other);
    }
    assert_eq!(place.sh("hostname").ok(), "sandbox");
    // Shared memory and queues of the host are not here.
    place.outside("ipcmk -Q >queue").ok();
    assert_eq!(place.sh("tail -n +2 /proc/sysvipc/msg | wc -l").ok(), "0");
    place.outside("ipcrm -q $(sed 's/.*: //' queue)").ok();
}

fn no_core_file_is_left(place: &Place) {
    let run = place.sh("ulimit -c; sh -c 'kill -SEGV $$'; echo $?; ls -A");
    let said = run.ok();
    assert!(said.contains("139") && !said.contains("core"), "{said}");
}

fn the_report_says_what_confined_it(place: &Place) {
    let run = place.sh_with(&["--json"], "true");
    run.ok();
    let mechanism = &run.report()["mechanism"];
    for fact in ["no_new_privileges", "filter", "no_capabilities"] {
        assert_eq!(mechanism[fact], true, "{mechanism}");
    }
    assert_eq!(mechanism["namespaces"].as_array().unwrap().len(), 7);
    assert!(mechanism["cgroup"].to_string().contains("run."), "{mechanism}");
    let report = place.beside("report");
    let option = format!("--report={}", report.display());
    place.sh_with(&[&option], "exit 3").exits(3);
    let text = std::fs::read_to_string(&report).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["ending"]["exited"], 3);
}

fn the_kernels_settings_cannot_be_written(place: &Place) {
    let before = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    for file in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
    ] {
        place.sh(&format!("echo 0 >{file}")).fails().says_one_of(&[
            "Permission denied",
            "Read-only file system",
            "Directory nonexistent",
            "nonexistent",
        ]);
    }
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
    // Nothing in /proc can be opened for writing but what belongs to a process of the run.
    let script = "import os
found = []
for folder, names, files in os.walk('/proc'):
    names[:] = [n for n in names if not n.isdigit() and n not in ('self', 'thread-self')]
    for name in files:
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK))
            found.append(os.path.join(folder, name))
        except OSError:
            pass
print(found)";
    assert_eq!(place.python(script).ok(), "[]");
    let mut control = place.command("sh");
    finish(control.args(["-c", "test -w /proc/sys/kernel/core_pattern"])).ok();
}
