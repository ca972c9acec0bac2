//! Every machine that was seen or is described, by what it answers.

use oz0_fleet::check;

use super::*;

fn client(build: &str) -> Answers {
    Answers {
        build: build.parse().ok(),
        edition: EditionAnswers { product_type: Some(1), registry: Some("WinNT".into()) },
        ..Answers::default()
    }
}

/// Everything is there, up to and with the attribute.
fn usable(build: &str, minor: u32, flags: u64) -> Answers {
    Answers {
        api_set: Some(true),
        library: Some(Ok(())),
        exports: Some(Ok(())),
        version: Some(VersionAnswer::Available { minor }),
        support: Some(Ok(flags)),
        create: Some(Ok(())),
        attribute: Some(Ok(())),
        ..client(build)
    }
}

/// The same up to making an environment, which answers this.
fn create_fails(build: &str, code: Code) -> Answers {
    Answers { create: Some(Err(code)), attribute: None, ..usable(build, 0, 0x3) }
}

fn attribute_fails(code: Code) -> Answers {
    Answers { attribute: Some(Err(code)), ..usable("26200.9106", 0, 0x3) }
}

const POLICY: Code = Code::Hresult(0x8007_04ec);

/// The table of outcomes, machine by machine: what is said of each, on the node and to the control plane.
fn machines() -> Vec<(&'static str, Answers)> {
    let hresult = Code::Hresult;
    let server = |product_type, registry: &str| Answers {
        edition: EditionAnswers { product_type: Some(product_type), registry: Some(registry.into()) },
        ..client("26100.9278")
    };
    vec![
        ("seen: 25H2, contract 1.0", usable("26200.9457", 0, 0x3)),
        ("seen: 26H2, contract 1.1", usable("26300.9711", 1, 0xf)),
        ("bits without a name", usable("26300.9711", 1, 0x8000_0000_0000_00ff)),
        ("a later contract", usable("27000.1", 7, 0x1f)),
        (
            "without the export for the version",
            Answers { version: Some(VersionAnswer::NoExport), ..usable("26200.9278", 0, 0x3) },
        ),
        ("no such API set", Answers { api_set: Some(false), ..client("26200.8037") }),
        ("Windows 10", Answers { api_set: Some(false), ..client("19044.5011") }),
        (
            "no library",
            Answers { api_set: Some(true), library: Some(Err(Code::Win32(126))), ..client("22631.1") },
        ),
        (
            "an export is missing",
            Answers {
                api_set: Some(true),
                library: Some(Ok(())),
                exports: Some(Err("QueryProcessSecurityEnvironmentSupport")),
                ..client("26657.1002")
            },
        ),
        ("seen: present and off", create_fails("26200.8524", hresult(0x8000_4001))),
        ("seen: present and off, as a Win32 code", create_fails("26100.8875", hresult(0x8007_0078))),
        (
            "off at the question for features",
            Answers {
                support: Some(Err(hresult(0x8000_4001))),
                create: None,
                attribute: None,
                ..usable("26300.8758", 0, 0)
            },
        ),
        (
            "off at the question for the version",
            Answers {
                version: Some(VersionAnswer::Failed(hresult(0x8000_4001))),
                support: None,
                create: None,
                attribute: None,
                ..usable("26300.8758", 0, 0)
            },
        ),
        ("no attribute 35, as 50", attribute_fails(Code::Win32(50))),
        ("no attribute 35, as 120", attribute_fails(Code::Win32(120))),
        ("policy", create_fails("26200.9457", POLICY)),
        (
            "policy at the library",
            Answers { api_set: Some(true), library: Some(Err(Code::Win32(1260))), ..client("26200.9457") },
        ),
        ("success and no handle", create_fails("26200.9457", Code::NullHandle)),
        ("from inside an AppContainer", create_fails("26200.9457", hresult(0x8007_0005))),
        (
            "another contract alone",
            Answers {
                version: Some(VersionAnswer::Unavailable),
                support: None,
                create: None,
                attribute: None,
                ..usable("28000.1", 0, 0)
            },
        ),
        ("Windows Server", server(3, "ServerNT")),
        ("a domain controller", server(2, "LanmanNT")),
        ("an edition that contradicts itself", server(1, "ServerNT")),
        ("no edition at all", Answers { edition: EditionAnswers::default(), ..client("26200.9457") }),
    ]
}

