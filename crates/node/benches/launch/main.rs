//! What a launch costs, on Linux alone: there is no launch elsewhere to be measured here.

// A bench that makes its own lines needs a main everywhere.
#[cfg(target_os = "linux")]
#[path = "../launch.rs"]
mod launch;

fn main() {
    #[cfg(target_os = "linux")]
    launch::main();
}
