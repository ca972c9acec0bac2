//! A run's folder: its own user's alone, held by a lock, removed when the run is over. In it lies the proxy's socket.
//! What dead runs left is told by their locks.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::private;

/// The file that is locked as long as the run lasts.
const LOCK: &str = "lock";

/// A folder that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {error}", crate::text::escape(.path))]
pub struct FolderError {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
}

/// The folder of one run.
pub struct RunFolder {
    path: PathBuf,
    /// Given back before the folder is removed, since Windows keeps open files.
    lock: Option<File>,
}

impl RunFolder {
    /// Make it, new, and the folder of all runs where that is missing.
    pub fn make(path: &Path) -> Result<RunFolder, FolderError> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |error| FolderError { what, path, error }
        };
        if let Some(runs) = path.parent()
            && !runs.is_dir()
        {
            match private::make_folder(runs) {
                Err(_) if runs.is_dir() => {}
                made => made.map_err(failed("making", runs))?,
            }
        }
        private::make_folder(path).map_err(failed("making", path))?;
        let mut folder = RunFolder { path: path.to_owned(), lock: None };
        let file = path.join(LOCK);
        let lock = File::create(&file).map_err(failed("making", &file))?;
        lock.try_lock().map_err(|error| failed("locking", &file)(io::Error::from(error)))?;
        folder.lock = Some(lock);
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Remove what dead runs left beside it, at most so many.
    pub fn sweep(&self, most: usize) {
        let Some(entries) = self.path.parent().and_then(|runs| fs::read_dir(runs).ok()) else { return };
        for entry in entries.flatten().take(most) {
            let folder = entry.path();
            if folder != self.path
                && let Ok(lock) = File::open(folder.join(LOCK))
                && lock.try_lock().is_ok()
            {
                drop(lock);
                let _ = fs::remove_dir_all(&folder);
            }
        }
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        self.lock = None;
        let _ = fs::remove_dir_all(&self.path);
    }
}
