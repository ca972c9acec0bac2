//! Files and folders that are this user's alone, by their access lists.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt as _;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::Path;

use windows::Win32::Foundation::{GENERIC_WRITE, HANDLE, HLOCAL, LocalFree};
use windows::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW,
    SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, DACL_SECURITY_INFORMATION, GetAce, GetTokenInformation,
    INHERIT_ONLY_ACE, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES,
    TOKEN_QUERY, TOKEN_USER, TokenUser,
};
use windows::Win32::Storage::FileSystem::{
    CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_SHARE_NONE,
};
use windows::Win32::System::SystemServices::{ACCESS_ALLOWED_ACE_TYPE, ACCESS_DENIED_ACE_TYPE};
use windows::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows::core::{PCWSTR, PWSTR};

use crate::private::Openness;
use crate::text::escape;

/// The system, the machine's administrators, and whoever owns a thing: nobody is kept out by leaving these out, as
/// root is not by a mode.
const SYSTEM: &str = "S-1-5-18";
const ADMINISTRATORS: &str = "S-1-5-32-544";
const OWNER_RIGHTS: &str = "S-1-3-4";

/// For this user, the system and administrators; nothing is inherited from above.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    folder_with(folder, &Descriptor::private("OICI")?)
}

fn folder_with(folder: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let (name, attributes) = (wide(folder), descriptor.attributes());
    // SAFETY: the name ends in NUL, and it, the attributes and the descriptor live across the call.
    Ok(unsafe { CreateDirectoryW(PCWSTR(name.as_ptr()), Some(&raw const attributes)) }?)
}

/// The same for a file.
pub fn make_file(file: &Path) -> io::Result<File> {
    let descriptor = Descriptor::private("")?;
    let (name, attributes) = (wide(file), descriptor.attributes());
    // SAFETY: the name ends in NUL, and it, the attributes and the descriptor live across the call.
    let handle = unsafe {
        CreateFileW(
            PCWSTR(name.as_ptr()),
            GENERIC_WRITE.0,
            FILE_SHARE_NONE,
            Some(&raw const attributes),
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL,
            None,
        )
    }?;
    // SAFETY: just opened, and owned from here on.
    Ok(File::from(unsafe { OwnedHandle::from_raw_handle(handle.0) }))
}

