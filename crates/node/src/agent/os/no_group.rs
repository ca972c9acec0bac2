//! Where no cgroups are: nothing limits a command of tier 0.

use std::path::PathBuf;

use oz0_sandbox::limits::Limits;

/// Holds nothing.
pub struct Group;

/// Where there is one its end means something, and is said in so many words.
impl Drop for Group {
    fn drop(&mut self) {}
}

impl Group {
    /// There is none to be made.
    pub fn make(_: &Limits) -> Group {
        Group
    }

    /// Nothing is joined.
    pub fn doors(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Nothing is in it.
    pub fn end(&self) {}

    /// Nothing was.
    pub fn killed(&self) -> bool {
        false
    }
}
