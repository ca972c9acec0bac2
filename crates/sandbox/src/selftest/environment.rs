//! environment: a process gets the variables that were passed, what the platform's programs need and the proxy's;
//! none of the node's own, and nothing of the node's through another process.

use std::collections::BTreeMap;

use super::Lab;
use super::act::{Act, Answer, Attempt, RefusalKind, Seen, Spied};
use super::evidence::{Fault, done};
use super::lab::together;
use crate::environ::NODE_PREFIX;
use crate::sys::attempt;

/// A variable that the caller passes.
const PASSED: &str = "SELF_TEST_PASSED";

/// What programs of this platform need.
const NEEDED: &[&str] = if cfg!(windows) {
    &["SystemRoot", "PATH", "LOCALAPPDATA"]
} else {
    &["PATH", "HOME", "USER", "TMPDIR", "LANG"]
};

/// The proxy's.
const PROXY: &[&str] = if cfg!(windows) {
    &["HTTP_PROXY", "HTTPS_PROXY"]
} else {
    &["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"]
};

/// What would lead a program around the proxy.
const BYPASS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Variables of the launching process: one by its prefix the node's own, one that is only not passed.
const OWN: [&str; 2] = ["OZ0_SELF_TEST_SECRET", "SELF_TEST_NOT_PASSED"];

pub fn check(lab: &Lab<'_>) -> Result<String, Fault> {
    let work = lab.folder("environment")?;
    let mut policy = lab.policy(&work);
    policy.environment.set(PASSED, lab.mark());
    let own = OWN.map(|name| (name, lab.mark()));
    let acts = [
        Act::Variables { values: vec![PASSED.into()] },
        // Shows that its HTTP_PROXY has an address and a token; whose token it is, egress has shown.
        Act::FindProxy,
        Act::Spy(Spied::Others),
    ];
    let control = Act::Spy(Spied::OwnChild);
    let (outside, inside) =
        together(|| lab.outside(std::slice::from_ref(&control)), || lab.inside_with(&policy, &own, &acts));
    let (outside, inside) = (outside?, inside?);
    let [variables, proxy, spied] = &inside[..] else {
        return Err(Fault::undecided("the subject did not answer everything"));
    };
    let Seen::Variables { names, values } = done(&acts[0], variables)? else {
        return Err(Fault::undecided("the subject did not name its variables"));
    };
    judge_variables(names, values, lab.mark())?;
    if let Answer::Untried(why) = proxy {
        return Err(Fault::broken(format!("the proxy's variables: {why}")));
    }
    let open = open_to(&control, outside.first())?;
    let processes = judge_spied(&acts[2], spied, &open)?;
    Ok(format!(
        "{} variables: the passed one, those that programs need and the proxy's with a token, none of the node's; \
         {processes}",
        names.len()
    ))
}

fn judge_variables(names: &[String], values: &BTreeMap<String, String>, mark: &str) -> Result<(), Fault> {
    let has = |name: &str| names.iter().any(|other| other == name);
    if values.get(PASSED).map(String::as_str) != Some(mark) {
        return Err(Fault::broken("a variable that the caller passes did not arrive as it was"));
    }
    if let Some(missing) = NEEDED.iter().chain(PROXY).find(|name| !has(name)) {
        return Err(Fault::broken(format!("{missing} is not set")));
    }
    if let Some(bypass) = BYPASS.iter().find(|name| has(name)) {
        return Err(Fault::broken(format!("{bypass} is set, which leads programs around the proxy")));
    }
    let leaked = names.iter().find(|name| name.starts_with(NODE_PREFIX) || OWN.contains(&name.as_str()));
    match leaked {
        Some(name) => {
            Err(Fault::broken(format!("the node's variable {} came along", crate::text::escape(name))))
        }
        None => Ok(()),
    }
}

/// What a process outside can do to one of its own: what of it the host forbids anyway proves nothing inside.
fn open_to(act: &Act, outside: Option<&Answer>) -> Result<Vec<String>, Fault> {
    let answer = outside.ok_or_else(|| Fault::undecided("the subject outside did not answer"))?;
    let Ok(Seen::Spied(attempts)) = done(act, answer) else {
        return Err(Fault::undecided(format!("outside, {act} was not possible either")));
    };
    let open: Vec<String> = attempts
        .iter()
        .filter(|attempt| attempt.refused.is_none())
        .map(|attempt| attempt.what.clone())
        .collect();
    match attempt::LEAST_OPEN.iter().find(|what| !open.iter().any(|open| open == *what)) {
        None => Ok(open),
        Some(what) => {
            Err(Fault::undecided(format!("outside, too, the {what} of a process of its own is closed")))
        }
    }
}

fn judge_spied(act: &Act, answer: &Answer, open: &[String]) -> Result<String, Fault> {
    let Seen::Spied(attempts) = done(act, answer)? else {
        return Err(Fault::undecided(format!("{act}: no answer")));
    };
    for Attempt { process, what, refused } in attempts {
        match refused {
            None => {
                return Err(Fault::broken(format!(
                    "{what} of process {process}, which is not its own, is open"
                )));
            }
            Some(refused) if refused.kind == RefusalKind::Denied => {}
            // ptrace says of a process that is not to be seen that it is not there.
            Some(refused) => {
                return Err(Fault::undecided(format!("{what} of process {process}: {refused}")));
            }
        }
    }
    let mut processes: Vec<i32> = attempts.iter().map(|attempt| attempt.process).collect();
    processes.dedup();
    Ok(match processes.len() {
        0 => "no other process is seen".into(),
        number => format!("of {number} other process(es): {} refused", open.join(", ")),
    })
}