/// Whom its access list names besides.
pub fn openness(path: &Path) -> io::Result<Option<Openness>> {
    let user = own_sid()?;
    let trusted = [SYSTEM, ADMINISTRATORS, OWNER_RIGHTS, &user];
    let others = match Descriptor::of(path)?.allowed()? {
        None => vec!["everybody".to_owned()],
        Some(allowed) => allowed.into_iter().filter(|sid| !trusted.contains(&sid.as_str())).collect(),
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
    let owner = || Ok::<_, io::Error>((Descriptor::of(path)?.owner()?, own_sid()?));
    owner().is_ok_and(|(owner, own)| owner == own || owner == ADMINISTRATORS)
}

fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// A security descriptor that the system allocated.
struct Descriptor {
    all: PSECURITY_DESCRIPTOR,
    /// Both point into it; null where it has none.
    owner: PSID,
    list: *mut ACL,
}

impl Descriptor {
    fn private(inheritance: &str) -> io::Result<Descriptor> {
        let user = own_sid()?;
        let text =
            [SYSTEM, ADMINISTRATORS, &user].map(|sid| format!("(A;{inheritance};FA;;;{sid})")).concat();
        Descriptor::parse(&format!("D:P{text}"))
    }

    fn parse(text: &str) -> io::Result<Descriptor> {
        let text: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let mut all = PSECURITY_DESCRIPTOR::default();
        // SAFETY: the text ends in NUL and lives across the call, which stores what it allocated in `all`.
        unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                PCWSTR(text.as_ptr()),
                SDDL_REVISION_1,
                &raw mut all,
                None,
            )
        }?;
        Ok(Descriptor { all, owner: PSID::default(), list: std::ptr::null_mut() })
    }

    fn of(path: &Path) -> io::Result<Descriptor> {
        let name = wide(path);
        let mut descriptor = Descriptor {
            all: PSECURITY_DESCRIPTOR::default(),
            owner: PSID::default(),
            list: std::ptr::null_mut(),
        };
        // SAFETY: the name ends in NUL; the three places live across the call, which stores what it allocated in the
        // last and pointers into it in the others.
        let answer = unsafe {
            GetNamedSecurityInfoW(
                PCWSTR(name.as_ptr()),
                SE_FILE_OBJECT,
                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                Some(&raw mut descriptor.owner),
                None,
                Some(&raw mut descriptor.list),
                None,
                &raw mut descriptor.all,
            )
        };
        answer.ok()?;
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
        sid_text(self.owner)
    }

    /// Everybody whom an entry lets do anything; none when there is no list, which lets everybody do all.
    fn allowed(&self) -> io::Result<Option<Vec<String>>> {
        if self.list.is_null() {
            return Ok(None);
        }
        // SAFETY: the list lies in the descriptor, which lives as long as self.
        let count = unsafe { (*self.list).AceCount };
        let mut allowed = Vec::new();
        for place in 0..u32::from(count) {
            let mut entry: *mut c_void = std::ptr::null_mut();
            // SAFETY: the list is whole and the place is below its count; the entry's address is stored.
            unsafe { GetAce(self.list, place, &raw mut entry) }?;
            // SAFETY: every entry begins with a header.
            let header = unsafe { *entry.cast::<ACE_HEADER>() };
            let kind = u32::from(header.AceType);
            if kind == ACCESS_DENIED_ACE_TYPE || u32::from(header.AceFlags) & INHERIT_ONLY_ACE.0 != 0 {
                continue;
            }
            if kind != ACCESS_ALLOWED_ACE_TYPE {
                // Conditional entries and their like, which have other forms.
                allowed.push(format!("somebody by an entry of kind {kind}"));
                continue;
            }
            // SAFETY: an entry of this kind ends in a SID, whose first part is the last field.
            let sid = unsafe { &raw mut (*entry.cast::<ACCESS_ALLOWED_ACE>()).SidStart };
            allowed.push(sid_text(PSID(sid.cast()))?);
        }
        Ok(Some(allowed))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the system allocated it, and nothing else frees it.
        unsafe { LocalFree(Some(HLOCAL(self.all.0))) };
    }
}

fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text = PWSTR::null();
    // SAFETY: the SID is whole and lives across the call, which stores what it allocated in `text`.
    unsafe { ConvertSidToStringSidW(sid, &raw mut text) }?;
    // SAFETY: the text ends in NUL.
    let copied = unsafe { text.to_string() };
    // SAFETY: the system allocated it, and nothing else frees it.
    unsafe { LocalFree(Some(HLOCAL(text.0.cast()))) };
    copied.map_err(io::Error::other)
}

/// The user that this process runs as.
fn own_sid() -> io::Result<String> {
    let mut token = HANDLE::default();
    // SAFETY: the pseudo-handle of this process needs no closing; the token's handle is stored.
    unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) }?;
    // SAFETY: just opened, and owned from here on.
    let token = unsafe { OwnedHandle::from_raw_handle(token.0) };
    // Of pointers, so that the structure at its beginning is aligned; the longest SID has 68 bytes.
    let mut answer = [std::ptr::null_mut::<c_void>(); 32];
    let mut length = 0;
    // SAFETY: the buffer lives across the call and is as long as is said.
    unsafe {
        GetTokenInformation(
            HANDLE(token.as_raw_handle()),
            TokenUser,
            Some(answer.as_mut_ptr().cast()),
            size_of_val(&answer) as u32,
            &raw mut length,
        )
    }?;
    // SAFETY: the call has filled the buffer with this structure, whose SID lies behind it.
    let user = unsafe { &*answer.as_ptr().cast::<TOKEN_USER>() };
    sid_text(user.User.Sid)
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
