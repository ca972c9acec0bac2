//! job_limits: memory, processes and CPU of all processes of a run together are held, and all end with the
//! launcher's process, however that ends.

use std::thread;

use super::Lab;
use super::act::{Act, Answer, RefusalKind, Refused, Seen};
use super::evidence::{Fault, all_of, done, words};
use super::lab::{ENDING, PATIENCE, answer, silent, together};
use crate::limits::{Cpu, Limits};
use crate::policy::Policy;
use crate::sys::attempt;

const MIB: u64 = 1 << 20;

/// The limit of processes, how many are started, and how many may come of it: the subject is one, and the
/// sandbox may have one of its own.
const PROCESSES: (u32, u32, u64) = (8, 20, 6);

/// Limits of memory, each with what is used well below it and what is asked for above it: by one process, and by
/// several of which none reaches the limit alone.
const ONE: Memory = Memory { limit: 256 * MIB, below: (1, 32 * MIB), above: (1, 512 * MIB) };
const SEVERAL: Memory = Memory { limit: 64 * MIB, below: (1, 24 * MIB), above: (4, 24 * MIB) };

struct Memory {
    limit: u64,
    below: (u32, u64),
    above: (u32, u64),
}

/// The cap on CPU in hundredths of a core, low enough to be told from a share of a busy machine, and for how long
/// it is measured.
const CAP: u32 = 10;
const BURNING: u64 = 300;

/// CPU in microseconds that a cap may let through at the edges: one period's share, and what is only counted
/// afterwards.
const EDGE: u64 = 25_000;

/// Periods in which a run is held back, by the launcher's account, that no other cause explains.
const HELD_BACK: u64 = 2;

/// Threads that use CPU: more than a quiet machine has cores, so that a busy one gives them their share.
const THREADS: u32 = 4;

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let work = lab.folder("job_limits")?;
    let policy = lab.policy(&work);
    let policy = &policy;
    thread::scope(|scope| {
        let all = [
            scope.spawn(|| cpu(lab, policy)),
            scope.spawn(|| memory(lab, policy, &ONE)),
            scope.spawn(|| memory(lab, policy, &SEVERAL)),
            scope.spawn(|| processes(lab, policy)),
            scope.spawn(|| kill(lab, policy)),
        ];
        let parts: Vec<_> = all
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        all_of(parts).map(|saw| saw.join("; "))
    })
}

fn limited(policy: &Policy, limits: impl FnOnce(&mut Limits)) -> Policy {
    let mut policy = policy.clone();
    limits(&mut policy.limits);
    policy
}

fn only(answers: Vec<Answer>) -> Result<Answer, Fault> {
    answers.into_iter().next().ok_or_else(|| Fault::undecided("the subject did not answer"))
}

fn processes(lab: &Lab<'_>, policy: &Policy) -> Result<String, Fault> {
    let (limit, asked, most) = PROCESSES;
    let act = Act::Start(asked);
    let outside = only(lab.outside(std::slice::from_ref(&act))?)?;
    if outside != Answer::Done(Seen::Count(asked.into())) {
        return Err(Fault::undecided(format!("{act} failed outside too")));
    }
    let policy = limited(policy, |limits| limits.processes = limit);
    let inside = only(lab.inside(&policy, std::slice::from_ref(&act))?)?;
    match done(&act, &inside)? {
        Seen::Count(started @ 1..) if *started <= most => {
            Ok(format!("{asked} processes under a limit of {limit}: {started} started"))
        }
        Seen::Count(started) if *started > most => {
            Err(Fault::broken(format!("{started} of {asked} processes started under a limit of {limit}")))
        }
        _ => Err(Fault::undecided("no process started under a limit that allows some")),
    }
}

