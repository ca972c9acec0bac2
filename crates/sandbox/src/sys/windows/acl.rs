//! Who may open a file or a folder: its access list read, and one identifier's entry given and taken back. It refuses
//! to touch a drive's root, Windows' own folder or Program Files, whatever it is asked.

use std::fs::File;
use std::os::windows::io::AsHandle as _;
use std::path::{Path, PathBuf};

use windows::Win32::Security::Authorization::{
    ACCESS_MODE, EXPLICIT_ACCESS_W, GRANT_ACCESS, GetSecurityInfo, REVOKE_ACCESS, SE_FILE_OBJECT,
    SetEntriesInAclW, SetSecurityInfo, TRUSTEE_IS_SID, TRUSTEE_W,
};
use windows::Win32::Security::{
    ACE_FLAGS, ACE_HEADER, ACL, DACL_SECURITY_INFORMATION, GetAce, INHERIT_ONLY_ACE, INHERITED_ACE,
    NO_INHERITANCE, PSECURITY_DESCRIPTOR, PSID, SUB_CONTAINERS_AND_OBJECTS_INHERIT,
};
use windows::Win32::Storage::FileSystem::{
    DELETE, FILE_GENERIC_EXECUTE, FILE_GENERIC_READ, FILE_GENERIC_WRITE, FILE_READ_ATTRIBUTES, READ_CONTROL,
    WRITE_DAC,
};
use windows::core::PWSTR;

use super::error::CallError;
use super::files::{self, FileError, Follow};
use super::handle::{Local, raw};
use super::known;
use super::sid::Sid;

/// What an entry allows. The masks are those that microsoft/mxc gives a container (appcontainer_dacl).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, list, run, enter.
    ReadExecute,
    /// That, and write, make and remove.
    ReadWrite,
}

impl Access {
    /// As a mask.
    pub fn mask(self) -> u32 {
        let read = FILE_GENERIC_READ.0 | FILE_GENERIC_EXECUTE.0;
        match self {
            Access::ReadExecute => read,
            Access::ReadWrite => read | FILE_GENERIC_WRITE.0 | DELETE.0,
        }
    }
}

/// How far an entry reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The file or folder itself.
    This,
    /// And all that is below it, now and later.
    Below,
}

/// Why an access list was not read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// A place whose list is not ours to change.
    #[error("{}: {what}, whose access list is left alone", path.display())]
    Untouchable {
        /// Where the path really leads.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It has no list: everyone may do everything, and an entry would shut all others out.
    #[error("it has no access list, so that an entry would shut everyone else out")]
    NoList,
    /// It could not be looked at.
    #[error(transparent)]
    File(FileError),
    /// Windows refused.
    #[error(transparent)]
    Call(CallError),
}

/// An access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dacl {
    /// In Windows' order; none when there is no list at all, which lets everyone do everything.
    pub entries: Option<Vec<Entry>>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it does.
    pub kind: Kind,
    /// Whose it is; none for a kind that is not known here.
    pub sid: Option<Sid>,
    /// What it is about.
    pub mask: u32,
    /// It comes from a folder above.
    pub inherited: bool,
    /// It concerns only what is below, not the folder itself.
    pub inherit_only: bool,
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It allows.
    Allow,
    /// It refuses.
    Deny,
    /// Another kind, by its number (winnt.h, *_ACE_TYPE).
    Other(u8),
}

impl Dacl {
    /// Whether an entry of this identifier's allows any of this. Refusing entries do not count: who asks whether a
    /// list lets someone in wants to know of every way.
    pub fn allows(&self, sid: &Sid, mask: u32) -> bool {
        let Some(entries) = &self.entries else { return true };
        entries.iter().any(|entry| {
            entry.kind == Kind::Allow
                && !entry.inherit_only
                && entry.sid.as_ref() == Some(sid)
                && specific(entry.mask) & mask != 0
        })
    }

