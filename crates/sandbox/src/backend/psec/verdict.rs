//! What a probe's answers come to: the facts that a node reports and, where something is missing, the refusal that
//! a run gives for the same reason. One function decides both, from answers alone: it asks Windows nothing, and no
//! build number decides anything.

#[cfg(test)]
mod tests;

use std::fmt;

use oz0_fleet::{Build, Contract, Edition, Facts, Features, Fix, Psec, System, Tier, Windows};

use super::contract::{FIRST, Offered};
use crate::backend::{Probed, Refusal};

/// What each step of a probe answered, in the order in which they are asked; none from the first that was not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// RtlGetVersion and the registry's UBR, for people.
    pub build: Option<Build>,
    /// What says whether this is a server.
    pub edition: EditionAnswers,
    /// IsApiSetImplemented.
    pub api_set: Option<bool>,
    /// LoadLibraryExW of processmodel.dll from System32.
    pub library: Option<Result<(), Code>>,
    /// GetProcAddress: the first of the needed exports that is not there.
    pub exports: Option<Result<(), &'static str>>,
    /// IsProcessSecurityEnvironmentVersionSupported for major 1.
    pub version: Option<VersionAnswer>,
    /// QueryProcessSecurityEnvironmentSupport.
    pub support: Option<Result<u64, Code>>,
    /// CreateProcessSecurityEnvironment of the least specification.
    pub create: Option<Result<(), Code>>,
    /// UpdateProcThreadAttribute with that environment.
    pub attribute: Option<Result<(), Code>>,
}

/// What tells a server from a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditionAnswers {
    /// wProductType of RtlGetVersion.
    pub product_type: Option<u8>,
    /// `ProductType` in the registry's ProductOptions.
    pub registry: Option<String>,
}

/// What the question for the contract came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionAnswer {
    /// The export is not there: the first contract and no later one (microsoft/mxc, secenv.rs).
    NoExport,
    /// Major 1 is supported, up to this minor.
    Available {
        /// The minor.
        minor: u32,
    },
    /// Major 1 is not.
    Unavailable,
    /// The question failed.
    Failed(Code),
}

/// VER_NT_WORKSTATION (Microsoft Learn, OSVERSIONINFOEXW); the others are a domain controller and a server.
const WORKSTATION: u8 = 1;

impl EditionAnswers {
    /// Client or server, where no answer contradicts another.
    pub fn edition(&self) -> Edition {
        let by_type = self.product_type.map(|product| match product {
            WORKSTATION => Edition::Client,
            2 | 3 => Edition::Server,
            _ => Edition::Unknown,
        });
        let by_registry = self.registry.as_deref().map(|product| match product {
            "WinNT" => Edition::Client,
            "LanmanNT" | "ServerNT" => Edition::Server,
            _ => Edition::Unknown,
        });
        match (by_type, by_registry) {
            (Some(one), Some(other)) if one == other => one,
            (Some(only), None) | (None, Some(only)) => only,
            _ => Edition::Unknown,
        }
    }
}

/// What a call answered: as an HRESULT, or as one of Win32's own codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An HRESULT that says failure.
    Hresult(u32),
    /// A code of GetLastError.
    Win32(u32),
    /// It said success and gave no handle.
    NullHandle,
}

/// Codes by Microsoft's names (Microsoft Learn, Common HRESULT Values and System Error Codes).
const NAMED: [(u32, &str); 12] = [
    (E_NOTIMPL, "E_NOTIMPL"),
    (0x8007_0003, "ERROR_PATH_NOT_FOUND"),
    (0x8007_0005, "E_ACCESSDENIED"),
    (0x8007_000d, "ERROR_INVALID_DATA"),
    (of_win32(NOT_SUPPORTED), "ERROR_NOT_SUPPORTED"),
    (0x8007_0057, "E_INVALIDARG"),
    (of_win32(CALL_NOT_IMPLEMENTED), "ERROR_CALL_NOT_IMPLEMENTED"),
    (0x8007_007e, "ERROR_MOD_NOT_FOUND"),
    (0x8007_00cb, "ERROR_ENVVAR_NOT_FOUND"),
    (of_win32(ACCESS_DISABLED_BY_POLICY), "ERROR_ACCESS_DISABLED_BY_POLICY"),
    (0xc000_003a, "STATUS_OBJECT_PATH_NOT_FOUND"),
    (0x8000_ffff, "E_UNEXPECTED"),
];

