//! Windows calls that no library gives safely: one call a block, owned results.

pub mod attempt;
pub mod private;
