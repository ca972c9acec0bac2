//! Routing in words: each reason, and why a job waits.

use std::fmt;

use oz0_fleet::Tier;

use super::{Because, Need, Routing};

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Held => f.write_str("held: two machines have its key"),
            Because::Revoked => f.write_str("revoked"),
            Because::NeverReported => f.write_str("never reported"),
            Because::OffLine { silent_ms } => write!(f, "off line {silent_ms}"),
            Because::Draining => f.write_str("draining"),
            Because::Tier { platform, .. } if platform.routed_up_to() == Tier::Zero => {
                write!(f, "{}, routed as tier 0", platform.name())
            }
            Because::Tier { platform, shown, .. } => write!(f, "{}, {shown}", platform.name()),
            Because::Stale { age_ms } if age_ms.count() == u64::MAX => {
                f.write_str("no self-test that is dated")
            }
            Because::Stale { age_ms } => write!(f, "self-test {age_ms} old"),
            Because::Lacks { label } => write!(f, "without label {label}"),
            Because::Reserved { labels } => {
                f.write_str("reserved for ")?;
                list(f, labels)
            }
            Because::Aside { failures, obstacle, again_ms } => {
                write!(
                    f,
                    "not routed: {failures} launches failed: {}; tried again in {again_ms}",
                    obstacle.words()
                )
            }
            Because::Busy { running, most } => write!(f, "busy: {running} of {most} jobs"),
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    for (place, item) in items.into_iter().enumerate() {
        write!(f, "{}{item}", if place == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl fmt::Display for Need {
    /// `tier 1`, `tier 0 and label gpu`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tier)?;
        match self.labels.len() {
            0 => Ok(()),
            1 => {
                f.write_str(" and label ")?;
                list(f, &self.labels)
            }
            _ => {
                f.write_str(" and labels ")?;
                list(f, &self.labels)
            }
        }
    }
}

/// As many kinds of reason as are told; the rest is counted.
const MOST_REASONS: usize = 6;

impl Routing {
    /// Why the job waits: `needs tier 1; 2 nodes on line, none with tier 1: 2 Windows, routed as tier 0`.
    pub fn waiting(&self) -> String {
        if !self.takes.is_empty() {
            return format!("{} can take it now", nodes(self.takes.len()));
        }
        let need = &self.need;
        if self.others.is_empty() {
            return format!("needs {need}; the tenant has no node");
        }
        let silent = |because: &Because| {
            matches!(because, Because::OffLine { .. } | Because::NeverReported | Because::Revoked)
        };
        let on_line: Vec<&Because> =
            self.others.iter().map(|other| &other.because).filter(|because| !silent(because)).collect();
        let busy = on_line.iter().filter(|because| because.is_busy()).count();
        if busy > 0 {
            return format!("waits for a free place: {} that can take it, busy", nodes(busy));
        }
        let lacking = on_line.iter().all(|because| matches!(because, Because::Tier { .. }));
        let head = match on_line.len() {
            0 => "no node on line".to_owned(),
            count if lacking => format!("{} on line, none with {}", nodes(count), need.tier),
            count => format!("{} on line, none takes it", nodes(count)),
        };
        format!("needs {need}; {head}: {}", self.reasons())
    }

    /// The reasons of all, each with how many nodes have it (C172).
    pub fn reasons(&self) -> String {
        let mut reasons: Vec<&Because> = self.others.iter().map(|other| &other.because).collect();
        reasons.sort();
        let groups: Vec<&[&Because]> = reasons.chunk_by(|one, two| one.is_alike(two)).collect();
        let mut told: Vec<String> = groups
            .iter()
            .take(MOST_REASONS)
            .map(|alike| match alike {
                [one] => format!("1 {one}"),
                alike => format!("{} {}", alike.len(), alike[0].of_several()),
            })
            .collect();
        let rest: usize = groups.iter().skip(MOST_REASONS).map(|alike| alike.len()).sum();
        if rest > 0 {
            told.push(format!("{rest} for other reasons"));
        }
        told.join("; ")
    }
}

impl Because {
    /// Do they differ in figures alone?
    fn is_alike(&self, other: &Because) -> bool {
        self.of_several() == other.of_several()
    }

    /// The reason without the figures of one node.
    fn of_several(&self) -> String {
        match self {
            Because::OffLine { .. } => "off line".to_owned(),
            Because::Stale { .. } => "whose self-test is too old".to_owned(),
            Because::Aside { obstacle, .. } => format!("not routed: launches failed: {}", obstacle.words()),
            Because::Busy { .. } => "busy".to_owned(),
            other => other.to_string(),
        }
    }
}

/// `1 node`, `2 nodes`.
fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
