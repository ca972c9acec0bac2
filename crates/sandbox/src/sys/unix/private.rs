//! Files and folders that are this user's alone, by their mode.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::private::Openness;

/// Mode 700.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Mode 600.
pub fn make_file(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// Any bit of the group's or of the others'.
pub fn openness(path: &Path) -> io::Result<Option<Openness>> {
    let metadata = fs::symlink_metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    let closed = if metadata.is_dir() { 0o700 } else { 0o600 };
    let open = || Openness { how: format!("mode {mode:o}"), fix: format!("`chmod {closed:o}` it") };
    Ok((mode & 0o077 != 0).then(open))
}

/// Its owner is this process's user.
pub fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_made_is_closed_and_an_open_mode_is_told() {
        let top = tempfile::tempdir().unwrap();
        let (folder, file) = (top.path().join("folder"), top.path().join("folder/file"));
        make_folder(&folder).unwrap();
        drop(make_file(&file).unwrap());
        for (path, closed, open) in [(&folder, 0o700, 0o710), (&file, 0o600, 0o604)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, closed);
            assert_eq!((openness(path).unwrap(), is_own(path)), (None, true));
            fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
            let told = openness(path).unwrap().unwrap();
            assert_eq!((told.how, told.fix), (format!("mode {open:o}"), format!("`chmod {closed:o}` it")));
        }
        assert_eq!(make_file(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
