//! What cannot be meant or cannot be done: each an error of one line that names the input, with what to do; status
//! 125; nothing started and nothing left.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;

use crate::support::user::User;
use crate::support::{Place, finish, session, tests};

tests![
    working_folders_that_cannot_be_used,
    paths_that_cannot_be_granted,
    no_command_and_an_empty_one,
    words_that_are_no_text_pass_through,
    bytes_that_no_program_can_be_given,
    a_large_argument_and_environment_pass_through,
    too_large_an_argument_is_the_commands_error,
    c010_c089_host_patterns,
    limits_that_are_none,
    options_given_twice,
    options_that_contradict_each_other,
    unknown_options_and_verbs,
    files_for_reports_that_cannot_be_made,
    without_user_namespaces_it_says_what_to_change,
    the_answer_for_programs,
    ;
    as root:
    without_a_cgroup_it_says_what_to_change,
    a_folder_that_this_user_cannot_enter,
    delegation_by_an_ordinary_user_or_to_nobody_known,
];

fn with_work(place: &Place, work: &std::path::Path) -> crate::support::Outcome {
    let mut run = place.node();
    run.args(["sandbox", "run", "--work"]).arg(work).args(["--", "touch", "started"]);
    finish(&mut run)
}

fn working_folders_that_cannot_be_used(place: &Place) {
    let absent = place.beside("absent");
    let said = with_work(place, &absent);
    said.is_sandbox_refusal().says(&format!("oz0-node: --work {}: no such file or folder", absent.display()));
    let file = place.write("file", "");
    with_work(place, &file).is_sandbox_refusal().says("a file; give a folder");
    let link = place.beside("link");
    symlink(&place.work, &link).unwrap();
    with_work(place, &link)
        .is_sandbox_refusal()
        .says(&format!("a link to {}; give that path", place.work.display()));
    symlink("loop", place.beside("loop")).unwrap();
    with_work(place, &place.beside("loop")).is_sandbox_refusal().says("--work");
    with_work(place, "".as_ref()).says("--work").exits(125);
    for folder in ["/", "/usr", "/etc", "/proc", "/proc/self", "/dev", "/sys", "/var", "/bin"] {
        with_work(place, folder.as_ref()).is_sandbox_refusal().says(&format!("--work {folder}"));
    }
    // A folder that is removed while one stands in it.
    let script = format!(
        "mkdir gone && cd gone && rmdir ../gone && {} sandbox run -- true",
        session::binary().display()
    );
    place.outside(&script).exits(125);
    assert_eq!(place.outside("ls -A").ok(), "");
}

fn paths_that_cannot_be_granted(place: &Place) {
    let absent = place.beside("absent");
    for option in ["--read", "--write", "--allow-socket", "--protect"] {
        let said = place.sh_with(&[option, absent.to_str().unwrap()], "true");
        said.is_sandbox_refusal().says(&absent.display().to_string());
    }
    for path in ["/proc", "/proc/1", "/sys", "/dev", "/dev/mem", "/dev/kmsg"] {
        place.sh_with(&["--read", path], "true").is_sandbox_refusal().says(path);
    }
    for path in ["/", "/usr", "/etc", "/bin"] {
        place.sh_with(&["--write", path], "true").is_sandbox_refusal().says(path);
    }
    // Text of the input is printed in one safe line.
    let said = place.sh_with(&["--read", "/no\n\u{1b}[31mthing"], "true");
    said.is_sandbox_refusal();
    assert!(!said.stderr.contains('\u{1b}'), "{:?}", said.stderr);
}

fn no_command_and_an_empty_one(place: &Place) {
    place.run(&[] as &[&str], &[""]).is_sandbox_refusal().says("no command: put it after `--`");
    let mut run = place.node();
    run.args(["sandbox", "run", "--work"]).arg(&place.work);
    finish(&mut run).says("COMMAND").exits(125);
    let mut run = place.node();
    run.args(["sandbox", "run", "--work"]).arg(&place.work).arg("--");
    finish(&mut run).exits(125);
    // The command must come after `--`: an option of its own is never taken for one of ours.
    let mut run = place.node();
    run.args(["sandbox", "run", "ls", "-l"]);
    finish(&mut run).exits(125);
}

