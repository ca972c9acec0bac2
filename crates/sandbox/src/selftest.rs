//! The self-test: the eight properties in their order, each looked at by one check from inside and outside.
//!
//! A check knows a [`Launcher`] and a [`Lab`], never how the sandbox is made, so the same eight measure any way to
//! make one. It begins with a control: the same act outside succeeds, or nothing has been learnt. What is not
//! decided counts as broken and says so.

pub mod act;
mod egress;
mod environment;
mod evidence;
mod fail_closed;
mod files;
mod ingress;
mod job_limits;
mod lab;
mod launch;
mod launcher;
mod origin;
mod protected_paths;
mod session;
mod staged;
pub mod subject;

use std::fmt;
use std::time::{Duration, Instant};

use oz0_fleet::Property;
use serde::Serialize;

pub use self::evidence::Fault;
pub use self::lab::{Lab, LabError, Node};
pub use self::launcher::{Launcher, Order, Unattainable};
pub use self::session::{Ended, Silence, Started, Told};
pub use self::staged::{Job, JobError, Staged, perform};

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "saw", rename_all = "snake_case")]
pub enum Verdict {
    /// The property holds; what was seen.
    Holds(String),
    /// It does not; what was seen.
    Broken(String),
    /// It is not known, which counts as broken; what was in the way.
    Undecided(String),
}

impl Verdict {
    /// Does the property hold?
    pub fn holds(&self) -> bool {
        matches!(self, Verdict::Holds(_))
    }
}

/// One property, looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which.
    pub property: Property,
    /// What its check came to.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    #[serde(rename = "milliseconds", serialize_with = "milliseconds")]
    pub elapsed: Duration,
}

fn milliseconds<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// `Self-test launch: ok (12ms); what it saw`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { property, verdict, elapsed } = self;
        let time = match elapsed.as_millis() {
            millis @ ..1000 => format!("{millis}ms"),
            _ => format!("{:.3}s", elapsed.as_secs_f64()),
        };
        match verdict {
            Verdict::Holds(saw) => write!(f, "Self-test {property}: ok ({time}); {saw}"),
            Verdict::Broken(saw) => write!(f, "Self-test {property}: failed ({time}): {saw}"),
            Verdict::Undecided(why) => {
                write!(f, "Self-test {property}: undecided, which counts as failed ({time}): {why}")
            }
        }
    }
}

/// Look at the properties in their order, up to the first that does not hold. `only` looks at that one alone.
pub fn run(lab: &Lab<'_>, only: Option<Property>, mut progress: impl FnMut(&Finding)) -> Vec<Finding> {
    let asked = Property::ALL.into_iter().filter(|property| only.is_none_or(|only| only == *property));
    let mut findings = Vec::new();
    for property in asked {
        let begun = Instant::now();
        let verdict = match check(property, lab) {
            Ok(saw) => Verdict::Holds(saw),
            Err(Fault::Broken(saw)) => Verdict::Broken(saw),
            Err(Fault::Undecided(why)) => Verdict::Undecided(why),
        };
        let finding = Finding { property, verdict, elapsed: begun.elapsed() };
        progress(&finding);
        let holds = finding.verdict.holds();
        findings.push(finding);
        if !holds {
            break;
        }
    }
    findings
}

/// The check of each property.
fn check(property: Property, lab: &Lab<'_>) -> Result<String, Fault> {
    match property {
        Property::Launch => launch::check(lab),
        Property::Files => files::check(lab),
        Property::Egress => egress::check(lab),
        Property::Ingress => ingress::check(lab),
        Property::JobLimits => job_limits::check(lab),
        Property::FailClosed => fail_closed::check(lab),
        Property::ProtectedPaths => protected_paths::check(lab),
        Property::Environment => environment::check(lab),
    }
}
