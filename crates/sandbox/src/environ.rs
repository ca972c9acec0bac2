//! The environment of a run, built from nothing: what the caller passes, what the platform's programs need, and
//! the proxy's variables. Never the node's own.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::text;

/// The variables that a caller passes, in order; a later one of the same name wins.
///
/// There is no Debug and no Display: values may be secrets. Plans and reports show [`Environment::names`].
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Environment {
    variables: Vec<Variable>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Variable {
    #[serde(with = "text::name")]
    name: OsString,
    #[serde(with = "text::name")]
    value: OsString,
}

/// Prefix of the node's own variables, which no contained process sees.
pub const NODE_PREFIX: &str = "OZ0_";

/// Variables that would take a program around the proxy; the sandbox sets the proxy's and never these.
const BYPASS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Variables that are the sandbox's own to set.
const PROXY: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Is a variable the same in upper and lower case?
const FOLDED: bool = cfg!(windows);

fn is_nodes_own(name: &OsStr, folded: bool) -> bool {
    let prefix = NODE_PREFIX.as_bytes();
    let start = name.as_encoded_bytes().get(..prefix.len());
    start.is_some_and(|start| start == prefix || (folded && start.eq_ignore_ascii_case(prefix)))
}

fn is_proxys(name: &OsStr, folded: bool) -> bool {
    let mut own = PROXY.iter().chain(&BYPASS);
    own.any(|own| *own == name || (folded && name.eq_ignore_ascii_case(own)))
}

/// A variable that cannot be passed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvironmentError {
    /// Not a name.
    #[error("--env {0}: not a variable's name; give NAME or NAME=VALUE")]
    BadName(String),
    /// NUL in the value.
    #[error("--env {0}: its value holds a NUL byte, which no program can be given")]
    NulInValue(String),
    /// Named without a value and not set here.
    #[error("--env {0}: not set here; give {0}=VALUE, or leave it out")]
    NotSet(String),
    /// One of the node's own.
    #[error("--env {0}: names that start with {NODE_PREFIX} are the node's own and stay outside")]
    NodesOwn(String),
    /// One of the proxy's.
    #[error(
        "--env {0}: the sandbox sets the proxy's variables; which hosts are reached is said with --allow"
    )]
    Proxys(String),
}

impl Environment {
    /// Add what one `--env NAME[=VALUE]` means; `lookup` answers for a name without a value.
    pub fn add(
        &mut self,
        word: &OsStr,
        lookup: impl FnOnce(&OsStr) -> Option<OsString>,
    ) -> Result<(), EnvironmentError> {
        let (name, value) = text::split_variable(word);
        let shown = text::escape(&name);
        if name.is_empty() || name.as_encoded_bytes().contains(&0) {
            return Err(EnvironmentError::BadName(text::escape(word)));
        }
        if is_nodes_own(&name, FOLDED) {
            return Err(EnvironmentError::NodesOwn(shown));
        }
        if is_proxys(&name, FOLDED) {
            return Err(EnvironmentError::Proxys(shown));
        }
        let value = match value {
            Some(value) => value,
            None => lookup(&name).ok_or_else(|| EnvironmentError::NotSet(shown.clone()))?,
        };
        if value.as_encoded_bytes().contains(&0) {
            return Err(EnvironmentError::NulInValue(shown));
        }
        self.set(name, value);
        Ok(())
    }

