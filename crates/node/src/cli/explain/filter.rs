//! `oz0-node sandbox explain --filter`: the system calls that Linux's filter treats specially.

use std::process::ExitCode;

use oz0_sandbox::backend::linux::seccomp::{self, Treatment, Verdict};
use oz0_sandbox::report::Status;

use super::{answer, answer_json, complain};

/// Print them.
pub(super) fn explain(json: bool) -> ExitCode {
    let Some(architecture) = seccomp::Architecture::host() else {
        complain("there is no filter for this processor", None);
        return Status::Sandbox.into();
    };
    let rows: Vec<_> = seccomp::table(architecture)
        .filter(|row| !matches!(row.treatment, Treatment::Always(Verdict::Allow)))
        .collect();
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| serde_json::json!({ "call": row.call, "treatment": row.treatment.to_string(), "reason": row.reason }))
            .collect();
        return answer_json(&rows);
    }
    for row in rows {
        answer(&format!("  {:<24} {:<18} {}", row.call, row.treatment.to_string(), row.reason));
    }
    ExitCode::SUCCESS
}
