//! Folders by what they are for, as Windows itself says, not the environment. It refuses to know what lies in them.

use std::path::PathBuf;

use windows::Win32::Foundation::MAX_PATH;
use windows::Win32::System::Com::CoTaskMemFree;
use windows::Win32::System::SystemInformation::{GetSystemDirectoryW, GetSystemWindowsDirectoryW};
use windows::Win32::UI::Shell::{
    FOLDERID_LocalAppData, FOLDERID_ProgramFiles, FOLDERID_ProgramFilesX86, KF_FLAG_DEFAULT,
    SHGetKnownFolderPath,
};
use windows::core::GUID;

use super::error::CallError;
use super::wide;

/// System32.
pub fn system_folder() -> Result<PathBuf, CallError> {
    // SAFETY: the call writes into the buffer that it is given, with its length.
    written("GetSystemDirectoryW", |buffer| unsafe { GetSystemDirectoryW(Some(buffer)) })
}

/// The Windows folder, the machine's and not a session's own.
pub fn windows_folder() -> Result<PathBuf, CallError> {
    // SAFETY: likewise.
    written("GetSystemWindowsDirectoryW", |buffer| unsafe { GetSystemWindowsDirectoryW(Some(buffer)) })
}

fn written(call: &'static str, ask: impl Fn(&mut [u16]) -> u32) -> Result<PathBuf, CallError> {
    let mut buffer = [0_u16; MAX_PATH as usize + 1];
    match ask(&mut buffer) as usize {
        0 => Err(CallError::last(call)),
        length if length < buffer.len() => Ok(wide::text(&buffer[..length]).into()),
        // ERROR_INSUFFICIENT_BUFFER (winerror.h); neither folder's path can be that long.
        _ => Err(CallError::win32(call, 122)),
    }
}

/// The user's own place for data that stays on this machine.
pub fn local_app_data() -> Result<PathBuf, CallError> {
    folder(&FOLDERID_LocalAppData)
}

/// Where programs are installed for every user, of both widths. One that this machine does not have is left out.
pub fn program_files() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        [FOLDERID_ProgramFiles, FOLDERID_ProgramFilesX86].iter().filter_map(|id| folder(id).ok()).collect();
    folders.dedup();
    folders
}

fn folder(id: &GUID) -> Result<PathBuf, CallError> {
    // SAFETY: the id is borrowed for the call, and no other user's token is passed in.
    let made = unsafe { SHGetKnownFolderPath(id, KF_FLAG_DEFAULT, None) }
        .map_err(CallError::of("SHGetKnownFolderPath"))?;
    // SAFETY: the call has made a NUL-ended text there.
    let path = wide::text(unsafe { made.as_wide() });
    // SAFETY: the call says that its caller frees it so; freed here alone.
    unsafe { CoTaskMemFree(Some(made.0.cast())) };
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_are_there() {
        let system = system_folder().expect("System32");
        assert!(system.join("kernel32.dll").is_file(), "{system:?}");
        assert!(system.starts_with(windows_folder().expect("the Windows folder")));
        assert!(local_app_data().expect("LOCALAPPDATA").is_absolute());
        let programs = program_files();
        assert!(!programs.is_empty() && programs.iter().all(|folder| folder.is_absolute()), "{programs:?}");
    }
}
