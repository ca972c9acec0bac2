//! Memory, tasks, CPU and time: held for all processes together, and named when one is reached.

use std::time::{Duration, Instant};

use crate::support::{Place, finish, tests};

tests![
    c080_memory_is_resident_use_not_address_space,
    c082_one_process_above_the_limit,
    c082_several_processes_together,
    c082_a_grandchilds_end_is_told_though_the_command_succeeds,
    tasks_are_counted_together,
    cpu_time_is_capped,
    a_run_reads_its_own_limits,
    a_limit_that_was_not_reached_is_not_named,
    a_run_cannot_change_its_limits;
    as root: a_real_time_callers_run_is_not_real_time,
];

const TAKE: &str = "x = bytearray(int(__import__('sys').argv[1]) << 20); print(len(x) >> 20)";

fn c080_memory_is_resident_use_not_address_space(place: &Place) {
    // 8 GiB reserved and not used.
    let reserve = "import mmap; m = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000); print('ok')";
    assert_eq!(place.run(&["--memory=128M"], &["/usr/bin/python3", "-c", reserve]).ok(), "ok");
}

fn c082_one_process_above_the_limit(place: &Place) {
    let run = place.run(&["--memory=256M"], &["/usr/bin/python3", "-c", TAKE, "512"]);
    run.exits(137);
    run.says("limit: memory 256M reached (peak 256M").says("--memory raises it");
    assert_eq!(place.run(&["--memory=256M"], &["/usr/bin/python3", "-c", TAKE, "128"]).ok(), "128");
    assert_eq!(place.run(&["--memory=1G"], &["/usr/bin/python3", "-c", TAKE, "512"]).ok(), "512");
}

fn c082_several_processes_together(place: &Place) {
    // Each far below the limit, together above it.
    let script = format!(
        "all=; for i in 1 2 3 4; do python3 -c \"{TAKE}; import time; time.sleep(3)\" 100 & all=\"$all $!\"; done; \
         for p in $all; do wait $p || failed=1; done; exit ${{failed:-0}}"
    );
    let run = place.sh_with(&["--memory=256M"], &script);
    run.fails().says("limit: memory 256M reached");
    let script = script.replace(" 100 &", " 20 &");
    place.sh_with(&["--memory=256M"], &script).says_not("limit:").ok();
}

fn c082_a_grandchilds_end_is_told_though_the_command_succeeds(place: &Place) {
    let script = format!("python3 -c \"{TAKE}\" 512; echo child $?; exit 0");
    let run = place.sh_with(&["--memory=200M", "--json"], &script);
    assert!(run.ok().ends_with("child 137"), "{}", run.all());
    let report = run.report();
    let hit = &report["hits"][0];
    assert_eq!(hit["limit"], "memory", "{report}");
    assert!(report["usage"]["memory_kills"].as_u64() >= Some(1), "{report}");
    assert!(report["usage"]["memory_peak"].as_u64() > Some(150 << 20), "{report}");
    let run = place.sh_with(&["--memory=200M"], &script);
    run.says("limit: memory 200M reached").ok();
}

fn tasks_are_counted_together(place: &Place) {
    let script = "
import os, time
made = 0
for i in range(20):
    try:
        if os.fork() == 0:
            time.sleep(2); os._exit(0)
        made += 1
    except BlockingIOError:
        break
print(made)
raise SystemExit(made < 20)";
    let run = place.run(&["--processes=8"], &["/usr/bin/python3", "-c", script]);
    run.fails().says("limit: processes 8").says("--processes raises it");
    // The run's first process and the command are two of them.
    assert_eq!(run.text(), "6");
    assert_eq!(place.run(&["--processes=64"], &["/usr/bin/python3", "-c", script]).ok(), "20");
    // Threads count too.
    let threads = "
import threading, time
try:
    for i in range(20):
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
except RuntimeError:
    raise SystemExit(3)";
    place.run(&["--processes=8"], &["/usr/bin/python3", "-c", threads]).says("limit: processes 8").exits(3);
}

fn cpu_time_is_capped(place: &Place) {
    // Two busy processes under a fifth of a core: two seconds of wall time give at most about 0.4 s.
    let script = "
import os, time
child = os.fork()
end = time.monotonic() + 2
while time.monotonic() < end: pass
if child == 0: os._exit(0)
os.wait()
t = os.times()
print(t.user + t.system + t.children_user + t.children_system)
raise SystemExit(1)";
    let run = place.run(&["--cpu=0.2"], &["/usr/bin/python3", "-c", script]);
    let used: f64 = run.exits(1).parse().unwrap();
    assert!(used < 0.7, "{used} s of CPU time in about 2 s");
    run.says("limit: cpu 0.2").says("--cpu raises it");
    // The control, on a machine that may be busy with other tests.
    let free = (0..5).map(|_| place.run(&["--cpu=2"], &["/usr/bin/python3", "-c", script]));
    let most = free.map(|run| run.says_not("limit: cpu").exits(1).parse::<f64>().unwrap());
    assert!(most.into_iter().any(|free| free > used + 0.3), "the cap made no difference to {used} s");
}

fn a_run_reads_its_own_limits(place: &Place) {
    let script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; \
                  cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null; true";
    let said = place.sh_with(&["--memory=100M", "--processes=77"], script).ok();
    assert_eq!(said, format!("{}\n77", 100 << 20));
    // Nothing else of /sys is there.
    assert_eq!(place.sh("ls /sys; ls /sys/fs").ok(), "fs\ncgroup");
}

fn a_limit_that_was_not_reached_is_not_named(place: &Place) {
    let run = place.sh_with(&["--json", "--timeout=60s", "--memory=512M"], "exit 3");
    run.exits(3);
    assert_eq!(run.report()["hits"], serde_json::json!([]));
    assert!(run.report()["cause"].is_null());
    let start = Instant::now();
    place.sh("exit 3").says_not("limit").exits(3);
    assert!(start.elapsed() < Duration::from_secs(5));
}

fn a_run_cannot_change_its_limits(place: &Place) {
    for file in [
        "memory/memory.limit_in_bytes",
        "memory.max",
        "pids/pids.max",
        "pids.max",
        "pids/cgroup.procs",
        "cgroup.procs",
    ] {
        let script = format!("test -e /sys/fs/cgroup/{file} || exit 9; echo 1 >/sys/fs/cgroup/{file}");
        let run = place.sh(&script);
        if run.status != Some(9) {
            run.is_refused();
        }
    }
    place.sh("mkdir /sys/fs/cgroup/memory/x || mkdir /sys/fs/cgroup/x").is_refused();
    assert!(
        place
            .sh("ls /sys/fs/cgroup/memory/cgroup.procs /sys/fs/cgroup/cgroup.procs")
            .text()
            .contains("procs")
    );
}

/// No cap on CPU time holds a real-time process.
fn a_real_time_callers_run_is_not_real_time(place: &Place) {
    let class = "chrt --pid $$ | grep -c SCHED_OTHER";
    let mut command = place.command("/usr/bin/chrt");
    command.args(["--fifo", "1"]).arg(place.node().get_program()).args(["sandbox", "run", "--work"]);
    command.arg(&place.work).args(["--", "/bin/sh", "-c", class]);
    assert_eq!(finish(&mut command).ok(), "1");
    assert_eq!(place.outside("chrt --fifo 1 sh -c 'chrt --pid $$ | grep -c SCHED_FIFO'").ok(), "1");
    // Nor can it become one, though the caller could.
    place.sh("chrt --fifo 1 true").is_refused();
    place.outside("chrt --fifo 1 true").ok();
}
