//! What a launch costs: `cargo bench -p oz0-node --bench launch [-- ROUNDS]`.
//!
//! In one run and interleaved, so that a machine that speeds up or slows down does it to all alike: a plain fork
//! and exec of a static program, Debian's bubblewrap, and `oz0-node sandbox run`. Bubblewrap gets the same
//! namespaces, the binds that the node's own plan names, a /proc, a /dev, a tmpfs and the same system-call filter;
//! it has no Landlock, no cgroup and no proxy. What cannot be measured here is said and left out.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot go on stops, and prints")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oz0_sandbox::backend::linux::seccomp;

const NODE: &str = env!("CARGO_BIN_EXE_oz0-node");
const PARALLEL: usize = 8;

/// One way to start the same program.
struct Subject {
    name: &'static str,
    words: Vec<String>,
    /// What it reads its filter from, as standard input.
    filter: Option<PathBuf>,
}

impl Subject {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdout(Stdio::null());
        match &self.filter {
            Some(filter) => command.stdin(File::open(filter).unwrap()),
            None => command.stdin(Stdio::null()),
        };
        command
    }

    fn launch(&self) -> Duration {
        let mut command = self.command();
        let began = Instant::now();
        let status = command.status().unwrap();
        let took = began.elapsed();
        assert!(status.success(), "{}: {status}", self.name);
        took
    }
}