    /// Entries of a kind that is not known here: whom they let in cannot be told.
    pub fn has_unknown(&self) -> bool {
        self.entries.iter().flatten().any(|entry| matches!(entry.kind, Kind::Other(_)))
    }
}

/// Generic rights as files have them (winnt.h, GENERIC_*; wdm.h, IoGetFileObjectGenericMapping).
pub fn specific(mask: u32) -> u32 {
    [
        (0x8000_0000, FILE_GENERIC_READ.0),
        (0x4000_0000, FILE_GENERIC_WRITE.0),
        (0x2000_0000, FILE_GENERIC_EXECUTE.0),
        // FILE_ALL_ACCESS
        (0x1000_0000, 0x001F_01FF),
    ]
    .into_iter()
    .filter(|(generic, _)| mask & generic != 0)
    .fold(mask & 0x0FFF_FFFF, |mask, (_, files)| mask | files)
}

/// The access list of what the path itself is; a link is not followed.
pub fn read(path: &Path) -> Result<Dacl, AclError> {
    let file = files::open_with(path, Follow::No, READ_CONTROL.0).map_err(AclError::File)?;
    let (list, _memory) = list(&file)?;
    let Some(list) = list else { return Ok(Dacl { entries: None }) };
    // SAFETY: the list lies in the descriptor, which lives until the end of this function.
    let count = unsafe { (*list).AceCount };
    let entries = (0..u32::from(count)).map(|place| {
        let mut found = std::ptr::null_mut();
        // SAFETY: the list is valid, as Windows has just made it, the result lives on this stack.
        unsafe { GetAce(list, place, &raw mut found) }.map_err(CallError::of("GetAce"))?;
        // SAFETY: an entry begins with its head and is as long as that says; see above for how long it lives.
        unsafe { entry(found.cast()) }
    });
    entries.collect::<Result<_, _>>().map(|entries| Dacl { entries: Some(entries) }).map_err(AclError::Call)
}

/// # Safety
/// The pointer leads to an entry of a list, readable as far as its own head says.
unsafe fn entry(from: *const ACE_HEADER) -> Result<Entry, CallError> {
    // SAFETY: the caller's promise.
    let head = unsafe { from.read() };
    let flags = ACE_FLAGS(head.AceFlags.into());
    // ACCESS_ALLOWED_ACE_TYPE 0, ACCESS_DENIED_ACE_TYPE 1 (winnt.h): after the head a mask, then the identifier.
    let kind = match head.AceType {
        0 => Kind::Allow,
        1 => Kind::Deny,
        other => Kind::Other(other),
    };
    let (mask, sid) = if matches!(kind, Kind::Other(_)) {
        (0, None)
    } else {
        // SAFETY: both kinds have a mask after the head.
        let mask = unsafe { from.add(1).cast::<u32>().read_unaligned() };
        // SAFETY: and the identifier after that, within the entry.
        let sid = unsafe { Sid::copy(PSID(from.add(2).cast_mut().cast())) }?;
        (mask, Some(sid))
    };
    Ok(Entry {
        kind,
        sid,
        mask,
        inherited: flags.contains(INHERITED_ACE),
        inherit_only: flags.contains(INHERIT_ONLY_ACE),
    })
}

/// Lets an identifier in, beside those that the list already lets in.
pub fn grant(path: &Path, sid: &Sid, access: Access, reach: Reach) -> Result<(), AclError> {
    change(path, sid, GRANT_ACCESS, access.mask(), reach)
}

/// Takes back what the list allows an identifier.
pub fn revoke(path: &Path, sid: &Sid) -> Result<(), AclError> {
    change(path, sid, REVOKE_ACCESS, 0, Reach::This)
}

