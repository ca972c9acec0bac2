//! The variables of a run: what the caller passes by name, what programs need, the proxy's; never the node's own,
//! and no value in what is printed.

use std::collections::BTreeMap;

use crate::support::{Place, finish, mark, processes_with, tests, wait_for};

tests![
    c065_the_proxys_variables_are_set,
    c068_an_unknown_or_empty_value_never_turns_the_sandbox_off,
    c070_the_token_is_in_no_java_option,
    c077_only_what_is_named_is_passed,
    the_nodes_own_variables_stay_outside,
    names_are_printed_and_values_are_not,
    the_token_is_in_no_argument_list_and_no_report,
    a_home_that_is_passed_is_kept,
    the_proxys_variables_cannot_be_passed,
];

fn environment(place: &Place, options: &[&str], outside: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut run = place.sandbox(options, &["/usr/bin/env", "-0"]);
    let said = finish(run.envs(outside.iter().copied())).ok();
    said.split('\0')
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn c065_the_proxys_variables_are_set(place: &Place) {
    let found =
        environment(place, &[], &[("NO_PROXY", "*"), ("no_proxy", "*"), ("HTTP_PROXY", "http://mine")]);
    let url = &found["HTTPS_PROXY"];
    assert!(url.starts_with("http://oz0:") && url.ends_with("@127.0.0.1:47320"), "{url}");
    for name in ["HTTP_PROXY", "http_proxy", "https_proxy"] {
        assert_eq!(&found[name], url, "{name}");
    }
    assert_eq!(found["NODE_USE_ENV_PROXY"], "1");
    assert!(!found.contains_key("NO_PROXY") && !found.contains_key("no_proxy"));
    assert_ne!(&environment(place, &[], &[])["HTTPS_PROXY"], url, "each run has a token of its own");
}

fn c068_an_unknown_or_empty_value_never_turns_the_sandbox_off(place: &Place) {
    for value in ["", " ", "0", "off", "none", "Bridge", "RELAY"] {
        for name in ["OZ0_SANDBOX", "OZ0_SANDBOX_PSEC_ROUTE", "OZ0_DATA_DIR"] {
            let mut run = place.sandbox(&[] as &[&str], &["grep", "Seccomp:", "/proc/self/status"]);
            assert_eq!(finish(run.env(name, value)).ok(), "Seccomp:\t2", "{name}={value}");
        }
    }
}

fn c070_the_token_is_in_no_java_option(place: &Place) {
    let found = environment(place, &["--env", "JAVA_TOOL_OPTIONS=-Xmx64m"], &[]);
    let token = found["HTTPS_PROXY"].split([':', '@']).nth(2).unwrap();
    assert!(token.len() >= 32);
    let with_token: Vec<&String> =
        found.iter().filter(|(_, value)| value.contains(token)).map(|(name, _)| name).collect();
    assert!(with_token.iter().all(|name| name.to_lowercase().ends_with("_proxy")), "{with_token:?}");
    assert!(found["JAVA_TOOL_OPTIONS"].starts_with("-Xmx64m"));
}

fn c077_only_what_is_named_is_passed(place: &Place) {
    let canary = place.write("canary.sh", "touch /tmp/oz0-suite-canary-077; echo canary-077\n");
    let canary = canary.to_str().unwrap();
    let planted: Vec<(&str, &str)> = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_GLOBAL",
        "GIT_DIR",
        "JAVA_TOOL_OPTIONS",
        "PERL5OPT",
        "RUBYOPT",
        "DOTNET_STARTUP_HOOKS",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "AWS_SECRET_ACCESS_KEY",
        "HOME",
    ]
    .map(|name| (name, canary))
    .to_vec();
    // The loader's own variables would act on the node itself; the sandbox's doing they are not.
    let harmless: Vec<(&str, &str)> =
        planted.iter().filter(|(name, _)| !name.starts_with("LD_")).copied().collect();
    let found = environment(place, &[], &harmless);
    let expected: Vec<&str> = vec![
        "ALL_PROXY",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "LANG",
        "LOGNAME",
        "NODE_USE_ENV_PROXY",
        "PATH",
        "PWD",
        "SHELL",
        "TMPDIR",
        "USER",
        "all_proxy",
        "http_proxy",
        "https_proxy",
    ];
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_ne!(found["HOME"], canary);
    let named = environment(place, &["--env=BASH_ENV", "--env=RUBYOPT", "--env=ONE=1=2"], &harmless);
    assert_eq!((named["BASH_ENV"].as_str(), named["ONE"].as_str()), (canary, "1=2"));
    assert_eq!(named["RUBYOPT"], canary);
    assert!(!named.contains_key("PERL5OPT"));
    // None of them acted on the node, outside.
    assert!(!std::path::Path::new("/tmp/oz0-suite-canary-077").exists());
}

