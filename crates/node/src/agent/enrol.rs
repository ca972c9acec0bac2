//! Becoming a node: a one-use token, given once and never as an argument, and what is kept of the answer.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use oz0_fleet::protocol::{Base64, Code, Enrol, Enrolled, NodeId, Secret, TenantId, Versions, path};
use serde::{Deserialize, Serialize};

use super::edge::{Edge, Trouble};
use super::pace::Pace;
use super::signal::Ending;
use crate::env;

/// Where it is kept, below the data directory.
const FILE: &str = "enrolled.json";
/// No token is longer.
const LONGEST: u64 = 4096;
const LIMIT: Duration = Duration::from_secs(20);

/// What was typed after `--enrol`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFrom {
    /// `-`: standard input.
    Input,
    /// `@FILE`.
    File(PathBuf),
}

/// `--enrol` as typed. What is wrong is said without it.
pub fn token_from(typed: &OsStr) -> Result<TokenFrom, String> {
    let file = typed.to_str().and_then(|text| text.strip_prefix('@')).filter(|file| !file.is_empty());
    match file {
        _ if typed == "-" => Ok(TokenFrom::Input),
        Some(file) => Ok(TokenFrom::File(file.into())),
        None => Err(format!(
            "--enrol: a token is a secret, and arguments are seen by every user of this machine: give `--enrol @FILE`, \
             `--enrol -` to read it from standard input, or set {}; this one is known now, make a new one",
            env::ENROL_TOKEN
        )),
    }
}

/// Why this is no node of that edge.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The token cannot be had.
    #[error("reading the token: {0}")]
    Token(io::Error),
    /// Nobody gave one.
    #[error(
        "this node ({0}) is not enrolled at {1}: make a token there (`oz0 node token`) and start once with \
         `--enrol @FILE`"
    )]
    None(NodeId, String),
    /// The edge did not take it.
    #[error("enrolling {node} at {edge}: {trouble}")]
    Refused {
        /// This node.
        node: NodeId,
        /// Where.
        edge: String,
        /// Its answer.
        trouble: Trouble,
    },
    /// What it said cannot be kept.
    #[error("keeping {}: {error}", oz0_sandbox::text::escape(.path))]
    Keep {
        /// Where.
        path: PathBuf,
        /// What the OS answered.
        error: io::Error,
    },
    /// It was told to end.
    #[error("told to end before it was enrolled")]
    Ending,
}

/// What is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    edge: String,
    node: NodeId,
    tenant: TenantId,
}

/// Be a node of this edge: as kept, or by the token.
pub fn ensure(
    data_directory: &Path,
    edge: &Edge,
    token: Option<TokenFrom>,
    ending: &Ending,
) -> Result<TenantId, EnrolError> {
    let path = data_directory.join(FILE);
    let kept: Option<Kept> = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    if let Some(kept) = kept.filter(|kept| kept.edge == edge.base() && kept.node == edge.node()) {
        return Ok(kept.tenant);
    }
    let token = read(token).map_err(EnrolError::Token)?;
    let token = token.ok_or_else(|| EnrolError::None(edge.node(), edge.base().to_owned()))?;
    let question = Enrol { token, key: Base64(edge.public().to_vec()), speaks: Versions::OURS };
    let mut pace = Pace::default();
    let enrolled: Enrolled = loop {
        match edge.ask(path::ENROL, &question, LIMIT) {
            Ok(enrolled) => break enrolled,
            // A clock is set right by somebody else, often soon after a start.
            Err(trouble) if trouble.passes() || trouble.code() == Some(Code::Clock) => {
                super::tell(&trouble, "enrolling", pace.failures());
                if ending.wait(pace.pause()) {
                    return Err(EnrolError::Ending);
                }
            }
            Err(trouble) => {
                return Err(EnrolError::Refused { node: edge.node(), edge: edge.base().to_owned(), trouble });
            }
        }
    };
    drop(question);
    edge.speak(enrolled.speak);
    let kept = Kept { edge: edge.base().to_owned(), node: edge.node(), tenant: enrolled.tenant };
    keep(&path, &kept).map_err(|error| EnrolError::Keep { path, error })?;
    tracing::info!(node = %edge.node(), tenant = %enrolled.tenant, edge = edge.base(), "enrolled");
    Ok(enrolled.tenant)
}

/// The edge does not know this node any more: the next start enrols again.
pub fn forget(data_directory: &Path) {
    let _ = fs::remove_file(data_directory.join(FILE));
}

fn keep(path: &Path, kept: &Kept) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = fs::File::create(&new)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// The token, without what ends its line.
fn read(from: Option<TokenFrom>) -> io::Result<Option<Secret>> {
    let mut text = zeroize::Zeroizing::new(String::new());
    match from {
        Some(TokenFrom::Input) => io::stdin().lock().take(LONGEST).read_to_string(&mut text)?,
        Some(TokenFrom::File(file)) => {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", oz0_sandbox::text::escape(&file)))
            };
            fs::File::open(&file).map_err(named)?.take(LONGEST).read_to_string(&mut text).map_err(named)?
        }
        None => return Ok(env::enrol_token().map(Secret::new)),
    };
    let token = text.trim();
    if token.is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    Ok(Some(Secret::new(token.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_no_argument() {
        let token_from = |text: &str| token_from(OsStr::new(text));
        assert_eq!(token_from("-"), Ok(TokenFrom::Input));
        assert_eq!(token_from("@/run/token"), Ok(TokenFrom::File("/run/token".into())));
        for text in ["oz0-token-geheim", "@", "", " -"] {
            let advice = token_from(text).unwrap_err();
            assert!(advice.contains("--enrol @FILE") && !advice.contains("geheim"), "{advice}");
        }
    }

    #[test]
    fn a_token_is_a_line_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let from = || Some(TokenFrom::File(file.path().into()));
        assert!(read(from()).unwrap_err().to_string().contains("empty"));
        fs::write(file.path(), "geheim\r\n").unwrap();
        assert_eq!(read(from()).unwrap().unwrap().reveal(), "geheim");
        let missing = read(Some(TokenFrom::File("/nowhere/at all".into()))).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/at all"), "{missing}");
    }
}