fn change(path: &Path, sid: &Sid, mode: ACCESS_MODE, mask: u32, reach: Reach) -> Result<(), AclError> {
    let access = READ_CONTROL.0 | WRITE_DAC.0 | FILE_READ_ATTRIBUTES.0;
    // By handle throughout: what was looked at is what is changed.
    let file = files::open_with(path, Follow::No, access).map_err(AclError::File)?;
    let real = files::final_path(&file).map_err(AclError::File)?;
    let link = files::look(&file).map_err(AclError::File)?.tag.is_some().then_some("a link");
    if let Some(what) = link.or_else(|| untouchable(&real, &kept())) {
        return Err(AclError::Untouchable { path: real, what });
    }
    let (old, _memory) = list(&file)?;
    let Some(old) = old else { return Err(AclError::NoList) };
    let entry = EXPLICIT_ACCESS_W {
        grfAccessPermissions: mask,
        grfAccessMode: mode,
        grfInheritance: match reach {
            Reach::This => NO_INHERITANCE,
            Reach::Below => SUB_CONTAINERS_AND_OBJECTS_INHERIT,
        },
        Trustee: TRUSTEE_W {
            TrusteeForm: TRUSTEE_IS_SID,
            // With this form the name is the identifier's address (accctrl.h).
            ptstrName: PWSTR(sid.pointer().0.cast()),
            ..Default::default()
        },
    };
    let mut new: *mut ACL = std::ptr::null_mut();
    // SAFETY: the entry and the identifier are borrowed for the call, the old list lives until the end of this
    // function, the result lives on this stack.
    let answer = unsafe { SetEntriesInAclW(Some(&[entry]), Some(old), &raw mut new) };
    check("SetEntriesInAclW", answer.0)?;
    let _new_memory = Local(new.cast());
    // SAFETY: the file is open, the new list lives until the end of this function.
    let answer = unsafe {
        SetSecurityInfo(
            raw(file.as_handle()),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION,
            None,
            None,
            Some(new.cast_const()),
            None,
        )
    };
    check("SetSecurityInfo", answer.0)
}

/// The list and the memory that it lies in; no list is null.
fn list(file: &File) -> Result<(Option<*const ACL>, Local), AclError> {
    let mut list: *mut ACL = std::ptr::null_mut();
    let mut descriptor = PSECURITY_DESCRIPTOR::default();
    // SAFETY: the file is open, the results live on this stack.
    let answer = unsafe {
        GetSecurityInfo(
            raw(file.as_handle()),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION,
            None,
            None,
            Some(&raw mut list),
            None,
            Some(&raw mut descriptor),
        )
    };
    check("GetSecurityInfo", answer.0)?;
    let memory = Local(descriptor.0);
    Ok(((!list.is_null()).then_some(list.cast_const()), memory))
}

fn check(call: &'static str, code: u32) -> Result<(), AclError> {
    if code == 0 { Ok(()) } else { Err(AclError::Call(CallError::win32(call, code))) }
}

/// Folders of the system's, each with what it is.
fn kept() -> Vec<(PathBuf, &'static str)> {
    let programs = known::program_files().into_iter().map(|folder| (folder, "in Program Files"));
    programs.chain(known::windows_folder().ok().map(|folder| (folder, "in Windows' own folder"))).collect()
}

/// What a path is when its list is not ours to change. Pure: the path is a final one, with `\\?\` before it.
fn untouchable(path: &Path, kept: &[(PathBuf, &'static str)]) -> Option<&'static str> {
    let plain = path.to_string_lossy();
    let plain = plain.strip_prefix(r"\\?\").unwrap_or(&plain).trim_end_matches('\\').to_lowercase();
    // A share's root has no name of its own either; no list on another machine is changed at all.
    if plain.starts_with(r"unc\") || plain.starts_with(r"\\") {
        return Some("on another machine");
    }
    if plain.len() <= 2 || plain.starts_with("volume{") && !plain.contains('\\') {
        return Some("a drive's root");
    }
    kept.iter().find_map(|(folder, what)| {
        let folder = folder.to_string_lossy().trim_end_matches('\\').to_lowercase();
        let below = plain.strip_prefix(folder.as_str())?;
        (below.is_empty() || below.starts_with('\\')).then_some(*what)
    })
}

#[cfg(test)]
mod tests;
