//! Standard input, output, error and the exit status, as if there were no sandbox.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Place, finish, tests};

tests![
    exit_statuses_are_the_commands_own,
    a_signal_gives_128_and_its_number,
    the_sandboxs_own_statuses_are_told_apart,
    c125_a_program_that_is_found_outside_is_named_with_its_folder,
    a_binary_stream_passes_both_ways_unchanged,
    output_is_not_held_back,
    the_end_of_input_is_passed_on,
    an_output_that_is_closed_early_is_passed_on,
    a_reader_that_goes_away_ends_the_writer,
    c083_a_child_that_is_left_behind_does_not_hold_the_output,
    output_and_errors_stay_apart,
    an_ordinary_run_says_nothing_of_its_own,
    the_script_without_a_first_line_runs,
    what_the_caller_ignores_is_ignored_inside_and_nothing_is_blocked,
    the_file_creation_mask_is_the_callers,
];

fn exit_statuses_are_the_commands_own(place: &Place) {
    for status in [0, 1, 2, 3, 42, 63, 64, 77, 100, 124, 125, 126, 127, 128, 129, 137, 143, 200, 254, 255] {
        let run = place.sh(&format!("exit {status}"));
        run.exits(status);
        assert_eq!(run.stderr, "");
    }
}

fn a_signal_gives_128_and_its_number(place: &Place) {
    for signal in [1, 2, 3, 6, 9, 11, 13, 14, 15, 24, 31, 34, 64] {
        place.sh(&format!("kill -{signal} $$; sleep 5")).exits(128 + signal);
    }
}

fn the_sandboxs_own_statuses_are_told_apart(place: &Place) {
    place.write("work/plain", "text");
    place.write("work/broken", "#!/no/such/interpreter\n");
    place.outside("chmod 644 plain; chmod 755 broken; mkdir folder").ok();
    place.run(&[] as &[&str], &["no-such-command-here"]).exits(127);
    place
        .run(&[] as &[&str], &["no-such-command-here"])
        .says("oz0-node: no-such-command-here: no such command on the run's PATH");
    place.run(&[] as &[&str], &["./not-there"]).says("./not-there").exits(127);
    for program in ["./plain", "./folder", "/usr"] {
        place.run(&[] as &[&str], &[program]).says("cannot be executed").exits(126);
    }
    place.run(&[] as &[&str], &["./broken"]).fails().says("oz0-node: ./broken");
    place.run(&["--no-such-option"], &["true"]).exits(125);
    place.run(&["--allow=*"], &["true"]).exits(125);
}

fn c125_a_program_that_is_found_outside_is_named_with_its_folder(place: &Place) {
    let tools = place.make_folder("tools");
    place.write("tools/own-tool", "#!/bin/sh\necho tool\n");
    place.outside("chmod 755 ../tools/own-tool").ok();
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let run = |options: &[&str]| {
        let mut run = place.sandbox(options, &["own-tool"]);
        finish(run.env("PATH", &path))
    };
    let said = run(&["--env=PATH"]);
    said.exits(126);
    said.says(&format!(
        "oz0-node: own-tool: found at {0}/own-tool, which the run does not see: add --read {0}",
        tools.display()
    ));
    assert_eq!(run(&["--env=PATH", &format!("--read={}", tools.display())]).ok(), "tool");
}

fn a_binary_stream_passes_both_ways_unchanged(place: &Place) {
    const LENGTH: usize = 64 << 20;
    let mut run = place.sandbox(&[] as &[&str], &["cat"]);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Every byte value, in no period that a buffer's length divides.
    let byte = |at: usize| ((at * 131 + at / 251) & 0xff) as u8;
    let writer = std::thread::spawn(move || {
        for start in (0..LENGTH).step_by(1 << 20) {
            let part: Vec<u8> = (start..start + (1 << 20)).map(byte).collect();
            input.write_all(&part).unwrap();
        }
    });
    let mut at = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = output.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        assert!(buffer[..read].iter().enumerate().all(|(place, value)| *value == byte(at + place)));
        at += read;
    }
    writer.join().unwrap();
    assert_eq!(at, LENGTH);
    assert!(child.wait().unwrap().success());
}

