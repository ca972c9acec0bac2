//! The Landlock ruleset of a plan: the same grants as the mounts, held a second time by another part of the
//! kernel. Enforced whole or the run does not start.

use std::os::fd::{AsFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::plan::LandlockPlan;

/// The newest version whose rules are written here; a newer kernel is asked for this one's.
///
/// Version 6 scopes abstract sockets and signals. What 7 and 8 add concerns logging and threads.
pub const NEWEST: u32 = 6;

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum LandlockError {
    /// The kernel did not take it.
    #[error("landlock: {0}")]
    Ruleset(#[from] RulesetError),
    /// A path of the plan does not open.
    #[error("landlock: {0}")]
    Path(#[from] landlock::PathFdError),
    /// The crate made none, though the kernel has Landlock.
    #[error("landlock: the kernel took no ruleset")]
    None,
}

/// Make the ruleset, in the tree as the run sees it. `inherited` are the regular files that descriptors 0 to 2
/// lead to: they may be opened again (as `/dev/stderr`, say) for what each descriptor already allows.
pub fn ruleset(plan: &LandlockPlan, inherited: &[InheritedFile<'_>]) -> Result<OwnedFd, LandlockError> {
    let abi = ABI::from(i32::try_from(plan.abi).unwrap_or(0));
    let all = AccessFs::from_all(abi);
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(all)?;
    if plan.abi >= 6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut created = ruleset.create()?;
    let device = (AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev) & all;
    for (paths, access) in [
        (&plan.read, AccessFs::from_read(abi)),
        (&plan.write, all),
        (&plan.devices, AccessFs::from_read(abi) | device),
    ] {
        for path in paths {
            let opened = PathFd::new(path)?;
            // Rights that only folders have are refused on a file (and on a FIFO, a socket, a device).
            let allowed = if is_folder(&opened) { access } else { access & AccessFs::from_file(abi) };
            created = created.add_rule(PathBeneath::new(opened, allowed))?;
        }
    }
    for file in inherited {
        let read = if file.read { AccessFs::ReadFile.into() } else { BitFlags::EMPTY };
        let write = AccessFs::WriteFile | AccessFs::Truncate;
        let write = if file.write { write } else { BitFlags::EMPTY };
        created = created.add_rule(PathBeneath::new(file.descriptor, (read | write) & all))?;
    }
    Option::<OwnedFd>::from(created).ok_or(LandlockError::None)
}

/// A regular file that the caller opened and hands to the run.
pub struct InheritedFile<'a> {
    /// The descriptor.
    pub descriptor: std::os::fd::BorrowedFd<'a>,
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
}

fn is_folder(opened: &PathFd) -> bool {
    rustix::fs::fstat(opened.as_fd()).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    })
}

/// Is this Landlock version one under which a read-only file cannot be cut short?
pub fn covers_truncation(abi: u32) -> bool {
    abi >= 3
}
