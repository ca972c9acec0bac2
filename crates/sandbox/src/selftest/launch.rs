//! launch: a process starts in the container and writes in its working directory; a process it starts ends when
//! the first one does.

use super::Lab;
use super::act::{Act, Answer, Seen};
use super::evidence::{Fault, done};
use super::lab::{ENDING, PATIENCE, answer, silent, together};
use super::session::{Started, Told};
use crate::sys::attempt;

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let work = lab.folder("launch")?;
    let acts = [Act::Write(work.join("written")), Act::Leave];
    let (outside, inside) = together(|| outside(lab), || lab.start(&lab.policy(&work), &[], &acts));
    outside?;
    let mut inside = inside.map_err(|refusal| Fault::broken(format!("nothing was started: {refusal}")))?;
    let answers = match heard(&mut inside, acts.len()) {
        Ok(answers) => answers,
        Err(fault) => return Err(why_silent(inside, fault)),
    };
    for (act, answer) in acts.iter().zip(&answers) {
        done(act, answer)?;
    }
    // The process that left keeps the output open: its end shows that nothing of the run is left.
    let ended = inside.end(ENDING).map_err(|_| {
        Fault::broken("a process that left its session and is deaf to signals outlived the first one")
    })?;
    if !work.join("written").exists() {
        return Err(Fault::broken("what was written in the working directory is not there outside"));
    }
    match ended.told {
        Told::Command { status: Some(0), .. } => {
            Ok("wrote in its working directory; a process that left its session ended with the first one"
                .into())
        }
        Told::Command { status, .. } => Err(Fault::broken(format!("the subject ended with {status:?}"))),
        Told::Sandbox { reason, .. } => Err(Fault::broken(format!("the sandbox failed: {reason}"))),
    }
}

/// The control: outside, such a process outlives the one that started it.
fn outside(lab: &Lab<'_>) -> Result<(), Fault> {
    let mut outside = lab.start_outside(&[Act::Leave])?;
    let said = answer(&outside.line(PATIENCE).map_err(silent)?)?;
    let Seen::Process(left) = done(&Act::Leave, &said)? else {
        return Err(Fault::undecided("the subject outside did not say which process left"));
    };
    let outlived = outside.first_ended(PATIENCE) && attempt::is_there(*left);
    attempt::end(*left);
    if outlived && outside.end(PATIENCE).is_ok() {
        Ok(())
    } else {
        Err(Fault::undecided("outside, too, a process that leaves does not outlive the first one"))
    }
}

fn heard(subject: &mut Started, number: usize) -> Result<Vec<Answer>, Fault> {
    (0..number).map(|_| answer(&subject.line(PATIENCE).map_err(silent)?)).collect()
}

/// Nothing was heard: the launcher says why.
fn why_silent(subject: Started, fault: Fault) -> Fault {
    match subject.end(PATIENCE).map(|ended| ended.told) {
        Ok(Told::Sandbox { reason, .. }) => Fault::broken(format!("nothing was started: {reason}")),
        Ok(Told::Command { status, .. }) => {
            Fault::broken(format!("the subject ended with {status:?} at once"))
        }
        Err(_) => fault,
    }
}
