//! The pages under `tests/cli/` are the documentation of the command line and its tests: each command on them is
//! run and must answer as written. `TRYCMD=overwrite cargo test -p oz0-node --test cli` writes the present answers
//! into them; read what changed before it is kept.
#![cfg(target_os = "linux")]

#[test]
fn pages() {
    trycmd::TestCases::new()
        // An answer of the page must not depend on who reads it: no colour, no proxy, no settings of a node.
        .env("HOME", "/nonexistent")
        .env("NO_COLOR", "1")
        .env("OZ0_DATA_DIR", "/nonexistent/data")
        .case("tests/cli/*.md");
}
