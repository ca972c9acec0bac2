//! What the tests stand on.

pub(crate) mod database;
pub(crate) mod node;
pub(crate) mod server;

/// A test that is run once for each database.
macro_rules! on_each {
    ($($(#[$meta:meta])* fn $name:ident($database:ident) $body:block)+) => {$(
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports, reason = "each test takes what it needs of its module")]
            use super::*;

            fn test($database: &crate::support::database::Database) $body

            #[test]
            fn sqlite() {
                test(&crate::support::database::Database::sqlite());
            }

            #[test]
            fn postgres() {
                test(&crate::support::database::Database::postgres());
            }
        }
    )+};
}
pub(crate) use on_each;