const E_NOTIMPL: u32 = 0x8000_4001;
const NOT_SUPPORTED: u32 = 50;
const CALL_NOT_IMPLEMENTED: u32 = 120;
const ACCESS_DISABLED_BY_POLICY: u32 = 1260;

/// HRESULT_FROM_WIN32.
const fn of_win32(code: u32) -> u32 {
    0x8007_0000 | code
}

impl Code {
    /// As an HRESULT, by which codes are compared.
    pub const fn hresult(self) -> u32 {
        match self {
            Code::Hresult(code) => code,
            Code::Win32(code) => of_win32(code & 0xffff),
            Code::NullHandle => 0x8000_ffff,
        }
    }

    /// What it says of PSEC as a whole.
    fn finding(self, stage: Stage) -> Psec {
        match self.hresult() {
            code if code == of_win32(ACCESS_DISABLED_BY_POLICY) => Psec::Forbidden,
            code if code == E_NOTIMPL || code == of_win32(CALL_NOT_IMPLEMENTED) => Psec::Off,
            // Of the attribute it says that this Windows has none; of anything else that it does not take what was
            // asked.
            code if code == of_win32(NOT_SUPPORTED) && stage == Stage::Attribute => Psec::Off,
            _ => Psec::Failed,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Hresult(code) => write!(out, "HRESULT {code:#010x}")?,
            Code::Win32(code) => write!(out, "error {code}")?,
            Code::NullHandle => return out.write_str("success and no handle"),
        }
        match NAMED.iter().find(|(named, _)| *named == self.hresult()) {
            Some((_, name)) => write!(out, " ({name})"),
            None => Ok(()),
        }
    }
}

/// A step of the probe, which a run takes as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Which edition this is.
    Edition,
    /// The API set.
    ApiSet,
    /// The library.
    Library,
    /// Its exports.
    Exports,
    /// The contract.
    Version,
    /// The optional features.
    Support,
    /// Making an environment.
    Create,
    /// Giving it to a process.
    Attribute,
}

impl Stage {
    /// What was called.
    pub const fn call(self) -> &'static str {
        match self {
            Stage::Edition => "asking for the edition (RtlGetVersion, ProductOptions)",
            Stage::ApiSet => "IsApiSetImplemented(api-win-appmodel-processmodel~securityenvironment)",
            Stage::Library => "LoadLibraryExW(processmodel.dll)",
            Stage::Exports => "GetProcAddress(processmodel.dll)",
            Stage::Version => "IsProcessSecurityEnvironmentVersionSupported(1)",
            Stage::Support => "QueryProcessSecurityEnvironmentSupport",
            Stage::Create => "CreateProcessSecurityEnvironment",
            Stage::Attribute => "UpdateProcThreadAttribute(PROC_THREAD_ATTRIBUTE_SECURITY_ENVIRONMENT)",
        }
    }
}

/// Why PSEC cannot be used: the step, what it answered, and what that says of this machine. It stays on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Which step.
    pub stage: Stage,
    /// What it answered, in words.
    pub answer: String,
    /// The code, where there is one.
    pub code: Option<Code>,
    /// What this machine is for it.
    pub windows: Windows,
}

impl Lacking {
    /// A run met this answer on a machine that was found to be `windows`: the same is said of it as by a probe.
    pub fn in_run(windows: Windows, stage: Stage, code: Code) -> Lacking {
        let windows = Windows { psec: code.finding(stage), ..windows };
        Lacking { stage, answer: code.to_string(), code: Some(code), windows }
    }

    /// The refusal, the same for a probe and a run.
    pub fn refusal(&self) -> Refusal {
        let fix = Fix::of(&Facts::probed(Tier::One, System::Windows(self.windows)));
        Refusal {
            code: fix.map_or("psec-failed", Fix::code),
            reason: format!("{}: {}", self.stage.call(), self.answer),
            fix: fix.map(Fix::sentence),
        }
    }
}

/// What the answers come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The facts.
    pub windows: Windows,
    /// What is missing.
    pub lacking: Option<Lacking>,
}

