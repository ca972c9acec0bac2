//! Runs in PSEC are a preview: what a run by hand needs until they are more, and how it is refused without.

use crate::backend::Refusal;

/// Is PSEC what confines runs on this system?
pub const HERE: bool = cfg!(windows);

/// The variable that a run by hand needs; its value is 1.
pub const PREVIEW: &str = "OZ0_SANDBOX_PSEC_PREVIEW";

/// A run by hand without it: PSEC is here, and the run is refused as where there is no tier 1.
pub fn not_previewed() -> Refusal {
    Refusal {
        code: "psec-preview",
        reason: format!(
            "this node has no tier 1 for a run by hand: in PSEC it is a preview, and {PREVIEW}=1 is not set"
        ),
        fix: Some(format!("set {PREVIEW}=1 to run in a PSEC container, or use a Linux or macOS node")),
    }
}
