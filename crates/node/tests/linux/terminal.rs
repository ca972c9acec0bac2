//! A run at a terminal: job control inside, its size, and the caller's terminal given back.
//!
//! One thing no program can do: give the terminal's settings back after it was killed with SIGKILL. That a shell
//! does it for itself is why the last test asks the shell.

use std::ffi::OsStr;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::terminal::{Terminal, essence};
use crate::support::{Place, mark, processes_with, session, tests, wait_for};

tests![
    c061_an_interactive_shell_has_job_control,
    c061_the_size_follows_the_window,
    c059_the_terminal_is_given_back,
    c059_a_script_reads_from_the_terminal_after_the_run,
    c062_a_program_that_touches_the_terminal_goes_on,
    an_interrupt_key_gives_130,
    a_run_is_suspended_and_continued_by_an_outer_shell,
    nothing_is_typed_into_the_callers_terminal,
    the_runs_terminal_is_not_the_callers,
    without_a_terminal_on_all_three_there_is_none_inside,
    a_killed_node_leaves_the_outer_shell_usable,
];

/// A run at a terminal.
fn run(place: &Place, command: &[&str]) -> Terminal {
    let mut words: Vec<&OsStr> = vec![session::binary().as_os_str()];
    words.extend(["sandbox", "run", "--env", "PS1", "--work"].map(OsStr::new));
    words.push(place.work.as_os_str());
    words.push(OsStr::new("--"));
    words.extend(command.iter().map(OsStr::new));
    Terminal::start(place, &words)
}

/// A shell at a terminal, outside.
fn shell(place: &Place) -> Terminal {
    let mut shell = Terminal::start(place, &["bash", "--norc", "--noprofile", "-i"].map(OsStr::new));
    shell.expect("$ ");
    shell.send("PS1='out> '\r");
    shell.expect("out> ");
    shell.send(&format!("run='{} sandbox run'\r", session::binary().display()));
    shell.expect("\nout> ");
    shell
}

fn inner_bash(place: &Place) -> Terminal {
    let mut terminal = run(place, &["bash", "--norc", "--noprofile", "-i"]);
    // What is typed before its first prompt a shell may take for anything.
    terminal.expect("$ ");
    terminal.send("PS1='in> '\r");
    terminal.expect("\nin> ");
    terminal
}

fn c061_an_interactive_shell_has_job_control(place: &Place) {
    let mark = mark();
    let mut bash = inner_bash(place);
    assert!(!bash.screen().contains("job control"), "{}", bash.screen());
    bash.send(&format!("sleep {mark}\r"));
    wait_for("the sleep", std::time::Duration::from_secs(5), || {
        (processes_with(&mark).len() == 1).then_some(())
    });
    bash.send("\x1a");
    bash.expect("Stopped");
    bash.send("jobs; bg; echo $((20+3))\r");
    bash.expect("\n23");
    bash.send("fg\r");
    bash.expect(&format!("sleep {mark}"));
    bash.send("\x03");
    bash.expect("in> ");
    bash.send("echo status $?\r");
    bash.expect("status 130");
    bash.send("exit 5\r");
    assert_eq!(bash.end(), 5);
    assert!(!bash.screen().contains("no job control"));
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
}

fn c061_the_size_follows_the_window(place: &Place) {
    let mut bash = inner_bash(place);
    bash.send("stty size\r");
    bash.expect("24 80");
    bash.resize(43, 132);
    bash.send("sleep 0.3; stty size\r");
    bash.expect("43 132");
    bash.send("exit\r");
    assert_eq!(bash.end(), 0);
}

fn c059_the_terminal_is_given_back(place: &Place) {
    for command in ["true", "stty raw -echo; exit 3", "kill -9 $$", "kill -9 1; stty raw; kill -SEGV $$"] {
        let mut terminal = run(place, &["sh", "-c", &format!("read go; {command}")]);
        let before = essence(&terminal.settings());
        wait_for("raw mode while it runs", std::time::Duration::from_secs(5), || {
            (essence(&terminal.settings()) != before).then_some(())
        });
        terminal.send("\r");
        terminal.end();
        assert_eq!(essence(&terminal.settings()), before, "{command}");
    }
    // A limit ends it, or a signal to the node.
    let mut terminal = run(place, &["sh", "-c", "echo up; sleep 100"]);
    terminal.expect("up");
    kill_process(Pid::from_child(&terminal.child), Signal::TERM).unwrap();
    assert_eq!(terminal.end(), 143);
    assert!(essence(&terminal.settings()).contains("ECHO"));
}