fn words_that_are_no_text_pass_through(place: &Place) {
    let word = OsString::from_vec(b"a\xff\xfe \n'\"$(x)".to_vec());
    let command: Vec<OsString> = vec!["printf".into(), "%s".into(), word.clone()];
    let run = place.run(&[] as &[&str], &command);
    run.ok();
    assert_eq!(run.stdout, word.as_encoded_bytes());
    let mut variable = OsString::from("NAME=");
    variable.push(&word);
    let run = place.run(&[OsString::from("--env"), variable], &["printenv", "NAME"]);
    run.ok();
    assert_eq!(run.stdout.strip_suffix(b"\n").unwrap(), word.as_encoded_bytes());
    // A folder of that name as the working folder, in the report too.
    let folder = place.beside("x").with_file_name(&word);
    std::fs::create_dir(&folder).unwrap();
    place.user.own(&folder);
    let mut run = place.node();
    run.args(["sandbox", "run", "--json", "--work"]).arg(&folder).args([
        "--",
        "sh",
        "-c",
        "touch made; exit 1",
    ]);
    let run = finish(&mut run);
    run.exits(1);
    run.report();
    assert!(folder.join("made").exists());
}

fn bytes_that_no_program_can_be_given(place: &Place) {
    // The kernel itself ends a word at a NUL, so none can arrive; a name of a variable is ours to refuse.
    place.run(&["--env", "=x"], &["true"]).is_sandbox_refusal().says("not a variable's name");
    place
        .run(&["--env", "OZ0_SUITE_NOT_SET_AT_ALL"], &["true"])
        .is_sandbox_refusal()
        .says("OZ0_SUITE_NOT_SET_AT_ALL");
    place
        .run(&["--env", "NOT_SET_AT_ALL"], &["true"])
        .is_sandbox_refusal()
        .says("--env NOT_SET_AT_ALL: not set here");
}

fn a_large_argument_and_environment_pass_through(place: &Place) {
    // 1 MiB of arguments in words of 100,000 bytes; the kernel's bound for one word is 128 KiB.
    let words: Vec<String> = (0..10).map(|_| "x".repeat(100_000)).collect();
    let mut command = vec!["sh".to_owned(), "-c".into(), "printf %s \"$@\" | wc -c".into(), "sh".into()];
    command.extend(words);
    assert_eq!(place.run(&[] as &[&str], &command).ok(), "1000000");
    let variables: Vec<String> =
        (0..8).map(|number| format!("--env=V{number}={}", "y".repeat(60_000))).collect();
    assert_eq!(
        place.run(&variables, &["sh", "-c", "printf %s $V0$V1$V2$V3$V4$V5$V6$V7 | wc -c"]).ok(),
        "480000"
    );
    let many: Vec<String> = (0..2000).map(|number| format!("--env=N{number}={number}")).collect();
    assert_eq!(place.run(&many, &["sh", "-c", "env | grep -c ^N[0-9]"]).ok(), "2000");
}

fn too_large_an_argument_is_the_commands_error(place: &Place) {
    // What fits outside may not fit with the variables that are added: it is said, not cut.
    let script = format!(
        "exec {} sandbox run --work . --env BIG=$(head -c 120000 /dev/zero | tr '\\0' x) -- sh -c 'exec true $(seq 1 400000)'",
        session::binary().display()
    );
    place.outside(&script).fails().says_one_of(&["too long", "Too long", "too many"]);
}