    /// Set one variable, replacing an earlier one of the same name.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let name = name.into();
        self.variables.retain(|other| other.name != name);
        self.variables.push(Variable { name, value: value.into() });
    }

    /// Set one variable unless the caller has passed it.
    pub fn set_default(&mut self, name: &str, value: impl Into<OsString>) {
        if self.get(name).is_none() {
            self.set(name, value);
        }
    }

    /// The value of one variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|other| other.name == name).map(|found| found.value.as_os_str())
    }

    /// The names, sorted: what may be printed.
    pub fn names(&self) -> Vec<OsString> {
        let mut names: Vec<OsString> = self.variables.iter().map(|variable| variable.name.clone()).collect();
        names.sort();
        names
    }

    /// The variables, in the order in which they were set.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|variable| (variable.name.as_os_str(), variable.value.as_os_str()))
    }

    /// Add the proxy's variables in both spellings, and the switch that makes Node.js heed them.
    pub fn set_proxy(&mut self, url: &str) {
        for name in PROXY {
            self.set(name, url);
        }
        self.set("NODE_USE_ENV_PROXY", "1");
    }

    /// The same on a system that does not tell case apart: in one spelling.
    pub fn set_proxy_once(&mut self, url: &str) {
        for name in PROXY_ONCE {
            self.set(name, url);
        }
        self.set("NODE_USE_ENV_PROXY", "1");
    }

    /// Put the proxy's port into its variables, which were set before it was known, with port 0.
    pub fn set_proxy_port(&mut self, port: u16) {
        for variable in self.variables.iter_mut().filter(|variable| is_proxys(&variable.name, true)) {
            if let Some(url) = variable.value.to_str().and_then(|url| with_port(url, port)) {
                variable.value = url.into();
            }
        }
    }
}

/// The URL of a proxy whose port was not known yet, with its port; none when it is no such URL.
pub fn with_port(url: &str, port: u16) -> Option<String> {
    url.strip_suffix(":0").map(|address| format!("{address}:{port}"))
}

/// The proxy's variables where case is not told apart; a bridge sets them anew when it knows its port.
pub const PROXY_ONCE: [&str; 3] = [PROXY[0], PROXY[1], PROXY[2]];

/// What programs on a Unix system need, for a caller that passed nothing.
pub struct UnixDefaults<'a> {
    /// The caller's name.
    pub user: &'a str,
    /// The run's own home, inside its TEMP.
    pub home: &'a Path,
    /// The run's TEMP.
    pub temp: &'a Path,
    /// Where the command starts.
    pub work: &'a Path,
    /// The terminal's kind, when the run has one.
    pub terminal: Option<&'a OsStr>,
}

/// A search path for programs where the caller passes none.
pub const UNIX_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Environment {
    /// Add what Unix programs need. TMPDIR is always the run's own: the caller's value may not exist inside.
    pub fn set_unix_defaults(&mut self, defaults: &UnixDefaults<'_>) {
        self.set_default("PATH", UNIX_PATH);
        self.set_default("HOME", defaults.home);
        self.set_default("USER", defaults.user);
        self.set_default("LOGNAME", defaults.user);
        self.set_default("SHELL", "/bin/sh");
        self.set_default("LANG", "C.UTF-8");
        if let Some(terminal) = defaults.terminal {
            self.set_default("TERM", terminal);
        }
        self.set("TMPDIR", defaults.temp);
        self.set("PWD", defaults.work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where case is not told apart, no spelling brings in what is refused.
    #[test]
    fn other_cases_of_a_refused_name_are_refused_where_they_are_the_same() {
        for (name, folded, exact) in
            [("OZ0_X", true, true), ("oz0_x", true, false), ("Oz0_", true, false), ("OZ1_X", false, false)]
        {
            assert_eq!(
                (is_nodes_own(name.as_ref(), true), is_nodes_own(name.as_ref(), false)),
                (folded, exact)
            );
        }
        for (name, folded, exact) in [
            ("HTTP_PROXY", true, true),
            ("Http_Proxy", true, false),
            ("no_proxy", true, true),
            ("PROXY", false, false),
        ] {
            assert_eq!((is_proxys(name.as_ref(), true), is_proxys(name.as_ref(), false)), (folded, exact));
        }
    }

    #[test]
    fn a_port_that_comes_later_is_put_in() {
        let mut environment = Environment::default();
        environment.set_proxy_once("http://oz0:t@127.0.0.1:0");
        environment.set("OTHER", "http://x:0");
        environment.set_proxy_port(47330);
        assert_eq!(environment.get("HTTPS_PROXY").unwrap(), "http://oz0:t@127.0.0.1:47330");
        assert_eq!(environment.get("OTHER").unwrap(), "http://x:0");
        assert_eq!(
            environment.names(),
            ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NODE_USE_ENV_PROXY", "OTHER"]
        );
        environment.set_proxy_port(1);
        assert_eq!(environment.get("ALL_PROXY").unwrap(), "http://oz0:t@127.0.0.1:47330");
    }
}
