//! What of /etc programs need: a table with a reason a line. Everything else stays outside, keys and password
//! files first.

use std::path::PathBuf;

/// One entry, relative to /etc; a `*` stands for any text within one name.
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// How it is offered.
    pub treatment: Treatment,
    /// Why it is.
    pub reason: &'static str,
}

/// The longest file that is copied.
pub const SMALL: usize = 256 * 1024;

/// How an entry is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Small: it is copied into the run's own tree.
    Copy,
    /// A folder or a large file: bound read-only.
    Bind,
    /// Copied when the run has a terminal: every start pays for what is copied.
    AtATerminal,
}

const fn copy(name: &'static str, reason: &'static str) -> Entry {
    Entry { name, treatment: Treatment::Copy, reason }
}

const fn bind(name: &'static str, reason: &'static str) -> Entry {
    Entry { name, treatment: Treatment::Bind, reason }
}

const fn at_a_terminal(name: &'static str, reason: &'static str) -> Entry {
    Entry { name, treatment: Treatment::AtATerminal, reason }
}

/// The table. `passwd`, `group`, `hosts`, `resolv.conf` and `nsswitch.conf` are not in it: they are made for
/// the run.
pub const ENTRIES: &[Entry] = &[
    bind("ld.so.cache", "the dynamic linker finds libraries by it"),
    bind("alternatives", "commands that are links through it (java, awk, editor)"),
    bind("ssl/certs", "authorities that TLS clients trust"),
    copy("ssl/openssl.cnf", "OpenSSL's settings; without it some builds refuse to start"),
    copy("ssl/cert.pem", "the authorities in one file, where a system keeps them so"),
    bind("pki/tls/certs", "the same on Red Hat's systems"),
    bind("pki/ca-trust/extracted", "the same on Red Hat's systems"),
    bind("crypto-policies", "system-wide TLS settings on Red Hat's systems"),
    bind("ca-certificates/extracted", "the same on Arch Linux"),
    bind("java-*-openjdk", "Debian keeps the JDK's own settings here; java does not start without"),
    bind("java", "Red Hat's place for the same"),
    bind("fonts", "browsers and PDF tools"),
    bind(
        "chromium.d",
        "Debian's start script of Chromium reads every file in it, and ends where there is none",
    ),
    copy("localtime", "local time"),
    copy("os-release", "which system this is"),
    copy("services", "names of ports"),
    copy("protocols", "names of protocols"),
    copy("gitconfig", "git's settings for all users of the machine"),
    at_a_terminal("bash.bashrc", "interactive shells"),
    at_a_terminal("profile", "login shells"),
    at_a_terminal("inputrc", "line editing"),
];

/// The paths that an entry names on this machine.
pub fn matches(entry: &Entry) -> Vec<PathBuf> {
    let etc = PathBuf::from("/etc");
    let Some((before, after)) = entry.name.split_once('*') else { return vec![etc.join(entry.name)] };
    let Ok(names) = std::fs::read_dir(&etc) else { return Vec::new() };
    let mut found: Vec<PathBuf> = names
        .filter_map(|name| name.ok()?.file_name().into_string().ok())
        .filter(|name| name.len() >= before.len() + after.len())
        .filter(|name| name.starts_with(before) && name.ends_with(after))
        .map(|name| etc.join(name))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_in_the_table() {
        for entry in ENTRIES {
            for word in ["shadow", "private", "key", "ssh", "sudo", "krb5", "wireguard", "secret"] {
                assert!(!entry.name.contains(word), "{} is offered inside", entry.name);
            }
            assert!(!entry.reason.is_empty());
        }
    }
}
