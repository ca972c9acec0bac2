//! Every variable of the environment that the node reads, in one place; nothing else reads it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use oz0_egress::Upstream;
use oz0_sandbox::backend::psec;
use oz0_sandbox::backend::psec::route::{self, Route};
use oz0_sandbox::policy::Caller;

/// Where the node keeps its identity, when `--data-dir` does not say.
pub const DATA_DIR: &str = "OZ0_DATA_DIR";

/// Where this system's users have what is theirs.
struct Places {
    /// The variable that names the home folder.
    home: &'static str,
    /// Where data is kept: below the folder that a variable names, the first that is set.
    data: &'static [(&'static str, &'static str)],
    /// Where it is kept when none is.
    last: &'static str,
}

const PLACES: Places = if cfg!(windows) {
    Places {
        home: "USERPROFILE",
        data: &[
            ("LOCALAPPDATA", "orchestrator-zero-node"),
            ("USERPROFILE", r"AppData\Local\orchestrator-zero-node"),
        ],
        last: r"C:\ProgramData\orchestrator-zero-node",
    }
} else {
    Places {
        home: "HOME",
        data: &[("XDG_DATA_HOME", "oz0-node"), ("HOME", ".local/share/oz0-node")],
        last: "/var/lib/oz0-node",
    }
};

/// What of the user's surroundings decides what is protected and said.
pub fn caller() -> Caller {
    Caller {
        home: folder(PLACES.home),
        config_home: folder("XDG_CONFIG_HOME"),
        terminal: std::env::var("TERM").ok().filter(|name| is_terminal_name(name)),
        search: std::env::var("PATH").ok(),
        detached: false,
    }
}

/// The node's data directory: `--data-dir`, OZ0_DATA_DIR, or the user's own place for such data.
pub fn data_directory(asked: Option<PathBuf>) -> PathBuf {
    // A relative one is meant from where the caller stands; a plan looks for paths from the root.
    asked
        .map(|asked| std::path::absolute(&asked).unwrap_or(asked))
        .or_else(|| folder(DATA_DIR))
        .or_else(|| PLACES.data.iter().find_map(|(name, below)| folder(name).map(|data| data.join(below))))
        .unwrap_or_else(|| PathBuf::from(PLACES.last))
}

/// The folder in which each job gets one of its own: `--jobs-dir`, or the user's own place for what can be made again.
pub fn jobs_directory(asked: Option<PathBuf>) -> PathBuf {
    asked
        .map(|asked| std::path::absolute(&asked).unwrap_or(asked))
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("oz0-node/jobs")))
        .or_else(|| folder("LOCALAPPDATA").map(|local| local.join("oz0-node-jobs")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/oz0-node/jobs")))
        .unwrap_or_else(|| PathBuf::from("/var/cache/oz0-node/jobs"))
}

/// The one-use token with which a node enrols, where `--enrol` does not say.
pub const ENROL_TOKEN: &str = "OZ0_ENROL_TOKEN";

/// That token, when it is set.
pub fn enrol_token() -> Option<String> {
    std::env::var(ENROL_TOKEN).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// The proxy that this machine's own way out leads through, as `http://[user:password@]host:port`. A variable and
/// not an option: a password has no place among arguments.
pub const UPSTREAM_PROXY: &str = "OZ0_UPSTREAM_PROXY";

/// The proxy through which the egress proxy reaches hosts, when one is set. The caller's own proxy variables say
/// nothing to the node.
pub fn upstream() -> Result<Option<Upstream>, String> {
    let Some(url) = std::env::var_os(UPSTREAM_PROXY).filter(|url| !url.is_empty()) else { return Ok(None) };
    let url = url.into_string().map_err(|_| format!("{UPSTREAM_PROXY}: not UTF-8"))?;
    Upstream::parse(&url).map(Some).map_err(|error| format!("{UPSTREAM_PROXY}: {error}"))
}

/// Whether runs by hand in PSEC, which are a preview, are asked for: `1` and nothing else.
pub fn psec_preview() -> bool {
    std::env::var_os(psec::PREVIEW).is_some_and(|value| value == "1")
}

/// The route of PSEC's that the node has asked for already and hands down. Only where there is PSEC.
pub fn psec_route() -> Result<Option<Route>, String> {
    let value = std::env::var_os(route::VARIABLE).filter(|_| psec::HERE).unwrap_or_default();
    Route::parse(&value.to_string_lossy()).map_err(|error| error.to_string())
}

/// The value of one variable, for `--env NAME`.
pub fn value(name: &OsStr) -> Option<OsString> {
    std::env::var_os(name)
}

/// Empty counts as unset, and so does what is no absolute path.
fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn is_terminal_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic())
}
