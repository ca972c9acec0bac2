//! What a path really is: link count, identity, reparse point, final path, other names. Everything by handle, opened
//! without following. It refuses to judge: whether a link leads outside is decided elsewhere, by pure functions.

mod reparse;

use std::fs::File;
use std::os::windows::io::{AsHandle as _, BorrowedHandle};
use std::path::{Path, PathBuf};

use windows::Win32::Foundation::{ERROR_HANDLE_EOF, ERROR_MORE_DATA, HANDLE};
use windows::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CreateFileW, FILE_ATTRIBUTE_REPARSE_POINT, FILE_ATTRIBUTE_TAG_INFO,
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_FLAGS_AND_ATTRIBUTES, FILE_ID_INFO,
    FILE_READ_ATTRIBUTES, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FileAttributeTagInfo,
    FileIdInfo, FindClose, FindNextFileNameW, GetFileInformationByHandle, GetFileInformationByHandleEx,
    GetFinalPathNameByHandleW, OPEN_EXISTING, VOLUME_NAME_DOS,
};
use windows::Win32::System::IO::DeviceIoControl;
use windows::Win32::System::Ioctl::FSCTL_GET_REPARSE_POINT;
use windows::core::{PCWSTR, PWSTR, w};

pub use reparse::Reparse;

use super::error::CallError;
use super::handle::{own, raw};
use super::library::{Function, Library, Missing};
use super::wide::{self, InteriorNul, Wide};

/// Whether a link at the end of the path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The link itself is opened.
    No,
    /// What it leads to.
    Yes,
}

/// Which file, on this machine, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The volume's serial number.
    pub volume: u64,
    /// The file's number on it.
    pub file: u128,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// FILE_ATTRIBUTE_* (winnt.h).
    pub attributes: u32,
    /// IO_REPARSE_TAG_* (winnt.h), for a reparse point.
    pub tag: Option<u32>,
    /// Its names.
    pub links: u32,
    /// Which.
    pub id: FileId,
}

/// Why a path could not be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Windows would read a shorter path.
    #[error("the path has {0}")]
    Text(InteriorNul),
    /// Windows refused.
    #[error(transparent)]
    Call(CallError),
    /// This Windows (or this Wine) has no such function.
    #[error(transparent)]
    Missing(Missing),
    /// What came is not in the form that it should have.
    #[error("the reparse point has a form that is not known")]
    Form,
}

impl From<CallError> for FileError {
    fn from(error: CallError) -> FileError {
        FileError::Call(error)
    }
}

/// Opens a file or a folder for looking at, and for no more: nobody else's opening, renaming or removing is stopped.
pub fn open(path: &Path, follow: Follow) -> Result<File, FileError> {
    open_with(path, follow, FILE_READ_ATTRIBUTES.0)
}

pub(super) fn open_with(path: &Path, follow: Follow, access: u32) -> Result<File, FileError> {
    let wide = Wide::new(path).map_err(FileError::Text)?;
    // FILE_FLAG_BACKUP_SEMANTICS is what lets a folder be opened.
    let flags = match follow {
        Follow::No => FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT,
        Follow::Yes => FILE_FLAG_BACKUP_SEMANTICS,
    };
    let handle = open_handle(wide.pointer(), access, flags)?;
    // SAFETY: just opened, and known here alone.
    Ok(unsafe { own(handle) }.into())
}

fn open_handle(path: PCWSTR, access: u32, flags: FILE_FLAGS_AND_ATTRIBUTES) -> Result<HANDLE, CallError> {
    let share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    // SAFETY: the path ends with its NUL and is borrowed for the call.
    unsafe { CreateFileW(path, access, share, None, OPEN_EXISTING, flags, None) }
        .map_err(CallError::of("CreateFileW"))
}

/// What an opened file is.
pub fn look(file: &File) -> Result<Meta, FileError> {
    let handle = file.as_handle();
    let mut by_handle = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the file is open, the result lives on this stack.
    unsafe { GetFileInformationByHandle(raw(handle), &raw mut by_handle) }
        .map_err(CallError::of("GetFileInformationByHandle"))?;
    let attributes = by_handle.dwFileAttributes;
    let tag = if attributes & FILE_ATTRIBUTE_REPARSE_POINT.0 == 0 {
        None
    } else {
        let mut information = FILE_ATTRIBUTE_TAG_INFO::default();
        // SAFETY: the file is open, the result lives on this stack and is as large as is said.
        unsafe {
            GetFileInformationByHandleEx(
                raw(handle),
                FileAttributeTagInfo,
                (&raw mut information).cast(),
                size_of::<FILE_ATTRIBUTE_TAG_INFO>() as u32,
            )
        }
        .map_err(CallError::of("GetFileInformationByHandleEx"))?;
        Some(information.ReparseTag)
    };
    Ok(Meta { attributes, tag, links: by_handle.nNumberOfLinks, id: identity(handle, &by_handle) })
}