fn output_is_not_held_back(place: &Place) {
    let mut run = place.sandbox(&[] as &[&str], &["sh", "-c", "echo now; read x; echo then"]);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "now\n");
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let start = Instant::now();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "now\nthen\n");
    assert!(start.elapsed() < Duration::from_millis(500));
    child.wait().unwrap();
}

fn the_end_of_input_is_passed_on(place: &Place) {
    let mut run = place.sandbox(&[] as &[&str], &["wc", "-c"]);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&[7; 100_000]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "100000");
}

fn an_output_that_is_closed_early_is_passed_on(place: &Place) {
    // The command closes its output and works on: its reader is told at once.
    let mut run = place.sandbox(&[] as &[&str], &["sh", "-c", "echo last; exec >&- 2>&-; sleep 1.5; exit 9"]);
    let mut child = place.start(&mut run);
    let start = Instant::now();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(start.elapsed() < Duration::from_millis(1200), "{:?}", start.elapsed());
    assert_eq!(said, "last\n");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

fn a_reader_that_goes_away_ends_the_writer(place: &Place) {
    let start = Instant::now();
    let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["yes"]));
    let mut first = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    // 141: SIGPIPE, as outside.
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert!(start.elapsed() < Duration::from_secs(5));
}

fn c083_a_child_that_is_left_behind_does_not_hold_the_output(place: &Place) {
    let start = Instant::now();
    let run = place.sh("(trap '' HUP TERM; sleep 600) & setsid sleep 600 & echo out; echo err >&2; exit 5");
    assert_eq!(run.exits(5), "out");
    assert_eq!(run.stderr, "err\n");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

fn output_and_errors_stay_apart(place: &Place) {
    let run = place.sh("echo out; echo err >&2");
    assert_eq!((run.ok().as_str(), run.stderr.as_str()), ("out", "err\n"));
}

fn an_ordinary_run_says_nothing_of_its_own(place: &Place) {
    let run = place.sh("true");
    assert_eq!((run.ok().as_str(), run.stderr.as_str()), ("", ""));
    // A command's failure alone is no reason to speak either.
    assert_eq!(place.sh("exit 1").stderr, "");
}

fn the_script_without_a_first_line_runs(place: &Place) {
    place.write("work/script", "echo \"ran $1\"\n");
    place.outside("chmod 755 script").ok();
    assert_eq!(place.run(&[] as &[&str], &["./script", "well"]).ok(), "ran well");
}

fn what_the_caller_ignores_is_ignored_inside_and_nothing_is_blocked(place: &Place) {
    // The node started by a shell that ignores signals, as nohup and `&` in a script do.
    let mut run = place.command("sh");
    run.args(["-c", "trap '' INT PIPE HUP; exec \"$@\"", "sh"]).arg(crate::support::session::binary());
    run.args(["sandbox", "run", "--work"]).arg(&place.work);
    run.args(["--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
    let said = finish(&mut run).ok();
    let sets: Vec<u64> =
        said.lines().map(|line| u64::from_str_radix(line[8..].trim(), 16).unwrap()).collect();
    // Signals 32 and 33 are the C library's own: it sets their actions when it needs them. SIGPIPE is taken from
    // every Rust program at its start, so the command gets the usual action; SIGHUP and SIGINT stay ignored.
    assert_eq!(sets.iter().map(|set| set & !(3 << 31)).collect::<Vec<_>>(), [0, 0b11], "{said}");
}

fn the_file_creation_mask_is_the_callers(place: &Place) {
    let binary = crate::support::session::binary();
    for (mask, mode) in [("022", "644"), ("077", "600"), ("002", "664")] {
        let script = format!(
            "umask {mask}; {} sandbox run --work {} -- sh -c 'rm -f f; touch f; stat -c %a f'",
            binary.display(),
            place.work.display()
        );
        assert_eq!(place.outside(&script).ok(), mode);
    }
}
