//! How a run ends: every process of it, within a second, whatever the processes do and however the node goes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, Started, mark, processes_with, tests, wait_for};

tests![
    c058_an_interrupt_ends_every_process,
    a_killed_node_takes_every_process_with_it,
    a_hang_up_ends_every_process,
    when_the_starter_is_gone_a_killed_node_still_ends_it_all,
    what_is_left_in_the_background_ends_with_the_command,
    terminate_and_hang_up_reach_the_command,
    a_command_that_ignores_it_is_ended_by_the_second_word,
    a_command_that_ignores_sigterm_is_ended_after_the_grace,
    a_timeout_ends_it_and_says_so,
    an_interrupt_that_the_command_handles_is_its_own_affair,
    other_signals_reach_the_command,
    what_the_caller_ignores_does_not_end_it,
];

const SECOND: Duration = Duration::from_secs(1);

/// Processes that try to outlive the command: a daemon, a double fork, a new session, one that ignores signals.
fn clingers(mark: &str, then: &str) -> String {
    // Written so that the search does not count itself.
    let rest = mark.strip_prefix('9').unwrap();
    format!(
        "(trap '' TERM INT HUP; sleep {mark}) & \
         setsid sh -c \"trap '' TERM INT HUP; sleep {mark}\" & \
         nohup sleep {mark} >/dev/null 2>&1 & \
         python3 -c \"import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execvp('sleep', ['sleep', '{mark}'])\" & \
         while [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[9]{rest}') -lt 4 ]; do sleep 0.02; done; \
         echo ready; {then}"
    )
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn wait_ready(child: &mut Child) {
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.as_mut().unwrap());
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

#[track_caller]
fn gone_within(mark: &str, limit: Duration) {
    wait_for("processes of the run to end", limit, || processes_with(mark).is_empty().then_some(()));
}

fn started(place: &Place, options: &[&str], script: &str) -> Started {
    let mut child = place.start(&mut place.sandbox(options, &["sh", "-c", script]));
    wait_ready(&mut child);
    child
}

fn end(mut child: Started) -> (Option<i32>, String) {
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said)
}

fn c058_an_interrupt_ends_every_process(place: &Place) {
    let mark = mark();
    let child = started(place, &[], &clingers(&mark, "exec sleep 1000"));
    assert_eq!(processes_with(&mark).len(), 4);
    let start = Instant::now();
    kill_process(pid(&child), Signal::INT).unwrap();
    assert_eq!(end(child).0, Some(130));
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
}

