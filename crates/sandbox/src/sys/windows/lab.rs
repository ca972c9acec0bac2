//! What the tests run on: Windows or Wine, and whether System32 holds the stand-in for processmodel.dll.

use windows::core::w;

use super::library::Library;

/// Wine says so itself, by a function of ntdll.dll that Windows does not have.
pub(super) fn is_wine() -> bool {
    Library::find(w!("ntdll.dll"), c"wine_get_version").is_ok()
}

/// The stand-in is the processmodel.dll of a Wine.
pub(super) fn has_stand_in() -> bool {
    is_wine() && Library::open(w!("processmodel.dll")).is_ok()
}