impl Verdict {
    /// From a probe's answers.
    pub fn of(answers: &Answers) -> Verdict {
        let mut windows = Windows {
            build: answers.build,
            edition: answers.edition.edition(),
            psec: Psec::NotProbed,
            contract: None,
            features: None,
        };
        let lacking = judge(answers, &mut windows).err().map(|found| {
            windows.psec = found.psec;
            Lacking { stage: found.stage, answer: found.answer, code: found.code, windows }
        });
        Verdict { windows, lacking }
    }

    /// What a run may ask for; none where it may not start.
    pub fn offered(&self) -> Option<Offered> {
        let usable = self.lacking.is_none() && self.windows.psec == Psec::Usable;
        let (contract, features) = self.windows.contract.zip(self.windows.features)?;
        usable.then_some(Offered { contract, features })
    }

    /// As a backend tells it. A node that was not started with `--sandbox psec` is asked for tier 0.
    pub fn probed(&self, asked: Tier) -> Probed {
        let facts = Facts::probed(asked, System::Windows(self.windows));
        Probed { facts, lacking: self.lacking.iter().map(Lacking::refusal).collect() }
    }
}

/// The first answer in the way.
struct Found {
    psec: Psec,
    stage: Stage,
    answer: String,
    code: Option<Code>,
}

impl Found {
    fn new(psec: Psec, stage: Stage, answer: impl Into<String>) -> Found {
        Found { psec, stage, answer: answer.into(), code: None }
    }

    fn code(stage: Stage, code: Code) -> Found {
        Found { psec: code.finding(stage), stage, answer: code.to_string(), code: Some(code) }
    }

    /// A step that was not asked although all before it were answered well decides nothing good.
    fn unasked(stage: Stage) -> Found {
        Found::new(Psec::NotProbed, stage, "not asked")
    }
}

/// Go through the answers in their order, keeping in `windows` what is known so far.
fn judge(answers: &Answers, windows: &mut Windows) -> Result<(), Found> {
    let unasked = |stage| move || Found::unasked(stage);
    match windows.edition {
        Edition::Client => {}
        Edition::Server => {
            return Err(Found::new(Psec::NotProbed, Stage::Edition, "Windows Server, which is not probed"));
        }
        Edition::Unknown => {
            return Err(Found::new(Psec::NotProbed, Stage::Edition, "neither client nor server; not probed"));
        }
    }
    if !answers.api_set.ok_or_else(unasked(Stage::ApiSet))? {
        return Err(Found::new(Psec::Absent, Stage::ApiSet, "no"));
    }
    let library = answers.library.ok_or_else(unasked(Stage::Library))?;
    library.map_err(|code| match Found::code(Stage::Library, code) {
        // A library that is not there, or not one, is none; a policy against it is one.
        found if found.psec == Psec::Failed => Found { psec: Psec::Absent, ..found },
        found => found,
    })?;
    let exports = answers.exports.ok_or_else(unasked(Stage::Exports))?;
    exports.map_err(|name| Found::new(Psec::Absent, Stage::Exports, format!("no {name}")))?;
    windows.contract = match answers.version.ok_or_else(unasked(Stage::Version))? {
        VersionAnswer::NoExport => Some(FIRST),
        VersionAnswer::Available { minor } => {
            let minor = u16::try_from(minor)
                .map_err(|_| Found::new(Psec::Failed, Stage::Version, format!("minor {minor}")))?;
            Some(Contract { major: FIRST.major, minor })
        }
        VersionAnswer::Unavailable => {
            return Err(Found::new(Psec::Failed, Stage::Version, "no contract 1.x is offered"));
        }
        VersionAnswer::Failed(code) => return Err(Found::code(Stage::Version, code)),
    };
    let support = answers.support.ok_or_else(unasked(Stage::Support))?;
    windows.features = Some(Features(support.map_err(|code| Found::code(Stage::Support, code))?));
    let create = answers.create.ok_or_else(unasked(Stage::Create))?;
    create.map_err(|code| Found::code(Stage::Create, code))?;
    let attribute = answers.attribute.ok_or_else(unasked(Stage::Attribute))?;
    attribute.map_err(|code| Found::code(Stage::Attribute, code))?;
    windows.psec = Psec::Usable;
    Ok(())
}
