use super::*;
use oz0_fleet::protocol::{Credential, Secret};
use oz0_sandbox::policy::Caller;

fn of(url: &str, revision: &str, password: Option<&str>) -> Result<(Policy, Vec<u8>), NotMeant> {
    let credential =
        password.map(|text| Credential { user: "somebody".into(), password: Secret::new(text.into()) });
    let repository = Repository { url: url.into(), revision: revision.into(), credential };
    let caller = Caller::default();
    let here = Here {
        binary: Path::new("/bin/oz0-node"),
        data_directory: Path::new("/data"),
        machine_memory: 8 << 30,
        caller: &caller,
    };
    step(&repository, Path::new("/jobs/1"), &here)
}

#[test]
fn a_fetch_reaches_its_host_alone_and_its_credential_is_input() {
    let (policy, input) = of("https://git.example.com/a/b.git", "main", Some("geheim")).unwrap();
    let Network::Proxy { allow, forward } = &policy.network else { panic!("the node's own network") };
    let rules: Vec<String> = allow.rules().iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["git.example.com:443"]);
    assert!(forward.is_empty());
    assert_eq!(input, b"username=somebody\npassword=geheim\n");
    let words: Vec<&str> = policy.command.iter().map(|word| word.to_str().unwrap()).collect();
    assert!(!words.join(" ").contains("geheim"));
    assert!(policy.environment.variables().all(|(_, value)| !value.to_str().unwrap().contains("geheim")));
    assert_eq!(words[3..], ["fetch", "https://git.example.com/a/b.git", "main"]);
}

#[test]
fn what_is_no_repository_is_refused() {
    for url in [
        "http://git.example.com/a",
        "git@git.example.com:a",
        "ssh://git.example.com/a",
        "file:///etc",
        "https://user:pass@git.example.com/a",
        "https://user@git.example.com/a",
        "/etc",
        "--upload-pack=x",
        "ext::sh -c x",
        "",
    ] {
        assert!(of(url, "main", None).is_err(), "{url}");
    }
    for revision in ["", "-x", "--upload-pack=x", "a:b", "+a", "a b", "a\nb", "a..b", "@{u}", "HEAD~1", "*"] {
        assert!(of("https://git.example.com/a", revision, None).is_err(), "{revision}");
    }
    for revision in ["main", "v1.0", "feature/ä", "0123456789abcdef0123456789abcdef01234567"] {
        assert!(of("https://git.example.com/a", revision, None).is_ok(), "{revision}");
    }
    assert!(of("https://git.example.com/a", "main", Some("a\nquit=1")).is_err());
}

/// The script itself, against a server on loopback that wants the credential: what is fetched is there, and the
/// credential is nowhere.
#[cfg(unix)]
#[test]
fn git_is_given_the_credential_over_a_descriptor_and_keeps_nothing_of_it() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    let top = tempfile::tempdir().unwrap();
    let job = top.path().join("job");
    std::fs::create_dir(&job).unwrap();
    let server = Command::new("/usr/bin/python3")
        .args(["-c", include_str!("server.py")])
        .arg(top.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut server = server.unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("https://127.0.0.1:{}/source/.git", port.trim());

    let fetch = |password| {
        let (policy, input) = of(&url, "main", Some(password)).unwrap();
        let mut command = Command::new(&policy.command[0]);
        command.args(&policy.command[1..]).current_dir(&job).stdin(Stdio::piped());
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("GIT_SSL_CAINFO", top.path().join("certificate.pem"));
        command.envs(policy.environment.variables());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        child.wait_with_output().unwrap()
    };
    let wrong = fetch("another");
    let right = fetch("hunter2hunter2");
    // Its standard input is what it lives by.
    drop(server.stdin.take());
    server.wait().unwrap();

    assert!(!wrong.status.success());
    assert!(right.status.success(), "{}", String::from_utf8_lossy(&right.stderr));
    assert_eq!(std::fs::read_to_string(job.join("file")).unwrap(), "of the repository\n");
    let kept = Command::new("grep").args(["-rl", "hunter2"]).arg(&job).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "");
}