fn c059_a_script_reads_from_the_terminal_after_the_run(place: &Place) {
    let script = format!(
        "{} sandbox run --work {} -- bash --norc -i <<<exit; read x; echo got:$x; \
         {} sandbox run --work {} -- bash --norc -ic exit; read y; echo again:$y",
        session::binary().display(),
        place.work.display(),
        session::binary().display(),
        place.work.display(),
    );
    let mut terminal = Terminal::start(place, &["bash", "-c", &script].map(OsStr::new));
    std::thread::sleep(std::time::Duration::from_millis(500));
    terminal.send("word\r");
    terminal.expect("got:word");
    std::thread::sleep(std::time::Duration::from_millis(700));
    terminal.send("other\r");
    terminal.expect("again:other");
    assert_eq!(terminal.end(), 0);
}

fn c062_a_program_that_touches_the_terminal_goes_on(place: &Place) {
    let script = "import termios; termios.tcsetattr(0, termios.TCSANOW, termios.tcgetattr(0)); print('said', input(), open('/dev/tty').isatty())";
    let mut terminal = run(place, &["/usr/bin/python3", "-c", script]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    terminal.send("hello\r");
    terminal.expect("said hello True");
    assert_eq!(terminal.end(), 0);
    let mut terminal = run(place, &["sh", "-c", "stty -a >/dev/null; stty sane; echo DO''NE"]);
    terminal.expect("DONE");
    assert_eq!(terminal.end(), 0);
}

fn an_interrupt_key_gives_130(place: &Place) {
    let mark = mark();
    let mut terminal = run(place, &["sh", "-c", &format!("echo up; exec sleep {mark}")]);
    terminal.expect("up");
    terminal.send("\x03");
    assert_eq!(terminal.end(), 130);
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
}

fn a_run_is_suspended_and_continued_by_an_outer_shell(place: &Place) {
    let mark = mark();
    let mut shell = shell(place);
    shell.send(&format!("$run -- sleep {mark}; echo ended $?\r"));
    wait_for("the run", std::time::Duration::from_secs(10), || {
        (processes_with(&mark).len() >= 3).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    shell.send("\x1a");
    shell.expect("Stopped");
    shell.send("echo usable $((40+2)); stty -a | tr ' ' '\\n' | grep -x icanon\r");
    shell.expect("usable 42");
    shell.expect("icanon");
    shell.send("fg\r");
    shell.expect("sleep");
    std::thread::sleep(std::time::Duration::from_millis(300));
    shell.send("\x03");
    shell.expect("out> ");
    shell.send("echo after $?\r");
    shell.expect("after 130");
    assert!(processes_with(&mark).is_empty(), "processes of the run are left");
    shell.send("exit\r");
    shell.end();
}

fn nothing_is_typed_into_the_callers_terminal(place: &Place) {
    let script = "import fcntl, os
refused = 0
for path in ['/dev/tty', '/proc/self/fd/0']:
    fd = os.open(path, os.O_RDWR)
    for request in (0x5412, 0x5412 | (1 << 32)):
        try:
            fcntl.ioctl(fd, request & 0xffffffff, b'x')
        except PermissionError:
            refused += 1
print('refused', refused)";
    let mut terminal = run(place, &["/usr/bin/python3", "-c", script]);
    terminal.expect("refused 4");
    assert_eq!(terminal.end(), 0);
}

fn the_runs_terminal_is_not_the_callers(place: &Place) {
    let mut terminal = run(place, &["sh", "-c", "tty; ls -1 /dev/pts; ps -o tty= 2>/dev/null; echo ok"]);
    terminal.expect("/dev/pts/0\r\n0\r\nptmx");
    terminal.expect("ok");
    assert_eq!(terminal.end(), 0);
}

fn without_a_terminal_on_all_three_there_is_none_inside(place: &Place) {
    place.sh("test ! -t 0 && test ! -t 1 && test ! -e /dev/pts/0 && ! (: </dev/tty) 2>/dev/null").ok();
    let script = format!(
        "{} sandbox run --work {} -- sh -c 'test -t 0 && test ! -t 1 && echo half' | cat",
        session::binary().display(),
        place.work.display()
    );
    let mut terminal = Terminal::start(place, &["sh", "-c", &script].map(OsStr::new));
    terminal.expect("half");
    assert_eq!(terminal.end(), 0);
}

fn a_killed_node_leaves_the_outer_shell_usable(place: &Place) {
    let mark = mark();
    let mut shell = shell(place);
    shell.send(&format!("$run -- sleep {mark}\r"));
    let all = wait_for("the run", std::time::Duration::from_secs(10), || {
        let all = processes_with(&mark);
        (all.len() >= 3).then_some(all)
    });
    // The node is the one whose parent is the shell.
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok())
    };
    let node = all.into_iter().find(|pid| parent(*pid) == Some(shell.child.id())).unwrap();
    kill_process(Pid::from_raw(node as i32).unwrap(), Signal::KILL).unwrap();
    shell.expect("Killed");
    shell.send("\r");
    shell.send("echo usable $((40+2))\r");
    shell.expect("usable 42");
    wait_for("its end", std::time::Duration::from_secs(1), || processes_with(&mark).is_empty().then_some(()));
    shell.send("exit\r");
    shell.end();
}
