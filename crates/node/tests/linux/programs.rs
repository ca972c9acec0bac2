//! Programs that must start inside. One that is not on this machine fails its test, with the line that installs it.

use std::path::{Path, PathBuf};

use crate::support::{Place, tests};

tests![
    c055_python_starts,
    c055_node_starts,
    c055_java_starts_and_compiles,
    c055_go_builds_and_runs,
    c055_git_works,
    c055_chromium_prints_a_page,
    shells_and_tools_start,
    ;
    as root:
    c055_cargo_builds_and_runs,
];

fn need(program: &str, package: &str) {
    assert!(
        Path::new("/usr/bin").join(program).exists(),
        "/usr/bin/{program} is not here: apt-get install --no-install-recommends -y {package}"
    );
}

fn c055_python_starts(place: &Place) {
    need("python3", "python3");
    let script = "import ssl, sqlite3, multiprocessing as m, subprocess, tempfile, threading
def double(x): return 2 * x
if __name__ == '__main__':
    with m.Pool(2) as pool: print(sum(pool.map(double, range(10))))
    print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())";
    place.write("work/script.py", script);
    assert_eq!(place.run(&[] as &[&str], &["/usr/bin/python3", "script.py"]).ok(), "90\nchild");
}

fn c055_node_starts(place: &Place) {
    need("node", "nodejs");
    let script = "const w = require('worker_threads'), fs = require('fs'), cp = require('child_process');
fs.promises.writeFile('made', 'x').then(() => console.log(fs.readFileSync('made', 'utf8'), cp.execSync('echo child').toString().trim()));
new w.Worker('console.log(\"thread\")', {eval: true});";
    place.run(&[] as &[&str], &["node", "-e", script]).says("x child").says("thread").ok();
    // C080: the default limits, and a small one that it sizes its heap by.
    place.run(&["--memory=512M"], &["node", "-e", "1"]).ok();
}

fn c055_java_starts_and_compiles(place: &Place) {
    need("java", "default-jre-headless");
    place.run(&[] as &[&str], &["java", "-version"]).says("64-Bit").ok();
    place.run(&["--memory=512M"], &["java", "-Xlog:gc=off", "-version"]).ok();
}

fn c055_go_builds_and_runs(place: &Place) {
    need("go", "golang-go");
    place.write("work/main.go", "package main\nimport (\"fmt\"; \"os\"; \"sync\")\nfunc main() { var w sync.WaitGroup; for i := 0; i < 50; i++ { w.Add(1); go w.Done() }; w.Wait(); fmt.Println(\"go\", len(os.Args)) }\n");
    let run = place.sh_with(
        &["--env=GOFLAGS=-mod=mod", "--env=GO111MODULE=off"],
        "go build -o made main.go && ./made one",
    );
    assert_eq!(run.ok(), "go 2");
}

fn c055_git_works(place: &Place) {
    need("git", "git");
    let script = "git init -q -b main r && cd r && git config user.name A && git config user.email a@example.com && \
                  echo x >f && git add f && git commit -q -m one && git log --format=%s && git fsck && git gc -q";
    assert_eq!(place.sh(script).ok(), "one");
}

fn c055_chromium_prints_a_page(place: &Place) {
    need("chromium", "chromium");
    let run = place.run(
        &[] as &[&str],
        &[
            "timeout",
            "90",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "data:text/html,<title>t</title><p id=a></p><script>a.textContent=6*7</script>",
        ],
    );
    run.says("<p id=\"a\">42</p>").ok();
}

fn shells_and_tools_start(place: &Place) {
    for command in [
        "bash -c 'echo x'",
        "perl -e 'print 1'",
        "tar cf t.tar /etc/hosts",
        "find / -maxdepth 1",
        "ps ax",
        "df -h .",
        "date",
        "locale",
        "id -un",
        "getent passwd root",
        "curl --version",
        "openssl version",
        "make --version",
        "gcc --version",
        "ls -l /dev/stdin",
        "mktemp",
        "nproc",
        "free",
        "uname -a",
        "sort --parallel=4 /etc/services",
        "awk 'BEGIN { print 1 }'",
        "sed --version",
        "xargs --version </dev/null",
        "flock lock true",
        "timeout 5 true",
    ] {
        let program = command.split(' ').next().unwrap();
        if place.outside(&format!("command -v {program}")).status == Some(0) {
            place.sh(command).ok();
        }
    }
    assert_eq!(place.sh("id -un").ok(), place.outside("id -un").ok());
}

/// The toolchain of this very build lies in a home folder, so only its owner can grant it.
fn c055_cargo_builds_and_runs(place: &Place) {
    let cargo = PathBuf::from(env!("CARGO"));
    let toolchain = cargo.parent().and_then(Path::parent).unwrap();
    place.outside("mkdir src").ok();
    place.write(
        "work/Cargo.toml",
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    place.write("work/src/main.rs", "fn main() { println!(\"built\"); }\n");
    let options = [
        format!("--read={}", toolchain.display()),
        format!("--env=PATH={}:/usr/bin:/bin", toolchain.join("bin").display()),
    ];
    assert_eq!(place.sh_with(&options, "cargo run -q --offline").ok(), "built");
    let refused = place.run(&[format!("--env=PATH={}", toolchain.join("bin").display())], &["cargo"]);
    refused.fails();
}