/// The control is a use below the limit: one above it outside could take the whole machine down.
fn memory(lab: &Lab<'_>, policy: &Policy, asked: &Memory) -> Result<String, Fault> {
    let policy = limited(policy, |limits| limits.memory = asked.limit);
    let touch = |(processes, bytes)| Act::Touch { processes, bytes };
    let [below, above] = [touch(asked.below), touch(asked.above)];
    let limit = asked.limit / MIB;
    let answers = lab.inside(&policy, &[below.clone(), above.clone()])?;
    let [used, refused] = &answers[..] else { return Err(Fault::undecided("the subject did not answer")) };
    done(&below, used)
        .map_err(|_| Fault::undecided(format!("{below} failed under a limit of {limit} MiB")))?;
    match refused {
        Answer::Refused(Refused { kind: RefusalKind::Killed | RefusalKind::Exhausted, .. }) => {
            Ok(format!("{above} under a limit of {limit} MiB: refused"))
        }
        Answer::Done(_) => Err(Fault::broken(format!("{above} was given under a limit of {limit} MiB"))),
        other => Err(Fault::undecided(format!("{above} under a limit of {limit} MiB: {}", words(other)))),
    }
}

/// Little use is no proof: a busy machine gives little. The launcher's account must say that the run was held back
/// again and again; where it gives none, the same act with a wide cap, at the same time and in the same place,
/// must get far more.
fn cpu(lab: &Lab<'_>, policy: &Policy) -> Result<String, Fault> {
    let cap = Cpu::from_hundredths(CAP).unwrap_or(Cpu::LEAST);
    let capped = limited(policy, |limits| limits.cpu = cap);
    let act = Act::Burn { milliseconds: BURNING, threads: THREADS };
    let mut gives_account = true;
    for _ in 0..3 {
        let control =
            || if gives_account { Ok(0) } else { Ok(cpu_of(&act, &lab.measured(policy, &act)?.0)?.0) };
        let (control, held) = together(control, || lab.measured(&capped, &act));
        let (control, (held, account)) = (control?, held?);
        let (used, passed) = cpu_of(&act, &held)?;
        let allowed = passed * u64::from(CAP) / 100 + EDGE;
        let (used_ms, passed_ms) = (used / 1000, passed / 1000);
        if used > allowed {
            let what = format!("{used_ms} ms of CPU in {passed_ms} ms under a cap of {cap} of a core");
            return Err(Fault::broken(what));
        }
        let periods = account.and_then(|usage| usage.cpu_throttled);
        let held_back = match periods {
            Some(periods) => periods >= HELD_BACK,
            None => control > allowed && control > 2 * used,
        };
        if held_back {
            return Ok(format!("CPU held to its cap of {cap} of a core ({used_ms} ms in {passed_ms} ms)"));
        }
        gives_account = periods.is_some();
    }
    Err(Fault::undecided("this machine is too busy to tell a cap on CPU from a want of it"))
}

fn cpu_of(act: &Act, answer: &Answer) -> Result<(u64, u64), Fault> {
    match done(act, answer)? {
        Seen::Cpu { used, passed } if *passed > 0 => Ok((*used, *passed)),
        _ => Err(Fault::undecided("the subject did not say how much CPU it used")),
    }
}

/// The launcher's process is ended as nothing can prevent; so is all that the run started.
fn kill(lab: &Lab<'_>, policy: &Policy) -> Result<String, Fault> {
    // A subject that ends would end the run: this one stays.
    let act = Act::Serve { addresses: Vec::new(), greeting: String::new(), reach: false };
    let acts = [Act::Leave, act];
    let mut inside = lab.start(policy, &[], &acts).map_err(|refusal| Fault::undecided(refusal.reason))?;
    for act in &acts {
        done(act, &answer(&inside.line(PATIENCE).map_err(silent)?)?)?;
    }
    let mut outside = lab.start_outside(&acts)?;
    let said = answer(&outside.line(PATIENCE).map_err(silent)?)?;
    let Seen::Process(left) = done(&Act::Leave, &said)? else {
        return Err(Fault::undecided("the subject outside did not say which process left"));
    };
    for subject in [&mut inside, &mut outside] {
        subject.kill().map_err(|error| Fault::undecided(format!("ending a launcher: {error}")))?;
    }
    let outlived = outside.first_ended(PATIENCE) && attempt::is_there(*left);
    attempt::end(*left);
    if !outlived {
        return Err(Fault::undecided("outside, too, nothing outlived a process that was killed"));
    }
    match inside.end(ENDING) {
        Ok(_) => Ok("all processes ended when the launcher's was killed".into()),
        Err(_) => Err(Fault::broken("processes of the run outlived the launcher's, which was killed")),
    }
}
