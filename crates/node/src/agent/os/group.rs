//! Linux: what limits and ends a command of tier 0, a cgroup of its own where this user may make one.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use oz0_sandbox::backend::linux::cgroup::{self, Place};
use oz0_sandbox::limits::Limits;

/// How long killed processes may take to leave the kernel.
const PATIENCE: Duration = Duration::from_secs(2);

/// Holds what a command starts; without a cgroup it holds nothing.
pub struct Group(Option<cgroup::Group>);

impl Group {
    /// Make one. Tier 0 promises no limit: where there can be none the command runs without.
    pub fn make(limits: &Limits) -> Group {
        Group(Place::find().ok().and_then(|place| place.create("job", limits).ok()))
    }

    /// The files through which a process with one thread joins it.
    pub fn doors(&self) -> Vec<PathBuf> {
        let views = self.0.iter().flat_map(cgroup::Group::views);
        views.map(|(folder, _)| folder.join("cgroup.procs")).collect()
    }

    /// End every process in it.
    pub fn end(&self) {
        let Some(group) = &self.0 else { return };
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match group.members() {
                Ok(members) if members.is_empty() => return,
                // Killed before the next look: what is in there is this command's, so no number is another's.
                Ok(members) => members.into_iter().for_each(|id| super::kill(id.cast_unsigned())),
                Err(_) => return,
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Was a process killed because its memory was used up?
    pub fn killed(&self) -> bool {
        self.0.as_ref().is_some_and(|group| {
            let usage = group.usage();
            usage.memory_kills > 0 && usage.memory_limit_reached
        })
    }
}