fn c010_c089_host_patterns(place: &Place) {
    for pattern in ["a.example;b.example", "a.example,b.example", "a.example b.example"] {
        let said = place.sh_with(&["--allow", pattern], "true");
        said.is_sandbox_refusal()
            .says("--allow once per host")
            .says(pattern.split([';', ',', ' ']).next().unwrap());
    }
    for pattern in [
        "*",
        "**.example.com",
        ".example.com",
        "example.*",
        "ex*mple.com",
        "*.com",
        "*.*",
        "**",
        "",
        "http://a.example",
        "a.example:0",
        "a.example:99999",
        "a.example:x",
        "a..example",
        "a.example%00",
        "localhost",
        "10.0.0.1",
        "[::1",
    ] {
        place.sh_with(&["--allow", pattern], "true").is_sandbox_refusal().says("--allow");
    }
    for pattern in [
        "example.com",
        "*.example.com",
        "EXAMPLE.com.",
        "a.example:8443",
        "9.9.9.9",
        "10.0.0.1:80",
        "[2001:db8::1]:443",
    ] {
        place.sh_with(&["--allow", pattern], "true").ok();
    }
    // Every host only by an option of its own, and then no private one and no other port.
    for url in ["http://10.0.0.5/", "http://127.0.0.1/", "http://b.example:22/"] {
        let get = format!("curl -s -o /dev/null -w '%{{http_code}}' {url}");
        assert_eq!(place.sh_with(&["--allow-any"], &get).text(), "403", "{url}");
    }
    let mut explain = place.node();
    explain.args(["sandbox", "explain", "--allow-any", "--host", "b.example", "--work"]).arg(&place.work);
    finish(&mut explain).says("allowed by").ok();
    let explain = |host: &str| {
        let mut explain = place.node();
        explain
            .args(["sandbox", "explain", "--allow", "*.example.com", "--host", host, "--work"])
            .arg(&place.work);
        finish(&mut explain)
    };
    for (host, allowed) in [
        ("a.example.com", true),
        ("a.b.example.com", true),
        ("example.com", false),
        ("notexample.com", false),
        ("example.com.evil.test", false),
        ("A.EXAMPLE.COM.", true),
        ("a.example.com:22", false),
    ] {
        let said = explain(host).ok();
        assert_eq!(said.contains("allowed by"), allowed, "{host}: {said}");
    }
    explain("a b").is_sandbox_refusal();
}

fn limits_that_are_none(place: &Place) {
    for option in [
        "--memory=0",
        "--memory=-1",
        "--memory=1",
        "--memory=x",
        "--memory=",
        "--memory=99999999999G",
        "--processes=0",
        "--processes=-1",
        "--processes=1.5",
        "--cpu=0",
        "--cpu=nan",
        "--cpu=inf",
        "--cpu=-1",
        "--timeout=0",
        "--timeout=x",
        "--timeout=-5s",
        "--timeout=5",
        "--kind=daemon",
        "--forward=0",
        "--forward=65536",
        "--links=maybe",
    ] {
        let run = place.sh_with(&[option], "touch started");
        let name = option.split('=').next().unwrap();
        run.says(name).exits(125);
    }
    assert_eq!(place.outside("ls -A").ok(), "");
}

fn options_given_twice(place: &Place) {
    for option in [
        "--memory=64M",
        "--cpu=1",
        "--timeout=5s",
        "--kind=command",
        "--processes=64",
        "--links=off",
        "--plan",
    ] {
        place.sh_with(&[option, option], "true").says(option.split('=').next().unwrap()).exits(125);
    }
    let work = format!("--work={}", place.work.display());
    place.sh_with(&[&work], "true").says("--work").exits(125);
    // The same grant twice is one grant.
    let read = format!("--read={}", place.make_folder("r").display());
    place.sh_with(&[&read, &read], "true").ok();
    place.sh_with(&["--allow=a.example", "--allow=a.example", "--forward=80", "--forward=80"], "true").ok();
}

fn options_that_contradict_each_other(place: &Place) {
    let folder = place.make_folder("folder");
    let (read, write) = (format!("--read={}", folder.display()), format!("--write={}", folder.display()));
    place
        .sh_with(&[&read, &write], "true")
        .is_sandbox_refusal()
        .says(&format!("both name {}: keep one", folder.display()));
    let link = place.beside("link");
    symlink(&folder, &link).unwrap();
    let through = format!("--read={}", link.display());
    place.sh_with(&[&through, &write], "true").is_sandbox_refusal().says("keep one");
    let read = format!("--read={}", place.work.display());
    place.sh_with(&[&read], "true").is_sandbox_refusal().says("keep one");
    place.sh_with(&["--share-net", "--allow=a.example"], "true").says("--share-net").exits(125);
}

