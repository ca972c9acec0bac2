//! Fetching a job's repository: git, in a sandbox step of its own that reaches that host and nothing else.
//!
//! What the host asks for goes to git over a descriptor: it is among no arguments, in no variable and in no file, and
//! the job that runs afterwards sees nothing of it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use oz0_egress::Allowlist;
use oz0_fleet::protocol::Repository;
use oz0_sandbox::environ::Environment;
use oz0_sandbox::limits::{Kind, Limits};
use oz0_sandbox::policy::{Network, Policy};
use ureq::http::Uri;

use super::work::{Here, NotMeant, base};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Standard input, which holds what git asks for, becomes descriptor 3, and git's helper for credentials reads that.
/// What may follow the helper's name is a comment to the shell. No protocol but https is spoken, whatever a
/// repository's own files say.
const SCRIPT: &str = r#"exec 3<&0 0</dev/null
git init -q . &&
git -c credential.helper= -c 'credential.helper=!cat <&3 #' -c protocol.allow=never -c protocol.https.allow=always \
    fetch -q --depth 1 --no-tags --no-recurse-submodules --end-of-options "$1" "$2" &&
git checkout -q --detach FETCH_HEAD"#;

/// The step, and what is on its standard input.
pub fn step(repository: &Repository, folder: &Path, here: &Here<'_>) -> Result<(Policy, Vec<u8>), NotMeant> {
    let host = host(&repository.url).ok_or_else(|| {
        NotMeant::because("its repository is not an https URL without a user or a password")
    })?;
    if !is_revision(&repository.revision) {
        return Err(NotMeant::because("its revision is not the name of a branch, a tag or a commit"));
    }
    let mut input = Vec::new();
    if let Some(credential) = &repository.credential {
        let password = credential.password.reveal();
        if [credential.user.as_str(), password].iter().any(|text| text.contains(['\n', '\r', '\0'])) {
            return Err(NotMeant::because("the credential of its repository is not one line each"));
        }
        input = format!("username={}\npassword={password}\n", credential.user).into_bytes();
    }
    let allow = Allowlist::parse(&[host]).map_err(|error| NotMeant::because(error.to_string()))?;
    let mut environment = Environment::default();
    // Nobody is there to be asked, and nobody's own settings have a part in it.
    environment.set("GIT_TERMINAL_PROMPT", "0");
    environment.set("GIT_CONFIG_GLOBAL", if cfg!(windows) { "NUL" } else { "/dev/null" });
    let command = ["sh", "-c", SCRIPT, "fetch", &repository.url, &repository.revision];
    let limits = Limits { timeout: Some(LIMIT), ..Limits::fitted(Kind::Command, here.machine_memory) };
    let network = Network::Proxy { allow, forward: Vec::new() };
    let command = command.into_iter().map(OsString::from).collect();
    Ok((base(command, limits, folder, here, environment, network), input))
}

/// The host and the port that a URL leads to, as an allowlist takes them.
fn host(url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let authority = url.authority()?;
    if url.scheme_str() != Some("https") || authority.as_str().contains('@') || url.query().is_some() {
        return None;
    }
    Some(format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(443)))
}

/// A name as git takes it, and nothing that git would read as more.
fn is_revision(text: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || "-._/@".contains(letter);
    !text.is_empty()
        && text.len() <= 255
        && !text.starts_with(['-', '/'])
        && text.chars().all(plain)
        && !text.contains("..")
        && !text.contains("@{")
}

#[cfg(test)]
mod tests;
