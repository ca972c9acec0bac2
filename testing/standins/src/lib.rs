//! A stand-in for Windows' processmodel.dll and for what else Wine lacks of the ways into a container: for tests under
//! Wine only, never shipped. It confines nothing. It holds its caller to the published contract, answers what a test
//! has set (`settings`), and writes down every call (`ledger`), so that a test can tell what was done, in which order,
//! and what was left over.
//!
//! The product's own writer and reader of specifications are not used here: this is the check on them.

pub mod flatbuffer;
pub mod settings;
pub mod specification;

#[cfg(windows)]
mod windows;
