//! Real clients through the proxy: curl, git and Python, as a run's programs would be started.

use std::process::{Command, Output};

use crate::world::{Origin, World, next_head};

fn run(world: &World, program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("http_proxy", &world.url)
        .env("https_proxy", &world.url)
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn curl_gets_posts_and_tunnels() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("a.example")]);
    let url = format!("http://a.example:{}/", origin.port());
    let got = run(&world, "curl", &["-sS", "--fail", &url, &url]);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert_eq!(text(&got.stdout).matches("GET / HTTP/1.1\r\n").count(), 2);
    let large = "x".repeat(100_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), large).unwrap();
    let body = format!("@{}", file.path().display());
    // Above 1 MiB, and for some versions above 1 KiB, curl waits for a 100.
    let posted = run(
        &world,
        "curl",
        &[
            "-sS",
            "--fail",
            "-H",
            "Expect: 100-continue",
            "--expect100-timeout",
            "0.2",
            "--data-binary",
            &body,
            &url,
        ],
    );
    assert!(posted.status.success(), "{}", text(&posted.stderr));
    assert!(text(&posted.stdout).contains("Content-Length: 100000\r\n"));
    let tunnelled = run(&world, "curl", &["-sS", "--fail", "--proxytunnel", &url]);
    assert!(tunnelled.status.success(), "{}", text(&tunnelled.stderr));
    // Asked for credentials first, curl sends them on the same connection.
    let asked = run(&world, "curl", &["-sS", "--fail", "--proxy-anyauth", "-v", &url]);
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    assert!(text(&asked.stderr).contains("407 Proxy Authentication Required"));
}

#[test]
fn curl_is_told_what_was_denied() {
    let world = World::allowing(&["a.example"]);
    let got = run(&world, "curl", &["-sS", "http://b.example/"]);
    assert_eq!(
        text(&got.stdout),
        "denied: b.example:80: no --allow names this host; to allow it: --allow b.example\n"
    );
    let got = run(&world, "curl", &["-sS", "https://b.example/"]);
    assert_eq!(got.status.code(), Some(56));
    assert!(text(&got.stderr).contains("403"), "{}", text(&got.stderr));
}

#[test]
fn python_opens_a_url() {
    let origin = Origin::echo();
    let world = World::allowing(&[origin.named("a.example")]);
    let script = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=9).read().decode())";
    let url = format!("http://a.example:{}/py", origin.port());
    let got = run(&world, "/usr/bin/python3", &["-c", script, &url]);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert!(text(&got.stdout).starts_with("GET /py HTTP/1.1\r\n"), "{}", text(&got.stdout));
    let denied = run(&world, "/usr/bin/python3", &["-c", script, "https://b.example/"]);
    assert!(text(&denied.stderr).contains("403"), "{}", text(&denied.stderr));
}

#[test]
fn git_lists_the_branches_of_a_repository() {
    // The smart protocol's answer, as a server without a repository would have it: one branch.
    let commit = "1234567890123456789012345678901234567890";
    let origin = Origin::new(move |mut client| {
        while let Some(head) = next_head(&mut client) {
            let line = |text: String| format!("{:04x}{text}", text.len() + 4);
            let body = if head.starts_with("GET /repo/info/refs?service=git-upload-pack ") {
                line("# service=git-upload-pack\n".into())
                    + "0000"
                    + &line(format!("{commit} HEAD\0symref=HEAD:refs/heads/main agent=test\n"))
                    + &line(format!("{commit} refs/heads/main\n"))
                    + "0000"
            } else {
                String::new()
            };
            let kind = "application/x-git-upload-pack-advertisement";
            client.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    let world = World::allowing(&[origin.named("git.example")]);
    let url = format!("http://git.example:{}/repo", origin.port());
    let got = run(&world, "git", &["ls-remote", &url]);
    assert!(got.status.success(), "{}", text(&got.stderr));
    assert_eq!(text(&got.stdout), format!("{commit}\tHEAD\n{commit}\trefs/heads/main\n"));
    let denied = run(&world, "git", &["ls-remote", "https://b.example/repo"]);
    assert!(text(&denied.stderr).contains("403"), "{}", text(&denied.stderr));
    assert_eq!(world.proxy().denials().len(), 1);
}
