//! From two answers to a judgement: the same act outside and inside.

use std::fmt;

use super::act::{Act, Answer, RefusalKind, Seen};

/// Why a property does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was seen not to.
    Broken(String),
    /// It could not be seen.
    Undecided(String),
}

impl Fault {
    /// Seen not to hold.
    pub fn broken(what: impl fmt::Display) -> Fault {
        Fault::Broken(what.to_string())
    }

    /// Not seen.
    pub fn undecided(why: impl fmt::Display) -> Fault {
        Fault::Undecided(why.to_string())
    }
}

/// Refusals of a write, a rename, a read of what is there to be seen.
pub const FORBIDDEN: &[RefusalKind] = &[RefusalKind::Denied, RefusalKind::ReadOnly];

/// The same for what the container's tree may as well not contain: then it is not found, although it is there
/// outside, as the control has just shown.
pub const OUT_OF_SIGHT: &[RefusalKind] = &[RefusalKind::Denied, RefusalKind::ReadOnly, RefusalKind::NotFound];

/// Refusals of a connection. Silence is not one of them.
pub const NO_WAY: &[RefusalKind] = &[
    RefusalKind::ConnectionRefused,
    RefusalKind::Unreachable,
    RefusalKind::Denied,
    RefusalKind::Unsupported,
];

/// One act, tried outside and inside.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What.
    pub act: Act,
    /// What came of it outside: the control.
    pub outside: Answer,
    /// What came of it inside.
    pub inside: Answer,
}

impl Tried {
    /// It must be refused inside, in one of the right ways, while the control succeeds. Gives the refusal in words.
    pub fn refused(&self, right: &[RefusalKind]) -> Result<String, Fault> {
        match &self.outside {
            Answer::Done(_) => self.refused_inside(right),
            control => Err(Fault::undecided(format!("{} failed outside too: {}", self.act, words(control)))),
        }
    }

    /// The same for what the host itself may refuse to this user: that counts as closed, and is said.
    pub fn closed(&self, right: &[RefusalKind]) -> Result<String, Fault> {
        match &self.outside {
            Answer::Refused(refused) => {
                self.refused_inside(right)?;
                Ok(format!("this machine refuses it to this user anyway ({refused})"))
            }
            _ => self.refused(right),
        }
    }

    fn refused_inside(&self, right: &[RefusalKind]) -> Result<String, Fault> {
        match &self.inside {
            Answer::Refused(refused) if right.contains(&refused.kind) => Ok(refused.to_string()),
            Answer::Done(_) => Err(Fault::broken(format!("{} succeeded", self.act))),
            other => Err(Fault::undecided(format!("{} was not refused but: {}", self.act, words(other)))),
        }
    }
}

/// It must be done inside.
pub fn done<'a>(act: &Act, inside: &'a Answer) -> Result<&'a Seen, Fault> {
    match inside {
        Answer::Done(seen) => Ok(seen),
        Answer::Refused(refused) => Err(Fault::broken(format!("{act} was refused: {refused}"))),
        Answer::Untried(why) => Err(Fault::undecided(format!("{act} could not be tried: {why}"))),
    }
}

/// What several looks saw. One that saw the property broken speaks before one that could not see.
pub fn all_of<T>(looks: Vec<Result<T, Fault>>) -> Result<Vec<T>, Fault> {
    let mut unseen = None;
    let mut saw = Vec::new();
    for look in looks {
        match look {
            Ok(seen) => saw.push(seen),
            Err(fault @ Fault::Broken(_)) => return Err(fault),
            Err(fault @ Fault::Undecided(_)) => drop(unseen.get_or_insert(fault)),
        }
    }
    unseen.map_or(Ok(saw), Err)
}

/// An answer in words.
pub fn words(answer: &Answer) -> String {
    match answer {
        Answer::Done(_) => "done".into(),
        Answer::Refused(refused) => refused.to_string(),
        Answer::Untried(why) => format!("not tried ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::act::Refused;

    fn tried(outside: Answer, inside: Answer) -> Tried {
        Tried { act: Act::Read("/x".into()), outside, inside }
    }

    fn refused(kind: RefusalKind) -> Answer {
        Answer::Refused(Refused { kind, code: None })
    }

    const DONE: Answer = Answer::Done(Seen::Nothing);

    #[test]
    fn only_the_right_refusal_with_a_control_holds() {
        assert!(tried(DONE, refused(RefusalKind::Denied)).refused(FORBIDDEN).is_ok());
        let verdict = |outside, inside| tried(outside, inside).refused(FORBIDDEN).unwrap_err();
        assert!(matches!(verdict(DONE, DONE), Fault::Broken(_)));
        for (outside, inside) in [
            (DONE, refused(RefusalKind::NotFound)),
            (DONE, refused(RefusalKind::TimedOut)),
            (DONE, Answer::Untried("x".into())),
            (refused(RefusalKind::Denied), refused(RefusalKind::Denied)),
            (Answer::Untried("x".into()), refused(RefusalKind::Denied)),
            (refused(RefusalKind::Denied), DONE),
        ] {
            assert!(matches!(verdict(outside, inside), Fault::Undecided(_)));
        }
    }

    #[test]
    fn what_the_host_refuses_too_is_closed_unless_it_opens_inside() {
        assert!(tried(refused(RefusalKind::Denied), refused(RefusalKind::Denied)).closed(FORBIDDEN).is_ok());
        let open = tried(refused(RefusalKind::Denied), DONE).closed(FORBIDDEN);
        assert!(matches!(open, Err(Fault::Broken(_))));
        let unknown = tried(Answer::Untried("x".into()), refused(RefusalKind::Denied)).closed(FORBIDDEN);
        assert!(matches!(unknown, Err(Fault::Undecided(_))));
    }

    #[test]
    fn what_must_be_done_is_broken_when_refused_and_undecided_when_not_tried() {
        let act = Act::FindProxy;
        assert!(done(&act, &DONE).is_ok());
        assert!(matches!(done(&act, &refused(RefusalKind::Denied)), Err(Fault::Broken(_))));
        assert!(matches!(done(&act, &Answer::Untried("x".into())), Err(Fault::Undecided(_))));
    }
}
