//! Every machine of the outcomes' table, and every kind of fix.

use super::*;
use crate::facts::tests::{linux, linux_with, windows, windows_with};
use crate::{Features, Landlock, Mechanism};

fn asked(facts: Facts) -> Facts {
    Facts { asked: Tier::One, ..facts }
}

/// P3, row by row: which fix a machine gets.
#[test]
fn every_machine_gets_its_fix() {
    let contract = Contract { major: 1, minor: 0 };
    let newer = windows_with(|windows| {
        windows.build = "26300.9711".parse().ok();
        windows.contract = "1.1".parse().ok();
        windows.features = Some(Features(0xf));
    });
    let without = |build: &str| {
        windows_with(|windows| {
            windows.build = build.parse().ok();
            windows.psec = Psec::Absent;
            windows.contract = None;
            windows.features = None;
        })
    };
    let build = |text: &str| text.parse::<Build>().ok();
    let edition = |edition| windows_with(|windows| windows.edition = edition);
    let psec = |psec| windows_with(|windows| windows.psec = psec);
    let old_kernel = linux_with(|linux| linux.landlock = Landlock::new(0));
    let machines = [
        (windows(), Some(Fix::StartWithPsec(contract))),
        (newer, Some(Fix::StartWithPsec(Contract { major: 1, minor: 1 }))),
        (asked(windows()).with_verdict(Ok(Mechanism::Psec(contract))), None),
        (asked(windows()), Some(Fix::SelfTest)),
        (
            asked(windows()).with_verdict(Err(Property::Egress)),
            Some(Fix::Property(Property::Egress, Platform::Windows)),
        ),
        (without("26200.8037"), Some(Fix::NoPsec(build("26200.8037")))),
        (asked(without("26300.8758")), Some(Fix::NoPsec(build("26300.8758")))),
        (without("19044.5011"), Some(Fix::NoPsec(build("19044.5011")))),
        (psec(Psec::Off), Some(Fix::PsecOff)),
        (asked(psec(Psec::Off)), Some(Fix::PsecOff)),
        (psec(Psec::Forbidden), Some(Fix::PsecForbidden)),
        (psec(Psec::Failed), Some(Fix::PsecFailed)),
        (edition(Edition::Server), Some(Fix::Server)),
        (asked(edition(Edition::Server)), Some(Fix::Server)),
        (edition(Edition::Unknown), Some(Fix::EditionUnknown)),
        (linux().with_verdict(Ok(Mechanism::Linux)), None),
        (old_kernel.with_verdict(Ok(Mechanism::Linux)), None),
        (linux(), Some(Fix::SelfTest)),
        (
            linux().with_verdict(Err(Property::JobLimits)),
            Some(Fix::Property(Property::JobLimits, Platform::Linux)),
        ),
        (Facts::probed(Tier::One, System::Macos), Some(Fix::NoTierOne(Platform::Macos))),
        (Facts::probed(Tier::Zero, System::Other), Some(Fix::NoTierOne(Platform::Other))),
    ];
    for (facts, fix) in machines {
        assert_eq!(Fix::of(&facts), fix, "{facts:?}");
    }
}

/// What closes a mechanism is the fix, also where the self-test has failed of it.
#[test]
fn a_closed_mechanism_comes_before_the_property_that_failed_of_it() {
    for closed in Namespaces::ALL.into_iter().filter(|closed| *closed != Namespaces::Open) {
        let facts = linux_with(|linux| {
            linux.namespaces = Some(closed);
            linux.cgroup = Some(Cgroup::NotMounted);
        });
        assert_eq!(Fix::of(&facts), Some(Fix::Namespaces(closed)));
        assert_eq!(Fix::of(&facts.with_verdict(Err(Property::Launch))), Some(Fix::Namespaces(closed)));
    }
    for reason in Cgroup::ALL.into_iter().filter(|reason| !reason.is_usable()) {
        let facts = linux_with(|linux| linux.cgroup = Some(reason));
        assert_eq!(Fix::of(&facts), Some(Fix::Cgroup(reason, User::new(1000))));
    }
    for reason in Seccomp::ALL.into_iter().filter(|reason| *reason != Seccomp::Works) {
        let facts = linux_with(|linux| linux.seccomp = Some(reason));
        assert_eq!(Fix::of(&facts), Some(Fix::Seccomp(reason)));
    }
    for facts in [
        linux_with(|linux| linux.namespaces = None),
        linux_with(|linux| linux.cgroup = None),
        linux_with(|linux| linux.seccomp = None),
        windows_with(|windows| windows.psec = Psec::NotProbed),
        windows_with(|windows| windows.contract = None),
    ] {
        assert_eq!(Fix::of(&facts), Some(Fix::Unsaid));
    }
}

/// Every fix there is.
pub(crate) fn all() -> Vec<Fix> {
    let contract = Contract { major: 1, minor: 0 };
    let build = |text: &str| text.parse::<Build>().ok();
    let mut all = vec![
        Fix::SelfTest,
        Fix::StartWithPsec(contract),
        Fix::NoPsec(build("26200.8037")),
        Fix::NoPsec(build("26300.8758")),
        Fix::NoPsec(build("19044.5011")),
        Fix::NoPsec(None),
        Fix::PsecOff,
        Fix::PsecForbidden,
        Fix::PsecFailed,
        Fix::Server,
        Fix::EditionUnknown,
        Fix::NoTierOne(Platform::Macos),
        Fix::NoTierOne(Platform::Other),
        Fix::Unsaid,
    ];
    all.extend(Namespaces::ALL.into_iter().skip(1).map(Fix::Namespaces));
    all.extend(Cgroup::ALL.into_iter().skip(2).map(|reason| Fix::Cgroup(reason, User::new(1000))));
    all.push(Fix::Cgroup(Cgroup::V1NotDelegated, None));
    all.extend(Seccomp::ALL.into_iter().skip(1).map(Fix::Seccomp));
    all.extend(Property::ALL.map(|property| Fix::Property(property, Platform::Linux)));
    all.push(Fix::Property(Property::Files, Platform::Windows));
    all
}

#[test]
fn every_fix_says_what_to_do() {
    let said: Vec<String> = all().iter().map(|fix| format!("{}\n  {fix}", fix.code())).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_sentence_is_one_line_and_a_code_one_word() {
    for fix in all() {
        let sentence = fix.sentence();
        assert!(sentence.len() < 400 && !sentence.contains('\n') && !sentence.contains("  "), "{sentence}");
        assert!(!sentence.ends_with('.'), "{sentence}");
        let code = fix.code();
        assert!(
            code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{code}"
        );
    }
}
