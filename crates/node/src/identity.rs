//! The node's data directory and its key, which no run may reach: made once, for this user alone.
//!
//! What the key signs is not known here.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use oz0_sandbox::private::{self, Openness};
use zeroize::Zeroizing;

/// Where the key is, below the data directory.
const KEY: &str = "identity/node.key";

/// Bytes of a key.
const LENGTH: usize = 32;

/// A data directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A call failed.
    #[error("{call} {}: {error}", oz0_sandbox::text::escape(.path))]
    Call {
        /// What was tried.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// What the OS answered.
        error: io::Error,
    },
    /// Others may reach it.
    #[error(
        "{} is open to other users ({}): {}, and make a new key if others may have read this one",
        oz0_sandbox::text::escape(.path), .openness.how, .openness.fix
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// How, and what closes it.
        openness: Openness,
    },
    /// The key is not one.
    #[error("{} is no key of {LENGTH} bytes: remove it, and the next start makes a new one", oz0_sandbox::text::escape(.0))]
    Form(PathBuf),
    /// No randomness.
    #[error("making the node's key: {0}")]
    Random(io::Error),
}

/// Make the data directory and the key where they are missing, and refuse them where others may reach them.
pub fn ensure(data_directory: &Path) -> Result<(), IdentityError> {
    let key = data_directory.join(KEY);
    let identity = key.parent().unwrap_or(data_directory);
    for folder in [data_directory, identity] {
        make_folder(folder)?;
        is_private(folder)?;
    }
    if !key.exists() {
        make_key(&key)?;
    }
    is_private(&key)?;
    match fs::metadata(&key) {
        Ok(metadata) if metadata.is_file() && metadata.len() == LENGTH as u64 => Ok(()),
        Ok(_) => Err(IdentityError::Form(key)),
        Err(error) => Err(IdentityError::Call { call: "looking at", path: key, error }),
    }
}

/// The seed of the node's key, once [`ensure`] has said that it is there.
pub fn seed(data_directory: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let path = data_directory.join(KEY);
    fs::read(&path).map(Zeroizing::new).map_err(|error| IdentityError::Call { call: "reading", path, error })
}

fn make_folder(folder: &Path) -> Result<(), IdentityError> {
    // The folders above it are the user's own; only what is the node's is closed.
    let failed = |error| IdentityError::Call { call: "making", path: folder.to_owned(), error };
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    match private::make_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made.map_err(failed),
    }
}

fn is_private(path: &Path) -> Result<(), IdentityError> {
    let openness = private::openness(path).map_err(|error| IdentityError::Call {
        call: "looking at",
        path: path.to_owned(),
        error,
    })?;
    match openness {
        None => Ok(()),
        Some(openness) => Err(IdentityError::Open { path: path.to_owned(), openness }),
    }
}

/// Written whole under another name first, so that a node that ends here leaves no half key.
fn make_key(key: &Path) -> Result<(), IdentityError> {
    let mut bytes = [0u8; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| IdentityError::Random(io::Error::other(error)))?;
    let new = key.with_extension(format!("new-{}", std::process::id()));
    let failed = |call| {
        let path = new.clone();
        move |error| IdentityError::Call { call, path, error }
    };
    let written =
        private::make_file(&new).and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
    bytes.fill(0);
    written.map_err(failed("writing"))?;
    // A link instead of a rename: a key that another start made meanwhile stays.
    let linked = fs::hard_link(&new, key);
    let removed = fs::remove_file(&new).map_err(failed("removing"));
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(IdentityError::Call { call: "making", path: key.to_owned(), error })
        }
        _ => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_for_this_user_alone() {
        let top = tempfile::tempdir().unwrap();
        let data = top.path().join("above/data");
        ensure(&data).unwrap();
        let key = fs::read(data.join(KEY)).unwrap();
        assert_eq!(key.len(), LENGTH);
        for path in [data.clone(), data.join("identity"), data.join(KEY)] {
            assert_eq!(private::openness(&path).unwrap(), None, "{}", path.display());
        }
        ensure(&data).unwrap();
        assert_eq!(fs::read(data.join(KEY)).unwrap(), key);
        assert_eq!(fs::read_dir(data.join("identity")).unwrap().count(), 1);
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let data = top.path().join("data");
        ensure(&data).unwrap();
        fs::write(data.join(KEY), "short").unwrap();
        assert!(matches!(ensure(&data), Err(IdentityError::Form(_))));
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_reach_is_refused_with_what_to_do() {
        use std::os::unix::fs::PermissionsExt as _;
        let top = tempfile::tempdir().unwrap();
        let data = top.path().join("data");
        ensure(&data).unwrap();
        for (path, mode) in [(data.clone(), 0o755), (data.join("identity"), 0o711), (data.join(KEY), 0o640)] {
            let before = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = ensure(&data).unwrap_err().to_string();
            assert!(error.contains("open to other users") && error.contains("chmod"), "{error}");
            fs::set_permissions(&path, before).unwrap();
        }
    }
}