fn a_killed_node_takes_every_process_with_it(place: &Place) {
    let mark = mark();
    let mut child = started(place, &[], &clingers(&mark, "exec sleep 1000"));
    kill_process(pid(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    gone_within(&mark, SECOND);
}

fn a_hang_up_ends_every_process(place: &Place) {
    let mark = mark();
    let child = started(place, &[], &clingers(&mark, "exec sleep 1000"));
    kill_process(pid(&child), Signal::HUP).unwrap();
    assert_eq!(end(child).0, Some(129));
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
}

fn when_the_starter_is_gone_a_killed_node_still_ends_it_all(place: &Place) {
    // A shell starts the node in the background and is killed: the node belongs to another parent then.
    let mark = mark();
    let binary = crate::support::session::binary();
    let script = format!("{} sandbox run -- sleep {mark} & echo $!; exec sleep {mark}9", binary.display());
    let mut shell = place.start(place.command("sh").args(["-c", &script]).current_dir(&place.work));
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let node = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    wait_for("the command", SECOND * 10, || (processes_with(&mark).len() >= 2).then_some(()));
    kill_process(pid(&shell), Signal::KILL).unwrap();
    shell.wait().unwrap();
    assert!(!processes_with(&mark).is_empty(), "a run outlives the shell that started it");
    kill_process(node, Signal::KILL).unwrap();
    gone_within(&mark, SECOND);
}

fn what_is_left_in_the_background_ends_with_the_command(place: &Place) {
    // C083: it returns at once although a process that is left holds the output.
    let mark = mark();
    let start = Instant::now();
    let run = place.sh(&clingers(&mark, "sleep 1001 & exit 5"));
    assert_eq!(run.exits(5), "ready");
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
    assert!(start.elapsed() < Duration::from_secs(20));
    let start = Instant::now();
    place.sh("sleep 600 & exit 5").exits(5);
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}

fn terminate_and_hang_up_reach_the_command(place: &Place) {
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let child = started(place, &[], "echo ready; exec sleep 1000");
        kill_process(pid(&child), signal).unwrap();
        assert_eq!(end(child).0, Some(status));
        // A command that cleans up on the signal has the time to.
        let child = started(
            place,
            &[],
            "trap 'echo bye >said; exit 7' TERM HUP QUIT; echo ready; while :; do sleep 0.05; done",
        );
        kill_process(pid(&child), signal).unwrap();
        assert_eq!(end(child).0, Some(7));
        assert_eq!(std::fs::read_to_string(place.work.join("said")).unwrap(), "bye\n");
    }
}

fn a_command_that_ignores_it_is_ended_by_the_second_word(place: &Place) {
    let mark = mark();
    let script = format!("trap '' INT TERM HUP; (sleep {mark}) & echo ready; while :; do sleep 0.05; done");
    let child = started(place, &[], &script);
    kill_process(pid(&child), Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!processes_with(&mark).is_empty(), "one interrupt is the command's own affair");
    let start = Instant::now();
    kill_process(pid(&child), Signal::INT).unwrap();
    assert_eq!(end(child).0, Some(137));
    assert!(start.elapsed() < SECOND);
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
}

fn a_command_that_ignores_sigterm_is_ended_after_the_grace(place: &Place) {
    let child = started(place, &[], "trap '' TERM; echo ready; while :; do sleep 0.05; done");
    let start = Instant::now();
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(end(child).0, Some(137));
    assert!((4..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

fn a_timeout_ends_it_and_says_so(place: &Place) {
    let mark = mark();
    let start = Instant::now();
    let run = place.sh_with(&["--timeout=2s"], &format!("setsid sleep {mark} & exec sleep 1000"));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    run.exits(143);
    run.says("limit: timeout 2s reached, the run was ended (more: --timeout)");
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
    place.sh_with(&["--timeout=20s"], "true").says_not("limit").ok();
}

fn an_interrupt_that_the_command_handles_is_its_own_affair(place: &Place) {
    let script = "trap 'echo caught' INT; echo ready; sleep 0.7; sleep 0.7; exit 4";
    let mut child = started(place, &[], script);
    kill_process(pid(&child), Signal::INT).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((end(child).0, said.as_str()), (Some(4), "caught\n"));
}

fn other_signals_reach_the_command(place: &Place) {
    let script = "trap 'echo one >>said' USR1; trap 'echo two >>said; exit 3' USR2; echo ready; while :; do sleep 0.02; done";
    let child = started(place, &[], script);
    kill_process(pid(&child), Signal::USR1).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    kill_process(pid(&child), Signal::USR2).unwrap();
    assert_eq!(end(child).0, Some(3));
    assert_eq!(std::fs::read_to_string(place.work.join("said")).unwrap(), "one\ntwo\n");
    // Stop and continue, as a shell does with a job.
    let mut child = started(place, &[], "echo ready; sleep 1; exit 6");
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim().chars().next().unwrap()
    };
    // Not while the shell starts the next program: with vfork it cannot stop before that one has.
    std::thread::sleep(Duration::from_millis(200));
    kill_process(pid(&child), Signal::TSTP).unwrap();
    wait_for("the node to stop with the command", SECOND * 5, || (state(child.id()) == 'T').then_some(()));
    kill_process(pid(&child), Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// `nohup oz0-node sandbox run …` goes on when the terminal hangs up, as the command alone would.
fn what_the_caller_ignores_does_not_end_it(place: &Place) {
    for (before, status) in [("trap '' HUP", Some(0)), ("true", Some(128 + 1))] {
        let mut run = place.command("sh");
        run.args(["-c", &format!("{before}; exec \"$@\""), "sh"]).arg(crate::support::session::binary());
        run.args(["sandbox", "run", "--work"]).arg(&place.work);
        run.args(["--", "sh", "-c", "echo ready; sleep 0.5; exec true"]);
        let mut child = place.start(&mut run);
        wait_ready(&mut child);
        kill_process(pid(&child), Signal::HUP).unwrap();
        assert_eq!(child.wait().unwrap().code(), status, "{before}");
    }
}
