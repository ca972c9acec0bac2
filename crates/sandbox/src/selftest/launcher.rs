//! Whatever starts a command confined, as a check sees it: this host's own backend in a process of its own, or
//! another sandbox's launcher. It says nothing of how that is done.

use std::path::Path;

use crate::backend::Refusal;
pub use crate::backend::{Particulars, Unattainable};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::selftest::session::Started;

/// What is to be started.
pub struct Order<'a> {
    /// What the command may do.
    pub policy: &'a Policy,
    /// Variables that the launching process has besides this one's: the node's own, which no command sees.
    pub own: &'a [(&'a str, &'a str)],
    /// A file for what the launcher has to tell, where no run sees it.
    pub report: &'a Path,
}

/// Starts commands confined.
pub trait Launcher: Sync {
    /// Start the command of a policy, in a process of its own whose descriptors the command inherits: standard
    /// input empty, output and error as pipes. Ending that process ends the run. A refusal comes now, or is what
    /// the process tells in the end.
    fn start(&self, order: &Order<'_>) -> Result<Started, Refusal>;

    /// Limits like these that no process can be put under here.
    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable>;

    /// What the checks have to know of the sandbox.
    fn particulars(&self) -> Particulars {
        Particulars::default()
    }
}