fn unknown_options_and_verbs(place: &Place) {
    for words in [
        &["sandbox", "walk"] as &[&str],
        &["sandbox"],
        &[],
        &["sandbox", "run", "--worc", "x", "--", "true"],
        &["sandbox", "run", "--no-protection", "--", "true"],
    ] {
        let mut node = place.node();
        let said = finish(node.args(words));
        said.exits(125);
        assert!(said.stdout.is_empty(), "{}", said.all());
    }
    let mut node = place.node();
    finish(node.args(["sandbox", "run", "--worc", "x", "--", "true"])).says("--work");
}

fn files_for_reports_that_cannot_be_made(place: &Place) {
    for option in ["--report", "--egress-log"] {
        let path = place.beside("no/such/folder/file");
        let said = place.sh_with(&[option, path.to_str().unwrap()], "touch started");
        said.is_sandbox_refusal().says(option).says(&path.display().to_string());
    }
    assert_eq!(place.outside("ls -A").ok(), "");
}

fn without_user_namespaces_it_says_what_to_change(place: &Place) {
    // In a user namespace that allows none below it.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
    let mut unshare = place.command("unshare");
    unshare
        .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"])
        .arg(session::binary());
    unshare.args(["sandbox", "run", "--work"]).arg(&place.work).args(["--", "touch", "started"]);
    let said = finish(&mut unshare);
    said.is_sandbox_refusal().says("namespace").says("oz0-node: fix: ");
    assert_eq!(place.outside("ls -A").ok(), "");
}

fn the_answer_for_programs(place: &Place) {
    let absent = place.beside("absent");
    let said = place.sh_with(&["--json", "--read", absent.to_str().unwrap()], "true");
    said.exits(125);
    assert_eq!(said.report()["refusal"]["code"], "path_missing");
}

fn without_a_cgroup_it_says_what_to_change(place: &Place) {
    // A user that nothing was ever delegated to.
    let work = place.make_folder("theirs");
    std::os::unix::fs::chown(&work, Some(65533), Some(65533)).unwrap();
    let mut open = std::process::Command::new("chmod");
    finish(open.arg("755").arg(work.parent().unwrap())).ok();
    let mut run = crate::support::user::other(65533, session::binary());
    run.env_clear().current_dir(&work).args(["sandbox", "run", "--", "touch", "started"]);
    let said = finish(&mut run);
    said.is_sandbox_refusal().says("cgroup").says("oz0-node: fix: ").says("oz0-node sandbox delegate --user");
    assert!(!work.join("started").exists());
}

fn a_folder_that_this_user_cannot_enter(place: &Place) {
    let closed = place.make_folder("closed/inside");
    let nobody = Place::of(User::Nobody);
    let mut close = std::process::Command::new("chmod");
    finish(close.arg("755").arg(place.beside(""))).ok();
    finish(std::process::Command::new("chmod").arg("700").arg(place.beside("closed"))).ok();
    let said = nobody.sh_with(&[format!("--read={}", closed.display())], "true");
    said.is_sandbox_refusal()
        .says(&format!("--read {}", closed.display()))
        .says("closed to this user (permission denied)");
    place.sh_with(&[format!("--read={}", closed.display())], "true").ok();
}

fn delegation_by_an_ordinary_user_or_to_nobody_known(place: &Place) {
    let nobody = Place::of(User::Nobody);
    let mut delegate = nobody.node();
    delegate.args(["sandbox", "delegate", "--user", "nobody"]);
    finish(&mut delegate).is_sandbox_refusal().says("only root").says("sudo");
    for user in ["no-such-user-here", "", "-x", "root", "0"] {
        let mut delegate = place.node();
        delegate.args(["sandbox", "delegate", &format!("--user={user}")]);
        finish(&mut delegate).exits(125);
    }
}
