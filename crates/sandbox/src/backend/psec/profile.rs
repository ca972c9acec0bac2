//! The AppContainer profile that relays run in: made for this user without an administrator, let into what a relay
//! needs and no more, and taken away again.

use std::path::{Path, PathBuf};

use super::route::PROFILE;
use crate::sys::windows::acl::{self, Access, AclError, Reach};
use crate::sys::windows::profile::{self, ProfileError};
use crate::sys::windows::sid::Sid;
use crate::text::escape;

/// Neither may be empty (Microsoft Learn, CreateAppContainerProfile).
const DISPLAY: &str = "Orchestrator Zero egress relay";
const DESCRIPTION: &str = "Forwards connections of a confined run to its egress proxy";

/// Why the profile is not ready, or not gone.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// The profile itself.
    #[error("the profile {PROFILE}: {0}")]
    Profile(#[from] ProfileError),
    /// Something that a relay needs.
    #[error("letting the profile {PROFILE} into {}: {error}", escape(path))]
    Access {
        /// What.
        path: PathBuf,
        /// What was in the way.
        error: AclError,
    },
}

/// Makes the profile, or finds it, and lets it read and execute the node's program. A program whose list lets every
/// container do that already, as below Program Files, is left as it is.
pub fn ready(binary: &Path) -> Result<Sid, ReadyError> {
    let sid = profile::create(PROFILE, DISPLAY, DESCRIPTION)?;
    let failed = |error| ReadyError::Access { path: binary.to_owned(), error };
    if !may_execute(binary, &sid).map_err(failed)? {
        acl::grant(binary, &sid, Access::ReadExecute, Reach::This).map_err(failed)?;
    }
    Ok(sid)
}

/// Lets it connect to the sockets of one run, by their folder, which goes with the run.
pub fn open_folder(folder: &Path, sid: &Sid) -> Result<(), ReadyError> {
    acl::grant(folder, sid, Access::ReadWrite, Reach::Below)
        .map_err(|error| ReadyError::Access { path: folder.to_owned(), error })
}

/// Its identifier, which is the same on every machine.
pub fn sid() -> Result<Sid, ReadyError> {
    Ok(profile::derive(PROFILE)?)
}

/// Takes back what was granted and removes the profile. A later run makes it again.
pub fn remove(binary: &Path) -> Result<(), ReadyError> {
    let sid = sid()?;
    let failed = |error| ReadyError::Access { path: binary.to_owned(), error };
    let list = acl::read(binary).map_err(failed)?;
    if list.entries.iter().flatten().any(|entry| entry.sid.as_ref() == Some(&sid) && !entry.inherited) {
        acl::revoke(binary, &sid).map_err(failed)?;
    }
    Ok(profile::delete(PROFILE)?)
}

fn may_execute(binary: &Path, sid: &Sid) -> Result<bool, AclError> {
    let list = acl::read(binary)?;
    // All of it by one entry: two halves from two entries do not happen by themselves.
    let needed = Access::ReadExecute.mask();
    let whole = |who: &Sid| {
        list.entries.is_none()
            || list.entries.iter().flatten().any(|entry| {
                entry.kind == acl::Kind::Allow
                    && !entry.inherit_only
                    && entry.sid.as_ref() == Some(who)
                    && acl::specific(entry.mask) & needed == needed
            })
    };
    Ok(whole(sid) || whole(&Sid::all_application_packages()))
}
