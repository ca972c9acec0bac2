//! Files and folders that are this user's alone, by their access lists.

use std::fs::File;
use std::io;
use std::path::Path;

use windows::Win32::Foundation::{GENERIC_WRITE, HLOCAL, LocalFree};
use windows::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, SDDL_REVISION_1,
    SE_FILE_OBJECT,
};
use windows::Win32::Security::{OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES};
use windows::Win32::Storage::FileSystem::{
    CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_SHARE_NONE,
};

use super::acl::{self, Kind};
use super::error::as_io;
use super::handle::own;
use super::sid::Sid;
use super::token::Token;
use super::wide::Wide;
use crate::private::Openness;
use crate::text::escape;

/// The system, the machine's administrators, and whoever owns a thing: nobody is kept out by leaving these out, as
/// root is not by a mode (Microsoft Learn, Well-known SIDs).
const SYSTEM: &str = "S-1-5-18";
const ADMINISTRATORS: &str = "S-1-5-32-544";
const OWNER_RIGHTS: &str = "S-1-3-4";

/// For this user, the system and administrators; nothing is inherited from above.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    folder_with(folder, &Descriptor::private("OICI")?)
}

fn folder_with(folder: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let (name, attributes) = (wide(folder)?, descriptor.attributes());
    // SAFETY: the name ends in NUL, and it, the attributes and the descriptor live across the call.
    unsafe { CreateDirectoryW(name.pointer(), Some(&raw const attributes)) }.map_err(as_io)
}

/// The same for a file.
pub fn make_file(file: &Path) -> io::Result<File> {
    let descriptor = Descriptor::private("")?;
    let (name, attributes) = (wide(file)?, descriptor.attributes());
    // SAFETY: the name ends in NUL, and it, the attributes and the descriptor live across the call.
    let handle = unsafe {
        CreateFileW(
            name.pointer(),
            GENERIC_WRITE.0,
            FILE_SHARE_NONE,
            Some(&raw const attributes),
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL,
            None,
        )
    }
    .map_err(as_io)?;
    // SAFETY: just opened, and known here alone.
    Ok(unsafe { own(handle) }.into())
}

/// Whom its access list names besides.
pub fn openness(path: &Path) -> io::Result<Option<Openness>> {
    let user = own_user()?;
    let trusted = [SYSTEM, ADMINISTRATORS, OWNER_RIGHTS, &user];
    let others = match acl::read(path).map_err(io::Error::other)?.entries {
        None => vec!["everybody, since there is none".to_owned()],
        Some(entries) => entries
            .into_iter()
            .filter(|entry| entry.kind != Kind::Deny && !entry.inherit_only)
            // Conditional entries and their like have other forms: whom they let in cannot be told.
            .map(|entry| {
                entry.sid.map_or("somebody by an entry that is not known".to_owned(), |sid| sid.to_string())
            })
            .filter(|name| !trusted.contains(&name.as_str()))
            .collect(),
    };
    if others.is_empty() {
        return Ok(None);
    }
    let inherited = if path.is_dir() { "(OI)(CI)" } else { "" };
    Ok(Some(Openness {
        how: format!("its access list names {}", others.join(", ")),
        fix: format!(
            "`icacls \"{}\" /inheritance:r /grant:r *{user}:{inherited}F *{SYSTEM}:{inherited}F` closes it",
            escape(path)
        ),
    }))
}

/// Is it this user's, or the administrators', whose member made it?
pub fn is_own(path: &Path) -> bool {
    let owner = || Ok::<_, io::Error>((Descriptor::of_owner(path)?.owner()?, own_user()?));
    owner().is_ok_and(|(owner, user)| owner == user || owner == ADMINISTRATORS)
}

fn own_user() -> io::Result<String> {
    Ok(Token::own().and_then(|token| token.user())?.to_string())
}

fn wide(path: &Path) -> io::Result<Wide> {
    Wide::new(path).map_err(io::Error::other)
}

/// A security descriptor that the system allocated.
struct Descriptor {
    all: PSECURITY_DESCRIPTOR,
    /// Points into it; null where it was not asked for.
    owner: PSID,
}

impl Descriptor {
    fn private(inheritance: &str) -> io::Result<Descriptor> {
        let user = own_user()?;
        let text =
            [SYSTEM, ADMINISTRATORS, &user].map(|sid| format!("(A;{inheritance};FA;;;{sid})")).concat();
        Descriptor::parse(&format!("D:P{text}"))
    }

    /// In the security descriptor definition language.
    fn parse(text: &str) -> io::Result<Descriptor> {
        let text = Wide::new(text).map_err(io::Error::other)?;
        let mut all = PSECURITY_DESCRIPTOR::default();
        // SAFETY: the text ends in NUL and lives across the call, which stores what it allocated in `all`.
        unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.pointer(),
                SDDL_REVISION_1,
                &raw mut all,
                None,
            )
        }
        .map_err(as_io)?;
        Ok(Descriptor { all, owner: PSID::default() })
    }

    fn of_owner(path: &Path) -> io::Result<Descriptor> {
        let name = wide(path)?;
        let mut descriptor = Descriptor { all: PSECURITY_DESCRIPTOR::default(), owner: PSID::default() };
        // SAFETY: the name ends in NUL; both places live across the call, which stores what it allocated in the last
        // and a pointer into it in the first.
        let answer = unsafe {
            GetNamedSecurityInfoW(
                name.pointer(),
                SE_FILE_OBJECT,
                OWNER_SECURITY_INFORMATION,
                Some(&raw mut descriptor.owner),
                None,
                None,
                None,
                &raw mut descriptor.all,
            )
        };
        answer.ok().map_err(as_io)?;
        Ok(descriptor)
    }

    fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: self.all.0,
            bInheritHandle: false.into(),
        }
    }

    fn owner(&self) -> io::Result<String> {
        // SAFETY: it points to an identifier in the descriptor, which lives as long as self.
        Ok(unsafe { Sid::copy(self.owner) }?.to_string())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the system allocated it, and nothing else frees it.
        unsafe { LocalFree(Some(HLOCAL(self.all.0))) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_closed_and_another_name_in_the_list_is_told() {
        let top = tempfile::tempdir().unwrap();
        let (folder, file) = (top.path().join("folder"), top.path().join("folder/file"));
        make_folder(&folder).unwrap();
        drop(make_file(&file).unwrap());
        for path in [&folder, &file] {
            assert_eq!((openness(path).unwrap(), is_own(path)), (None, true));
        }
        assert_eq!(make_file(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);

        let open = top.path().join("open");
        let everybody = Descriptor::parse("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;OW)(A;OICI;FR;;;WD)").unwrap();
        folder_with(&open, &everybody).unwrap();
        let told = openness(&open).unwrap().unwrap();
        assert_eq!(told.how, "its access list names S-1-1-0");
        assert!(told.fix.contains("icacls") && told.fix.contains("/inheritance:r"), "{}", told.fix);
    }
}
