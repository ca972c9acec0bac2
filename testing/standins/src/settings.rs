//! What a test has set: which Windows this is, what fails, and where the ledger lies. A file of `key=value` lines, named
//! by the variable `STANDIN`; what is not set is as on 26200.9457.

use crate::specification::Contract;

/// The variable that names the file.
pub const VARIABLE: &str = "STANDIN";

/// Which Windows this is, and what fails on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Is PSEC here at all: the set of functions and the library.
    pub psec: bool,
    /// Functions that processmodel.dll lacks.
    pub missing: Vec<String>,
    pub contract: Contract,
    /// HRESULT of the questions for support and version.
    pub query: Option<u32>,
    /// HRESULT of every attempt to make an environment; of the first that names paths; success without a handle.
    pub create: Option<u32>,
    pub create_once: Option<u32>,
    pub create_null: bool,
    /// Win32 errors: of setting the attribute, of the launch, of putting the child in its job, of letting it go on.
    pub attribute: Option<u32>,
    pub launch: Option<u32>,
    pub assign: Option<u32>,
    pub resume: Option<u32>,
    /// The child ends before anybody lets it go on.
    pub die_before_resume: bool,
    pub token: Token,
    /// HRESULT of making the relay's profile; Win32 errors of its attribute and its launch.
    pub profile: Option<u32>,
    pub relay_attribute: Option<u32>,
    pub relay_launch: Option<u32>,
    /// Where calls are written down.
    pub ledger: Option<String>,
    /// Where profiles lie.
    pub state: String,
}

/// What a contained process's token says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    AppContainer,
    /// It is none.
    None,
    LessPrivileged,
    /// An AppContainer whose integrity is not low.
    Medium,
    /// The question is refused.
    Refused,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            psec: true,
            missing: Vec::new(),
            contract: Contract { major: 1, minor: 0, features: Contract::DENY | Contract::PROXY },
            query: None,
            create: None,
            create_once: None,
            create_null: false,
            attribute: None,
            launch: None,
            assign: None,
            resume: None,
            die_before_resume: false,
            token: Token::AppContainer,
            profile: None,
            relay_attribute: None,
            relay_launch: None,
            ledger: None,
            state: r"C:\standin".to_owned(),
        }
    }
}

impl Settings {
    /// Read from a file's text. A line that is not understood is an error: a test must not believe in a setting that
    /// does nothing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Settings::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once('=').ok_or_else(|| format!("no key=value: {line}"))?;
            settings.set(key, value).ok_or_else(|| format!("not understood: {line}"))?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "psec" => self.psec = here(value)?,
            "missing" => self.missing = value.split(',').map(str::to_owned).collect(),
            "version" => {
                let (major, minor) = value.split_once('.')?;
                self.contract.major = major.parse().ok()?;
                self.contract.minor = minor.parse().ok()?;
            }
            "support" => self.contract.features = hexadecimal(value)?,
            "query" => self.query = Some(code(value)?),
            "create" => self.create = Some(code(value)?),
            "create_once" => self.create_once = Some(code(value)?),
            "create_null" => self.create_null = yes(value)?,
            "attribute" => self.attribute = Some(value.parse().ok()?),
            "launch" => self.launch = Some(value.parse().ok()?),
            "assign" => self.assign = Some(value.parse().ok()?),
            "resume" => self.resume = Some(value.parse().ok()?),
            "die_before_resume" => self.die_before_resume = yes(value)?,
            "token" => {
                self.token = match value {
                    "no-appcontainer" => Token::None,
                    "lpac" => Token::LessPrivileged,
                    "medium" => Token::Medium,
                    "refused" => Token::Refused,
                    _ => return None,
                }
            }
            "profile" => self.profile = Some(code(value)?),
            "relay_attribute" => self.relay_attribute = Some(value.parse().ok()?),
            "relay_launch" => self.relay_launch = Some(value.parse().ok()?),
            "ledger" => self.ledger = Some(value.to_owned()),
            "state" => self.state = value.to_owned(),
            _ => return None,
        }
        Some(())
    }
}

fn here(value: &str) -> Option<bool> {
    match value {
        "here" => Some(true),
        "absent" => Some(false),
        _ => None,
    }
}

fn yes(value: &str) -> Option<bool> {
    (value == "yes").then_some(true)
}

fn hexadecimal(value: &str) -> Option<u64> {
    u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}

/// An HRESULT that is a failure.
fn code(value: &str) -> Option<u32> {
    u32::try_from(hexadecimal(value)?).ok().filter(|code| code & 0x8000_0000 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in
            ["psec=maybe", "create=5", "create=0x00000005", "nonsense=1", "psec", "version=1", "support=3"]
        {
            assert!(Settings::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_set_is_as_on_the_machine_that_was_seen() {
        let settings = Settings::parse("\n").unwrap();
        assert_eq!(settings, Settings::default());
        assert_eq!((settings.contract.minor, settings.contract.features), (0, 3));
        let newer = Settings::parse("version=1.1\nsupport=0xf\ncreate_once=0xc000003a").unwrap();
        assert_eq!((newer.contract.minor, newer.contract.features), (1, 0xf));
        assert_eq!(newer.create_once, Some(0xc000_003a));
    }
}