/// The long number where the file system has one (ReFS needs it), else the short one, which is whole on NTFS.
fn identity(handle: BorrowedHandle<'_>, by_handle: &BY_HANDLE_FILE_INFORMATION) -> FileId {
    let mut information = FILE_ID_INFO::default();
    // SAFETY: the file is open, the result lives on this stack and is as large as is said.
    let asked = unsafe {
        GetFileInformationByHandleEx(
            raw(handle),
            FileIdInfo,
            (&raw mut information).cast(),
            size_of::<FILE_ID_INFO>() as u32,
        )
    };
    match asked {
        Ok(()) => FileId {
            volume: information.VolumeSerialNumber,
            file: u128::from_le_bytes(information.FileId.Identifier),
        },
        Err(_) => FileId {
            volume: by_handle.dwVolumeSerialNumber.into(),
            file: u128::from(by_handle.nFileIndexHigh) << 32 | u128::from(by_handle.nFileIndexLow),
        },
    }
}

/// Where a reparse point leads, as it says itself; the file must have been opened without following.
pub fn reparse_target(file: &File) -> Result<Reparse, FileError> {
    // MAXIMUM_REPARSE_DATA_BUFFER_SIZE (winnt.h)
    let mut buffer = vec![0_u8; 16 * 1024];
    let mut length = 0_u32;
    // SAFETY: the file is open, the buffer is borrowed for the call with its length, nothing is overlapped.
    unsafe {
        DeviceIoControl(
            raw(file.as_handle()),
            FSCTL_GET_REPARSE_POINT,
            None,
            0,
            Some(buffer.as_mut_ptr().cast()),
            buffer.len() as u32,
            Some(&raw mut length),
            None,
        )
    }
    .map_err(CallError::of("DeviceIoControl"))?;
    Reparse::read(buffer.get(..length as usize).unwrap_or(&buffer)).ok_or(FileError::Form)
}

/// The path of what was really opened: links followed, names long, in the case in which they are stored. It begins
/// with `\\?\`.
pub fn final_path(file: &File) -> Result<PathBuf, FileError> {
    let mut buffer = vec![0_u16; 512];
    loop {
        // SAFETY: the file is open, the buffer is borrowed for the call with its length.
        let length = unsafe { GetFinalPathNameByHandleW(raw(file.as_handle()), &mut buffer, VOLUME_NAME_DOS) }
            as usize;
        match length {
            0 => return Err(CallError::last("GetFinalPathNameByHandleW").into()),
            length if length < buffer.len() => return Ok(wide::text(&buffer[..length]).into()),
            // It says how much it needs.
            length => buffer.resize(length + 1, 0),
        }
    }
}

type FindFirstFileName = unsafe extern "system" fn(PCWSTR, u32, *mut u32, PWSTR) -> HANDLE;

/// All names of a file, from the volume's root, without the drive.
pub fn names(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    const CALL: &str = "FindFirstFileNameW";
    let wide = Wide::new(path).map_err(FileError::Text)?;
    // Every Windows has it; Wine 8 has not, and a program that imports it would not start there.
    let first = Library::find(w!("kernel32.dll"), c"FindFirstFileNameW").map_err(FileError::Missing)?;
    // SAFETY: `HANDLE FindFirstFileNameW(LPCWSTR, DWORD, LPDWORD, PWSTR)` (fileapi.h).
    let first = unsafe { std::mem::transmute::<Function, FindFirstFileName>(first) };
    let mut buffer = vec![0_u16; 1024];
    let search = loop {
        let mut length = buffer.len() as u32;
        // SAFETY: the path ends with its NUL, the buffer is as long as is said.
        let search = unsafe { first(wide.pointer(), 0, &raw mut length, PWSTR(buffer.as_mut_ptr())) };
        if !search.is_invalid() {
            break Search(search);
        }
        grow(CallError::last(CALL), &mut buffer, length)?;
    };
    let mut found = vec![PathBuf::from(wide::text(&buffer))];
    loop {
        let mut length = buffer.len() as u32;
        // SAFETY: the search is open, the buffer is as long as is said.
        let next = unsafe { FindNextFileNameW(search.0, &raw mut length, PWSTR(buffer.as_mut_ptr())) };
        match next.map_err(CallError::of("FindNextFileNameW")) {
            Ok(()) => found.push(wide::text(&buffer).into()),
            Err(error) if error.win32_code() == Some(ERROR_HANDLE_EOF.0) => return Ok(found),
            Err(error) => grow(error, &mut buffer, length)?,
        }
    }
}

/// More room when that is what is missing.
fn grow(error: CallError, buffer: &mut Vec<u16>, needed: u32) -> Result<(), CallError> {
    let needed = needed as usize;
    if error.win32_code() != Some(ERROR_MORE_DATA.0) || needed <= buffer.len() {
        return Err(error);
    }
    buffer.resize(needed, 0);
    Ok(())
}

struct Search(HANDLE);

impl Drop for Search {
    fn drop(&mut self) {
        // SAFETY: a search that was begun, ended here alone. Nothing can be done about a failure.
        let _ = unsafe { FindClose(self.0) };
    }
}

#[cfg(test)]
mod tests;