#[test]
fn every_machine_is_told_as_it_is() {
    let mut told = String::new();
    for (machine, answers) in machines() {
        let probed = Verdict::of(&answers).probed(Tier::Zero);
        told += &format!("## {machine}\n{}\n", check::lines(&probed.facts).join("\n"));
        for lacking in probed.lacking {
            told += &format!("[{}] {}\n", lacking.code, lacking.reason);
        }
        told += "\n";
    }
    insta::assert_snapshot!(told);
}

/// P7: what `check` says will run does run, and what it refuses a run refuses in the same words.
#[test]
fn probe_and_run_decide_alike() {
    for (machine, answers) in machines() {
        let verdict = Verdict::of(&answers);
        let runs = check::runs_by_hand(&verdict.probed(Tier::Zero).facts).is_some();
        assert_eq!(verdict.offered().is_some(), runs, "{machine}");
        assert_eq!(verdict.lacking.is_none(), runs, "{machine}");
        let Some(lacking) = &verdict.lacking else { continue };
        if let (Some(code), Stage::Create | Stage::Attribute) = (lacking.code, lacking.stage) {
            let windows = Verdict::of(&usable("26200.9457", 0, 0x3)).windows;
            let in_run = Lacking::in_run(windows, lacking.stage, code).refusal();
            let fix = lacking.refusal();
            assert_eq!(
                (in_run.code, &in_run.reason, &in_run.fix),
                (fix.code, &fix.reason, &fix.fix),
                "{machine}"
            );
        }
    }
}

/// Nothing is decided by a build's number: with any other each machine is what it was.
#[test]
fn no_build_decides_anything() {
    for (machine, answers) in machines() {
        for build in ["10240.1", "26200.9457", "99999.1"] {
            let other = Verdict::of(&Answers { build: build.parse().ok(), ..answers.clone() }).windows;
            let this = Verdict::of(&answers).windows;
            assert_eq!(
                Windows { build: None, ..other },
                Windows { build: None, ..this },
                "{machine}, {build}"
            );
        }
    }
}

/// A step that was left out is no good answer.
#[test]
fn what_was_not_asked_is_not_usable() {
    let whole = usable("26200.9457", 0, 0x3);
    let without: [fn(&mut Answers); 7] = [
        |answers| answers.api_set = None,
        |answers| answers.library = None,
        |answers| answers.exports = None,
        |answers| answers.version = None,
        |answers| answers.support = None,
        |answers| answers.create = None,
        |answers| answers.attribute = None,
    ];
    for leave_out in without {
        let mut answers = whole.clone();
        leave_out(&mut answers);
        let verdict = Verdict::of(&answers);
        assert_eq!((verdict.windows.psec, verdict.offered()), (Psec::NotProbed, None), "{answers:?}");
    }
    assert_eq!(Verdict::of(&Answers::default()).windows.edition, Edition::Unknown);
}

#[test]
fn a_code_is_told_with_its_name() {
    for (code, words) in [
        (Code::Hresult(0x8000_4001), "HRESULT 0x80004001 (E_NOTIMPL)"),
        (POLICY, "HRESULT 0x800704ec (ERROR_ACCESS_DISABLED_BY_POLICY)"),
        (Code::Hresult(0xc000_003a), "HRESULT 0xc000003a (STATUS_OBJECT_PATH_NOT_FOUND)"),
        (Code::Win32(203), "error 203 (ERROR_ENVVAR_NOT_FOUND)"),
        (Code::Win32(448), "error 448"),
        (Code::NullHandle, "success and no handle"),
    ] {
        assert_eq!(code.to_string(), words);
    }
}