/// Measure.
pub fn main() {
    // Cargo adds `--bench`.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(200usize);
    let top = tempfile::Builder::new().prefix("oz0-launch").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let work = top.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let program = static_true(&work);
    let mut subjects = vec![Subject { name: "fork and exec", words: vec![text(&program)], filter: None }];
    match bubblewrap(top.path(), &work, &program) {
        Ok(subject) => subjects.push(subject),
        Err(reason) => println!("bubblewrap is not measured: {reason}"),
    }
    let mut words: Vec<String> = [NODE, "sandbox", "run", "--work"].map(str::to_owned).into();
    words.extend([text(&work), "--".into(), text(&program)]);
    subjects.push(Subject { name: "oz0-node sandbox run", words, filter: None });

    one_at_a_time(&subjects, rounds);
    in_parallel(&subjects, rounds);
    memory(&work);
    steps(subjects.last().unwrap(), top.path());
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A program that only ends, linked statically, so that what is measured is the launch.
fn static_true(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("true.c"), folder.join("true"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let status =
        Command::new("cc").args(["-O2", "-static", "-o"]).args([&program, &source]).status().unwrap();
    assert!(status.success(), "cc: {status}");
    program
}

/// The profile that a careful person would write by hand for the same run.
fn bubblewrap(top: &Path, work: &Path, program: &Path) -> Result<Subject, String> {
    let version = Command::new("bwrap").arg("--version").output();
    let version = version.map_err(|error| format!("bwrap: {error} (Debian: apt-get install bubblewrap)"))?;
    println!("{}", String::from_utf8_lossy(&version.stdout).trim());
    let plan = Command::new(NODE)
        .args(["sandbox", "run", "--plan", "--json", "--work"])
        .args([work, Path::new("--"), program])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let plan: serde_json::Value =
        serde_json::from_slice(&plan.stdout).map_err(|_| "the node gives no plan here".to_owned())?;
    let mut words: Vec<String> = "bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup \
         --unshare-net --hostname sandbox --die-with-parent --new-session --clearenv --setenv PATH /usr/bin:/bin \
         --tmpfs /tmp --proc /proc --dev /dev --seccomp 0"
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    for step in plan["plan"]["tree"].as_array().unwrap() {
        let path = |step: &serde_json::Value, name: &str| step[name].as_str().unwrap().to_owned();
        if let Some(bind) = step.get("bind").filter(|bind| bind["devices"] == false) {
            let option = if bind["access"] == "write" { "--bind" } else { "--ro-bind" };
            words.extend([option.to_owned(), path(bind, "source"), path(bind, "target")]);
        } else if let Some(link) = step.get("link").filter(|link| !path(link, "path").starts_with("/dev")) {
            words.extend(["--symlink".to_owned(), path(link, "target"), path(link, "path")]);
        }
    }
    words.extend(["--chdir".to_owned(), text(work), text(program)]);
    let architecture = seccomp::Architecture::host().ok_or("there is no filter for this processor")?;
    let filter: Vec<u8> = seccomp::program(architecture)
        .iter()
        .flat_map(|line| {
            let [code, k] = [line.code.to_ne_bytes().to_vec(), line.k.to_ne_bytes().to_vec()];
            [code, vec![line.jt, line.jf], k].concat()
        })
        .collect();
    let file = top.join("filter");
    std::fs::write(&file, filter).unwrap();
    let subject = Subject { name: "bubblewrap", words, filter: Some(file) };
    let tried = subject.command().output().unwrap();
    match tried.status.success() {
        true => Ok(subject),
        false => Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
    }
}

fn one_at_a_time(subjects: &[Subject], rounds: usize) {
    let mut times: Vec<Vec<Duration>> = vec![Vec::with_capacity(rounds); subjects.len()];
    for round in 0..rounds + rounds / 10 {
        for (subject, times) in subjects.iter().zip(&mut times) {
            let took = subject.launch();
            // The first tenth warms caches up.
            if round >= rounds / 10 {
                times.push(took);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    let middle = |times: &[Duration]| times[times.len() / 2].as_secs_f64();
    let to = |name: &str, time: f64| {
        let place = subjects.iter().position(|subject| subject.name == name);
        place.map_or("-".to_owned(), |place| format!("{:.2}", time / middle(&times[place])))
    };
    println!("\none at a time, {rounds} rounds, ms");
    println!("{:<22} {:>7} {:>7} {:>7} {:>8} {:>8}", "", "median", "10 %", "90 %", "to exec", "to bwrap");
    for (subject, times) in subjects.iter().zip(&times) {
        let at = |part: usize| times[times.len() * part / 10].as_secs_f64() * 1e3;
        let time = middle(times);
        println!(
            "{:<22} {:>7.3} {:>7.3} {:>7.3} {:>8} {:>8}",
            subject.name,
            time * 1e3,
            at(1),
            at(9),
            to("fork and exec", time),
            to("bubblewrap", time)
        );
    }
}

fn in_parallel(subjects: &[Subject], rounds: usize) {
    let each = (rounds / PARALLEL).max(2);
    println!("\n{PARALLEL} in parallel, launches/s (best of three turns)");
    let mut best = vec![0f64; subjects.len()];
    for _ in 0..3 {
        for (subject, best) in subjects.iter().zip(&mut best) {
            let began = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..PARALLEL {
                    scope.spawn(|| (0..each).map(|_| subject.launch()).sum::<Duration>());
                }
            });
            *best = best.max((PARALLEL * each) as f64 / began.elapsed().as_secs_f64());
        }
    }
    for (subject, best) in subjects.iter().zip(best) {
        println!("{:<22} {best:>7.0}", subject.name);
    }
}

/// The node's own peak while it stands by: the high-water mark that the kernel keeps for it.
fn memory(work: &Path) {
    let mut node = Command::new(NODE)
        .args(["sandbox", "run", "--work"])
        .args([work, Path::new("--"), Path::new("sleep"), Path::new("0.5")])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = None;
    while node.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", node.id())).unwrap_or_default();
        peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:").map(str::trim).map(str::to_owned))
            .or(peak);
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("\npeak memory of the node's process: {}", peak.as_deref().unwrap_or("not read"));
}

/// The steps of a launch, each with the call that begins the next one: every launch makes these, in this order. Two
/// processes work at a time; a step's calls are of both.
const STEPS: [(&str, &str); 7] = [
    ("load the program, read its words", "CLONE_NEWUSER"),
    ("look and plan; beside it: namespaces, loopback", "memfd_create("),
    ("make and join the cgroup; beside it: the file tree", "pivot_root("),
    ("Landlock's rules, capabilities, fork", "landlock_restrict_self("),
    ("filter, the node's look at the process", "execve("),
    ("exec, the command", "exit_group("),
    ("second look; beside it: every process gone; report", ""),
];

/// Where the time goes, as strace sees it. It slows every call down: the shares say something, the sum does not.
fn steps(subject: &Subject, top: &Path) {
    let log = top.join("strace");
    let traced = || {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-ttt", "-o"]).arg(&log).args(&subject.words).stdin(Stdio::null());
        match strace.output() {
            Err(error) => Err(format!("strace: {error} (Debian: apt-get install strace)")),
            Ok(output) if !output.status.success() => {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
            Ok(_) => shares(&std::fs::read_to_string(&log).unwrap()),
        }
    };
    let runs: Result<Vec<_>, String> = (0..9).map(|_| traced()).collect();
    let runs = match runs {
        Ok(runs) => runs,
        Err(reason) => return println!("\nthe steps are not measured: {}", reason.trim()),
    };
    let medians: Vec<(f64, usize)> = (0..STEPS.len())
        .map(|step| {
            let mut times: Vec<_> = runs.iter().map(|run| run[step]).collect();
            times.sort_by(|one, other| one.0.total_cmp(&other.0));
            times[times.len() / 2]
        })
        .collect();
    let all: f64 = medians.iter().map(|(time, _)| time).sum();
    println!(
        "\nwhere it goes: share of a launch under strace ({:.1} ms), and calls of all its processes",
        all * 1e3
    );
    for ((name, _), (time, calls)) in STEPS.iter().zip(medians) {
        println!("{name:<50} {:>5.1} % {calls:>5}", time / all * 100.0);
    }
}

/// Time and calls of each step of one trace.
fn shares(trace: &str) -> Result<Vec<(f64, usize)>, String> {
    let mut lines = trace.lines().filter_map(|line| {
        let (_, rest) = line.split_once(char::is_whitespace)?;
        let (time, call) = rest.trim_start().split_once(' ')?;
        // The second half of a call that another process's came between.
        if call.starts_with("<... ") {
            return None;
        }
        Some((time.parse::<f64>().ok()?, call))
    });
    let (mut began, _) = lines.next().ok_or("strace wrote nothing")?;
    let mut found = Vec::new();
    for (name, end) in STEPS {
        let (mut calls, mut last, mut met) = (1, began, end.is_empty());
        for (time, call) in lines.by_ref() {
            (calls, last) = (calls + 1, time);
            if !end.is_empty() && call.contains(end) {
                met = true;
                break;
            }
        }
        if !met {
            return Err(format!("the trace has no {end}, which ends the step: {name}"));
        }
        found.push((last - began, calls));
        began = last;
    }
    Ok(found)
}
