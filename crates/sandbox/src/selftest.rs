//! The self-test: the eight properties in order, each looked at by a check.
