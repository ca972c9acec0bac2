//! The lines as documents, and their JSON.

use super::*;
use crate::facts::tests::{linux, linux_with, windows, windows_with};
use crate::{Contract, Features, Landlock, Property};

const PSEC: Mechanism = Mechanism::Psec(Contract { major: 1, minor: 0 });

fn asked(facts: Facts) -> Facts {
    Facts { asked: Tier::One, ..facts }
}

#[test]
fn a_check_is_three_lines() {
    let without = windows_with(|windows| {
        windows.build = "19044.5011".parse().ok();
        windows.psec = Psec::Absent;
        windows.contract = None;
        windows.features = None;
    });
    let newer = windows_with(|windows| {
        windows.build = "26300.9711".parse().ok();
        windows.contract = "1.1".parse().ok();
        windows.features = Some(Features(0x1f));
    });
    let machines = [
        windows(),
        newer,
        asked(windows()),
        asked(windows()).with_verdict(Ok(PSEC)),
        asked(windows()).with_verdict(Err(Property::Egress)),
        without,
        windows_with(|windows| windows.psec = Psec::Off),
        windows_with(|windows| windows.psec = Psec::Forbidden),
        windows_with(|windows| windows.edition = Edition::Server),
        windows_with(|windows| {
            windows.edition = Edition::Unknown;
            windows.build = None;
        }),
        linux(),
        linux_with(|linux| linux.landlock = Landlock::new(0)).with_verdict(Ok(Mechanism::Linux)),
        linux().with_verdict(Err(Property::JobLimits)),
        linux_with(|linux| linux.namespaces = Some(Namespaces::AppArmor)),
        linux_with(|linux| linux.namespaces = Some(Namespaces::MaxUser)),
        linux_with(|linux| linux.namespaces = Some(Namespaces::ProcMasked)),
        linux_with(|linux| linux.cgroup = Some(Cgroup::V1NotDelegated)),
        linux_with(|linux| linux.seccomp = Some(Seccomp::Missing)),
        linux_with(|linux| {
            linux.kernel = None;
            linux.namespaces = None;
            linux.landlock = None;
        }),
        Facts::probed(Tier::One, System::Macos),
        Facts::probed(Tier::Zero, System::Other),
    ];
    let said: Vec<String> = machines.iter().map(|facts| lines(facts).join("\n")).collect();
    insta::assert_snapshot!(said.join("\n\n"));
}

/// The forms that scripts may parse.
#[test]
fn the_forms_are_kept() {
    let observed = findings(&windows());
    assert_eq!(
        observed,
        "Windows 26200.9457: PSEC contract 1.0 (deny paths, flags 0x2, which MXC v1.0.0 does not name)"
    );
    assert_eq!(findings(&linux()), "Linux 6.18.44: namespaces ok, cgroup v2, Landlock ABI 7, seccomp ok");
    assert_eq!(sandbox(&asked(windows()).with_verdict(Ok(PSEC))), "Sandbox: tier 1 (psec 1.0)");
    assert_eq!(sandbox(&linux().with_verdict(Ok(Mechanism::Linux))), "Sandbox: tier 1 (linux)");
    let unstarted = sandbox(&windows());
    for part in
        ["Sandbox: tier 0", "26200.9457", "1.0", "deny paths", "does not run work in it", "--sandbox psec"]
    {
        assert!(unstarted.contains(part), "{unstarted}");
    }
}

#[test]
fn on_windows_tier_one_says_what_runs_still_need() {
    let passed = asked(windows()).with_verdict(Ok(PSEC));
    assert_eq!(fix(&passed), "Fix: none; runs still need OZ0_SANDBOX_PSEC_PREVIEW=1");
    assert_eq!(fix(&linux().with_verdict(Ok(Mechanism::Linux))), "Fix: none");
}

#[test]
fn json_has_the_same_facts_with_stable_codes() {
    let json = |facts: &Facts| serde_json::to_value(Check::of(facts)).unwrap();
    assert_eq!(
        json(&linux_with(|linux| linux.namespaces = Some(Namespaces::AppArmor))),
        serde_json::json!({
            "asked": "tier 1", "tier": "tier 0", "mechanism": null, "failed": null, "platform": "linux",
            "kernel": "6.18.44", "user": 1000, "namespaces": "namespaces-closed-by-apparmor", "cgroup": "v2",
            "landlock": 7, "seccomp": "ok", "routed": "tier 0", "fix": "namespaces-closed-by-apparmor",
        })
    );
    assert_eq!(
        json(&asked(windows()).with_verdict(Ok(PSEC))),
        serde_json::json!({
            "asked": "tier 1", "tier": "tier 1", "mechanism": "psec 1.0", "failed": null,
            "platform": "windows", "build": "26200.9457", "edition": "client", "psec": "usable",
            "contract": "1.0", "features": "0x3", "routed": "tier 0", "fix": null,
        })
    );
}

/// P7: a run by hand is decided by what the probe found, whatever a self-test said.
#[test]
fn a_run_by_hand_needs_every_mechanism_and_no_self_test() {
    assert_eq!(runs_by_hand(&linux()), Some(Mechanism::Linux));
    assert_eq!(runs_by_hand(&linux().with_verdict(Err(Property::Files))), Some(Mechanism::Linux));
    assert_eq!(runs_by_hand(&windows()), Some(PSEC));
    for facts in [
        linux_with(|linux| linux.namespaces = Some(Namespaces::Refused)),
        linux_with(|linux| linux.cgroup = Some(Cgroup::Failed)),
        linux_with(|linux| linux.seccomp = None),
        windows_with(|windows| windows.psec = Psec::Off),
        windows_with(|windows| windows.edition = Edition::Server),
        Facts::probed(Tier::One, System::Macos),
    ] {
        assert_eq!(runs_by_hand(&facts), None);
        assert!(Fix::of(&facts).is_some_and(|fix| fix != Fix::SelfTest), "{facts:?}");
    }
}
