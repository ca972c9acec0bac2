//! Linux calls that no library gives safely.
