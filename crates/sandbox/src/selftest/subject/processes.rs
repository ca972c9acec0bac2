//! Acts on processes: many of them, much memory, CPU, and one that leaves. The children are this program again.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::memory;
use crate::selftest::act::{Act, Answer, RefusalKind, Refused, Seen};
use crate::sys::attempt;

/// How long a process that leaves stays, when nothing ends it.
const LINGERING: Duration = Duration::from_secs(10);

/// This program, as a subject that is asked for one act.
pub(super) fn again(act: &Act) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stage", "subject"]).arg(serde_json::to_string(act)?);
    Ok(command)
}

/// A child that holds memory until its standard input ends.
pub(super) fn holding(bytes: u64) -> io::Result<Child> {
    again(&Act::Hold { bytes })?.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Wait until a holding child holds; false when it ended instead.
pub(super) fn holds(child: &mut Child) -> bool {
    let mut byte = [0u8; 1];
    child.stdout.as_mut().is_some_and(|output| output.read_exact(&mut byte).is_ok())
}

/// Let holding children end, and count those that had held until then: one that was killed meanwhile, to make room
/// for another, ends by a signal.
pub(super) fn release(children: Vec<Child>) -> usize {
    let held = |mut child: Child| {
        drop(child.stdin.take());
        child.wait().is_ok_and(|status| status.success())
    };
    children.into_iter().filter_map(|child| held(child).then_some(())).count()
}

/// Be a holding child.
pub(super) fn hold(bytes: u64) -> io::Result<()> {
    let memory = memory::touched(bytes);
    let mut output = io::stdout();
    io::Write::write_all(&mut output, b"+")?;
    io::Write::flush(&mut output)?;
    let _ = io::stdin().read(&mut [0u8; 1]);
    drop(memory);
    Ok(())
}

pub(super) fn start(number: u32) -> Answer {
    let mut children = Vec::new();
    let mut refused = None;
    for _ in 0..number {
        match holding(0) {
            Ok(child) => children.push(child),
            Err(error) => refused = Some(error),
        }
    }
    // Started is what came to life, not what fork gave a number to.
    let started: Vec<Child> =
        children.into_iter().filter_map(|mut child| holds(&mut child).then_some(child)).collect();
    let started = release(started);
    match refused {
        Some(error) if started == 0 => Answer::Refused(Refused::from_error(&error)),
        _ => Answer::Done(Seen::Count(started as u64)),
    }
}

pub(super) fn touch(processes: u32, bytes: u64) -> Answer {
    let mut children = Vec::new();
    for _ in 0..processes {
        match holding(bytes) {
            Ok(child) => children.push(child),
            Err(error) => {
                release(children);
                return Answer::untried("starting a process", error);
            }
        }
    }
    // All of them touch at the same time; none is let go before the last one has.
    let touched = children.iter_mut().filter_map(|child| holds(child).then_some(())).count();
    let held = release(children);
    if touched == held && held == processes as usize {
        Answer::Done(Seen::Count(u64::from(processes) * bytes))
    } else {
        Answer::Refused(Refused { kind: RefusalKind::Killed, code: None })
    }
}

pub(super) fn burn(milliseconds: u64, threads: u32) -> Answer {
    let time = Duration::from_millis(milliseconds);
    let (begun, used) = (Instant::now(), attempt::cpu_time());
    let burning = move || while begun.elapsed() < time {};
    let others: Vec<_> = (1..threads).filter_map(|_| thread::Builder::new().spawn(burning).ok()).collect();
    burning();
    for other in others {
        let _ = other.join();
    }
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let used = attempt::cpu_time().saturating_sub(used);
    Answer::Done(Seen::Cpu { used: micros(used), passed: micros(begun.elapsed()) })
}

pub(super) fn leave() -> Answer {
    let child = again(&Act::Linger { generations: 1 }).and_then(|mut command| {
        command.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::piped()).spawn()
    });
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Answer::untried("starting a process", error),
    };
    let mut said = String::new();
    if let Some(pipe) = child.stderr.take() {
        let _ = BufReader::new(pipe).read_line(&mut said);
    }
    let _ = child.wait();
    match said.trim().parse() {
        Ok(pid) => Answer::Done(Seen::Process(pid)),
        Err(_) => Answer::untried("the process that leaves", format!("it said {said:?}")),
    }
}

/// Be a process that leaves. It keeps standard output open, by which it is seen from outside.
pub(super) fn linger(generations: u32) -> io::Result<()> {
    attempt::leave_session()?;
    if generations > 0 {
        let act = Act::Linger { generations: generations - 1 };
        again(&act)?.stdin(Stdio::null()).spawn()?;
        return Ok(());
    }
    attempt::turn_deaf();
    attempt::say_pid_and_close_stderr()?;
    thread::sleep(LINGERING);
    Ok(())
}