fn the_nodes_own_variables_stay_outside(place: &Place) {
    let outside = [("OZ0_DATA_DIR", "/nowhere/data"), ("OZ0_ANYTHING", "secret")];
    let found = environment(place, &[], &outside);
    assert!(found.keys().all(|name| !name.starts_with("OZ0_")));
    assert!(found.values().all(|value| !value.contains("/nowhere/data")));
    let mut run = place.sandbox(&["--env", "OZ0_ANYTHING"], &["true"]);
    finish(run.env("OZ0_ANYTHING", "secret")).is_sandbox_refusal().says("OZ0_ANYTHING").says_not("secret");
    place.run(&["--env", "OZ0_X=1"], &["true"]).is_sandbox_refusal().says("OZ0_X");
    // Nothing of them in any process that the run sees.
    let mut run =
        place.sandbox(&[] as &[&str], &["sh", "-c", "cat /proc/*/environ | tr '\\0' '\\n' | grep -c OZ0_"]);
    assert_eq!(finish(run.envs(outside)).exits(1), "0");
}

fn names_are_printed_and_values_are_not(place: &Place) {
    let secret = "s3cr3t-value";
    let options = ["--env=MY_TOKEN", "--env=MY_OTHER=s3cr3t-value"];
    for extra in [&["--plan"] as &[&str], &["--plan", "--json"], &["--json"]] {
        let all: Vec<&str> = options.iter().chain(extra).copied().collect();
        let mut run = place.sandbox(&all, &["true"]);
        let said = finish(run.env("MY_TOKEN", secret));
        said.ok();
        said.says_not(secret);
    }
    let mut explain = place.node();
    explain.args(["sandbox", "explain"]).args(options).arg("--work").arg(&place.work).env("MY_TOKEN", secret);
    let said = finish(&mut explain);
    said.says("passes       MY_OTHER, MY_TOKEN").says_not(secret).ok();
}

fn the_token_is_in_no_argument_list_and_no_report(place: &Place) {
    let mark = mark();
    let report = place.beside("report");
    let log = place.beside("log");
    let options = ["--json", "--report", report.to_str().unwrap(), "--egress-log", log.to_str().unwrap()];
    let script = format!(
        "printf %s \"$HTTPS_PROXY\" >url; curl -s http://x.example/; curl -s -x http://oz0:wrong@127.0.0.1:47320 http://y.example/; sleep {mark}; exit 1"
    );
    let mut child = place.start(&mut place.sandbox(&options, &["sh", "-c", &script]));
    wait_for("the command", std::time::Duration::from_secs(10), || {
        let ours = processes_with(&mark);
        // sh became the parent of a sleep that has the mark as a word of its own.
        ours.iter().any(|pid| cmdline(*pid).starts_with("sleep")).then_some(())
    });
    let url = std::fs::read_to_string(place.work.join("url")).unwrap();
    let token = url.split([':', '@']).nth(2).unwrap().to_owned();
    assert!(token.len() >= 32, "{url}");
    for pid in std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
    {
        assert!(!cmdline(pid).contains(&token));
    }
    let environ = std::fs::read(format!("/proc/{}/environ", child.id())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&environ).contains(&token));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    child.wait().unwrap();
    let said = child.wait_with_output();
    let texts = [
        said.text(),
        said.stderr,
        std::fs::read_to_string(report).unwrap(),
        std::fs::read_to_string(log).unwrap(),
    ];
    assert!(texts[2].contains("denials") && texts[3].contains("x.example"), "{texts:?}");
    for text in texts {
        assert!(!text.contains(&token), "{text}");
    }
}

fn cmdline(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

fn a_home_that_is_passed_is_kept(place: &Place) {
    let found = environment(place, &["--env=HOME"], &[]);
    assert_eq!(found["HOME"], place.home.to_str().unwrap());
    let own = environment(place, &[], &[]);
    assert!(own["HOME"].starts_with(&own["TMPDIR"]), "{own:?}");
    place.sh("cd && pwd && test -w . && test \"$(stat -c %a .)\" = 700").ok();
}

fn the_proxys_variables_cannot_be_passed(place: &Place) {
    for name in ["HTTP_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY"] {
        place
            .run(&["--env", &format!("{name}=x")], &["true"])
            .is_sandbox_refusal()
            .says(name)
            .says("--allow");
    }
}
