//! What a plan depends on of this machine, as plain data. Who asks Windows for it is not known here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oz0_fleet::Windows;
use serde::{Deserialize, Serialize};

use super::block::WindowsDefaults;
use super::contract::Offered;
use super::route::Route;

/// This machine, as far as a plan depends on it.
#[derive(Clone, Debug)]
pub struct Survey {
    /// What the probe found.
    pub windows: Windows,
    /// What PSEC takes here.
    pub offered: Offered,
    /// How a container reaches its proxy here.
    pub route: Route,
    /// Logical processors, of which a cap on CPU time is a share.
    pub processors: u32,
    /// What programs need to know.
    pub defaults: WindowsDefaults,
    /// Where the folders of runs lie, with the sockets in them.
    pub runs: PathBuf,
    /// This run's own below it, not made yet.
    pub sockets: PathBuf,
    /// What each path of the policy is.
    pub places: BTreeMap<PathBuf, Place>,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Something, opened and asked for its final path: no link and no short name is in it.
    Found {
        /// The final path.
        real: PathBuf,
        /// What it is.
        kind: Kind,
    },
    /// Nothing.
    Missing,
    /// It could not be opened, for this reason.
    Closed(String),
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// Neither: a pipe, a device.
    Other,
}

impl Survey {
    /// What stands at a path of the policy.
    pub fn place(&self, path: &Path) -> &Place {
        self.places.get(path).unwrap_or(&Place::Missing)
    }
}
