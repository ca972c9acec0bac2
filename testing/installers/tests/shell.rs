//! install.sh, really run: as root in a mount namespace of its own, where /usr/local and systemd's folders are empty
//! ones, and as an ordinary user into a home of its own. `NODE` names the node's program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A world of one test: a copy of script and program that everybody can read.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = PathBuf::from(std::env::var_os("NODE").expect("NODE names the built node"));
        let world = World { folder };
        open(world.path());
        fs::copy(node, world.path().join("oz0-node")).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../install/install.sh");
        fs::copy(script, world.path().join("install.sh")).unwrap();
        // Says what it is asked, and does it not.
        fs::write(world.path().join("systemctl"), "#!/bin/sh\necho \"systemctl $*\" >>\"$SAID\"\n").unwrap();
        for name in ["oz0-node", "install.sh", "systemctl"] {
            open(&world.path().join(name));
        }
        fs::create_dir(world.path().join("home")).unwrap();
        // Written by whoever runs it.
        fs::set_permissions(world.path().join("home"), fs::Permissions::from_mode(0o777)).unwrap();
        world
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A shell script in a world where nothing of the machine's is written. `before` prepares it, as root.
    fn as_root(&self, before: &str, script: &str) -> Output {
        let text = format!(
            "set -eu\nmount -t tmpfs none /usr/local\nmkdir -p /etc/systemd/system /run/systemd\n\
             mount -t tmpfs none /etc/systemd/system\nmount -t tmpfs none /run/systemd\n\
             cp {here}/systemctl /usr/local/systemctl\n{before}\n{script}\n",
            here = self.path().display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", &text]);
        self.started(command)
    }

    /// As `nobody`, without root's ways.
    fn as_user(&self, before: &str, script: &str) -> Output {
        self.as_root(
            before,
            &format!("exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -euc '{script}'"),
        )
    }

    fn started(&self, mut command: Command) -> Output {
        let home = self.path().join("home");
        command.env_clear().env("PATH", format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", self.path().display()));
        command.env("HOME", &home).env("SAID", home.join("said")).current_dir("/");
        command.output().unwrap()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path().join("home/said")).unwrap_or_default()
    }

    fn install(&self) -> String {
        self.path().join("install.sh").display().to_string()
    }
}

fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SYSTEMD: &str = "mkdir /run/systemd/system";

/// The last two lines are the first two of the check.
fn ends_with_the_check(told: &str) {
    let lines: Vec<&str> = told.lines().collect();
    let [.., sandbox, found] = lines[..] else { panic!("{told}") };
    assert!(sandbox.starts_with("Sandbox: tier ") && found.starts_with("Linux "), "{told}");
}

#[test]
fn root_installs_for_everybody_and_removes_it() {
    let world = World::new();
    let install = world.install();
    let told = out(&world.as_root(
        "",
        &format!("{install}; ls -l /usr/local/bin; {install} --uninstall; ls -A /usr/local/bin"),
    ));
    assert!(told.starts_with("Installed: /usr/local/bin/oz0-node\nSandbox: tier "), "{told}");
    assert!(told.contains("-rwxr-xr-x 1 root root"), "{told}");
    let after = "Removed: /usr/local/bin/oz0-node\nWhat remains:\n  nothing of this user\n";
    assert!(told.ends_with(after), "nothing may be listed after it: {told}");
    assert_eq!(world.said(), "", "nothing is started unless it is asked for");
}

#[test]
fn a_user_installs_into_a_home() {
    let world = World::new();
    let told = out(&world.as_user("", &world.install()));
    assert!(
        told.starts_with(&format!("Installed: {}/home/.local/bin/oz0-node\n", world.path().display())),
        "{told}"
    );
    ends_with_the_check(&told);
    assert!(world.path().join("home/.local/bin/oz0-node").exists());
    assert!(!world.path().join("home/.local/bin/oz0-node.new").exists());
}

#[test]
fn a_program_that_is_running_is_replaced() {
    let world = World::new();
    let install = world.install();
    let script = format!(
        "{install} >/dev/null; cp /bin/sleep /usr/local/bin/oz0-node; /usr/local/bin/oz0-node 30 & sleep 0.2; \
         {install}; kill $!"
    );
    assert!(out(&world.as_root("", &script)).starts_with("Installed: "));
}

#[test]
fn a_service_is_made_when_it_is_asked_for() {
    let world = World::new();
    let install = world.install();
    let script = format!(
        "{install} --service --user nobody --data-dir /var/lib/oz0-node; cat /etc/systemd/system/oz0-node.service"
    );
    let told = out(&world.as_root(SYSTEMD, &script));
    for line in [
        "ExecStart=/usr/local/bin/oz0-node run --data-dir /var/lib/oz0-node",
        "User=nobody",
        "Delegate=yes",
        "WantedBy=multi-user.target",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}: {told}");
    }
    assert_eq!(world.said(), "systemctl daemon-reload\nsystemctl enable --now oz0-node.service\n");
}

#[test]
fn a_users_service_is_the_users_and_goes_again() {
    let world = World::new();
    let install = world.install();
    let told = out(&world.as_user(
        SYSTEMD,
        &format!("{install} --service; cat $HOME/.config/systemd/user/*; {install} --uninstall"),
    ));
    assert!(
        told.contains("Delegate=yes") && told.contains("WantedBy=default.target") && !told.contains("User=")
    );
    assert!(told.ends_with("What remains:\n  nothing of this user\n"), "{told}");
    let said = "systemctl --user daemon-reload\nsystemctl --user enable --now oz0-node.service\n\
                systemctl --user disable --now oz0-node.service\nsystemctl --user daemon-reload\n";
    assert_eq!(world.said(), said);
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_installed() {
    let world = World::new();
    let install = world.install();
    for (before, arguments, why) in [
        ("", "--service --user nobody", "which does not run here"),
        (SYSTEMD, "--service", "--user NAME"),
        (SYSTEMD, "--service --user nobody-here-by-that-name", "there is no user"),
        (SYSTEMD, "--service --user 'a b'", "only letters"),
        (SYSTEMD, "--service --user nobody --data-dir '/x %n'", "only letters"),
        ("", "--user nobody", "goes with --service"),
        ("", "--binary /nonexistent", "no program to install"),
        ("", "--frobnicate", "not understood"),
        ("", "--data-dir", "wants a value"),
    ] {
        let output = world.as_root(
            before,
            &format!("{install} {arguments} || {{ ls -A /usr/local /etc/systemd/system; exit 1; }}"),
        );
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert!(text(&output.stderr).contains(why), "{arguments}: {}", text(&output.stderr));
        let left = "/etc/systemd/system:\n\n/usr/local:\nsystemctl\n";
        assert_eq!(text(&output.stdout), left, "{arguments}: something was installed");
        assert_eq!(world.said(), "");
    }
}

#[test]
fn a_data_directory_is_named_and_kept() {
    let world = World::new();
    let install = world.install();
    let data = world.path().join("home/.local/share/oz0-node");
    fs::create_dir_all(&data).unwrap();
    let told = out(&world.as_root("", &format!("{install} >/dev/null; {install} --uninstall")));
    assert!(told.contains(&format!("  {}, with the node's identity", data.display())), "{told}");
    assert!(data.exists());
}
