//! The probe's questions, asked of Windows in their order and no further than the first answer in the way. What they
//! mean is [`super::verdict`]'s. Nothing is changed, and no administrator is needed.

use oz0_fleet::{Build, Edition};

use super::contract::FIRST;
use super::spec::encode_minimal;
use super::verdict::{Answers, Code, EditionAnswers, Verdict, VersionAnswer};
use crate::sys::windows::attributes::{Attributes, Container};
use crate::sys::windows::error::{self, CallError};
use crate::sys::windows::processmodel::{Contract, LoadError, ProcessModel};
use crate::sys::windows::version;

/// Ask, and judge.
pub fn verdict() -> Verdict {
    Verdict::of(&ask())
}

fn ask() -> Answers {
    let mut answers = Answers::default();
    if let Ok(version) = version::read() {
        answers.build = version.revision.map(|revision| Build { number: version.build, revision });
        answers.edition =
            EditionAnswers { product_type: Some(version.product_type), registry: version.product };
    }
    // A server is not probed, and neither is what may be one.
    if answers.edition.edition() != Edition::Client {
        return answers;
    }
    let model = match ProcessModel::load() {
        Ok(model) => model,
        Err(error) => {
            answers.api_set = Some(!matches!(error, LoadError::Question(_) | LoadError::ApiSet));
            match error {
                // A Windows without the question has nothing that could be asked for.
                LoadError::Question(_) | LoadError::ApiSet => {}
                LoadError::Library(error) => answers.library = Some(Err(error.into())),
                LoadError::Export(missing) => {
                    answers.library = Some(Ok(()));
                    answers.exports = Some(Err(missing.name));
                }
            }
            return answers;
        }
    };
    (answers.api_set, answers.library, answers.exports) = (Some(true), Some(Ok(())), Some(Ok(())));
    let version = match model.contract(FIRST.major.into()) {
        Ok(Contract::Minor(minor)) => VersionAnswer::Available { minor },
        Ok(Contract::Unsupported) => VersionAnswer::Unavailable,
        Ok(Contract::NotAsked) => VersionAnswer::NoExport,
        Err(error) => VersionAnswer::Failed(error.into()),
    };
    answers.version = Some(version);
    if matches!(version, VersionAnswer::Unavailable | VersionAnswer::Failed(_)) {
        return answers;
    }
    let support = model.support();
    let supported = support.is_ok();
    answers.support = Some(support.map_err(Code::from));
    if !supported {
        return answers;
    }
    // Builds exist that have all of this switched off: only making one tells.
    match model.create(&encode_minimal(FIRST)) {
        Err(error) => answers.create = Some(Err(error.into())),
        Ok(environment) => {
            answers.create = Some(Ok(()));
            let tried = Attributes::new(Container::SecurityEnvironment(&environment), &[]);
            answers.attribute = Some(tried.map(drop).map_err(|failed| failed.error.into()));
        }
    }
    answers
}

impl From<CallError> for Code {
    fn from(error: CallError) -> Code {
        match error.code {
            error::Code::Win32(code) => Code::Win32(code),
            error::Code::Hresult(code) => Code::Hresult(code.cast_unsigned()),
        }
    }
}
