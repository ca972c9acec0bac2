//! A survey taken of this machine: what the probe answers, and what stands at each path of a policy, by handle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::block::{MACHINE, WindowsDefaults};
use super::route::Route;
use super::survey::{Kind, Place, Survey};
use super::verdict::{Lacking, Verdict};
use crate::backend::Refusal;
use crate::policy::Policy;
use crate::sys::windows::files::{self, FileError, Follow};
use crate::sys::windows::{known, machine};

/// FILE_ATTRIBUTE_DIRECTORY and FILE_ATTRIBUTE_DEVICE (Microsoft Learn, File Attribute Constants).
const DIRECTORY: u32 = 0x10;
const DEVICE: u32 = 0x40;

/// ERROR_FILE_NOT_FOUND and ERROR_PATH_NOT_FOUND (Microsoft Learn, System Error Codes).
const NOT_FOUND: [u32; 2] = [2, 3];

/// Where the folders of runs lie, below LOCALAPPDATA.
const RUNS: &str = "oz0-runs";

/// Take it. `route` asks for the way to the proxy, once everything else is known to be there.
pub fn take(
    policy: &Policy,
    verdict: &Verdict,
    route: impl FnOnce() -> Result<Route, Refusal>,
) -> Result<Survey, Refusal> {
    let offered = verdict.offered().ok_or_else(|| refusal(verdict))?;
    let defaults = defaults()?;
    let runs = runs(&defaults)?;
    let sockets = runs.join(name()?);
    let named = policy.grants().map(|(_, _, path)| path);
    let own = [policy.data_directory.as_path(), policy.node_binary.as_path()];
    let places: BTreeMap<PathBuf, Place> =
        named.chain(own).map(|path| (path.to_owned(), place(path))).collect();
    let survey = Survey {
        windows: verdict.windows,
        offered,
        route: Route::Bridge,
        processors: machine::processors(),
        defaults,
        runs,
        sockets,
        places,
    };
    // A policy that cannot be granted is refused before a container is made to ask.
    super::plan::check(policy, &survey).map_err(|error| Refusal {
        code: error.code(),
        reason: error.to_string(),
        fix: None,
    })?;
    Ok(Survey { route: route()?, ..survey })
}

/// What a machine that has no tier 1 is refused with.
pub fn refusal(verdict: &Verdict) -> Refusal {
    let missing = || Refusal { code: "psec-failed", reason: "PSEC was not found".into(), fix: None };
    verdict.lacking.as_ref().map_or_else(missing, Lacking::refusal)
}

/// What programs need to know of this machine.
pub fn defaults() -> Result<WindowsDefaults, Refusal> {
    let asked = |error: crate::sys::windows::error::CallError| Refusal {
        code: "survey",
        reason: error.to_string(),
        fix: None,
    };
    let machine = MACHINE.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    Ok(WindowsDefaults {
        system_root: known::windows_folder().map_err(asked)?,
        local_app_data: known::local_app_data().map_err(asked)?,
        machine: machine.collect(),
    })
}

/// The folder of all runs, at its final place.
pub fn runs(defaults: &WindowsDefaults) -> Result<PathBuf, Refusal> {
    match place(&defaults.local_app_data) {
        Place::Found { real, .. } => Ok(real.join(RUNS)),
        Place::Missing | Place::Closed(_) => Err(Refusal {
            code: "survey",
            reason: format!("{} cannot be opened", crate::text::escape(&defaults.local_app_data)),
            fix: None,
        }),
    }
}

/// A name for one run.
pub fn name() -> Result<String, Refusal> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(|error| Refusal {
        code: "random",
        reason: format!("naming the run: {error}"),
        fix: None,
    })?;
    Ok(format!("{:016x}", u64::from_ne_bytes(random)))
}

/// What stands at a path, opened and asked for its final path.
pub fn place(path: &Path) -> Place {
    let looked = files::open(path, Follow::Yes).and_then(|file| {
        let meta = files::look(&file)?;
        Ok((meta, files::final_path(&file)?))
    });
    match looked {
        Ok((meta, real)) => {
            let kind = match meta.attributes {
                attributes if attributes & DIRECTORY != 0 => Kind::Folder,
                attributes if attributes & DEVICE != 0 => Kind::Other,
                _ => Kind::File,
            };
            Place::Found { real, kind }
        }
        Err(FileError::Call(error)) if error.win32_code().is_some_and(|code| NOT_FOUND.contains(&code)) => {
            Place::Missing
        }
        Err(error) => Place::Closed(error.to_string()),
    }
}
