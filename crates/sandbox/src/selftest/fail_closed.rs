//! fail_closed: a process that cannot be put under its limits never runs, and the sandbox says that it failed.

use std::path::{Path, PathBuf};
use std::thread;

use super::Lab;
use super::act::Act;
use super::evidence::{Fault, all_of, done};
use super::lab::{PATIENCE, silent, together};
use super::session::Told;
use crate::backend::Unattainable;
use crate::report::Status;

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let work = lab.folder("fail_closed")?;
    let unattainable = lab.unattainable(&lab.policy(&work).limits);
    if unattainable.is_empty() {
        return Err(Fault::undecided("this sandbox names no limits that a process cannot be put under"));
    }
    let marks: Vec<PathBuf> =
        (0..unattainable.len()).map(|number| work.join(format!("ran-{number}"))).collect();
    let (control, never) = together(
        || control(lab, &work),
        || {
            thread::scope(|scope| {
                let runs: Vec<_> = unattainable
                    .iter()
                    .zip(&marks)
                    .map(|(asked, mark)| scope.spawn(move || never_runs(lab, asked, mark)))
                    .collect();
                all_of(
                    runs.into_iter()
                        .map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                        .collect(),
                )
            })
        },
    );
    never?;
    control?;
    let asked: Vec<&str> = unattainable.iter().map(|asked| asked.words).collect();
    Ok(format!("told as the sandbox's own failure, and nothing ran: {}", asked.join("; ")))
}

/// The same run with limits that can be had.
fn control(lab: &Lab<'_>, work: &Path) -> Result<(), Fault> {
    let act = Act::Write(work.join("ran"));
    for answer in lab.inside(&lab.policy(work), std::slice::from_ref(&act))? {
        done(&act, &answer).map_err(|_| Fault::undecided("the same run with other limits does not write"))?;
    }
    Ok(())
}

fn never_runs(lab: &Lab<'_>, asked: &Unattainable, mark: &Path) -> Result<(), Fault> {
    let work = mark.parent().unwrap_or(mark);
    let mut policy = lab.policy(work);
    policy.limits = asked.limits;
    let ended = match lab.start(&policy, &[], &[Act::Write(mark.to_path_buf())]) {
        Ok(started) => Some(started.end(PATIENCE).map_err(silent)?),
        // Refused before anything was started.
        Err(_) => None,
    };
    let words = asked.words;
    if mark.exists() || ended.as_ref().is_some_and(|ended| !ended.lines.is_empty()) {
        return Err(Fault::broken(format!(
            "a process ran although it could not be put under its limits ({words})"
        )));
    }
    match ended.map(|ended| ended.told) {
        None => Ok(()),
        Some(Told::Sandbox { status: Some(status), .. }) if status == Status::Sandbox as i32 => Ok(()),
        Some(told) => Err(Fault::broken(format!(
            "nothing ran under limits that cannot be had ({words}), and it was told as {told:?}"
        ))),
    }
}
