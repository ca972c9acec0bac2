//! Protected paths, end to end: what programs outside execute later stays as it was, and git goes on working.
//! The cases of the list itself are tested beside it; here the built binary is asked.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;

use crate::support::{Place, exists, finish, tests};

tests![
    c029_absent_settings_stop_no_launch_and_leave_nothing,
    c032_a_folder_of_repositories_that_cannot_be_written_starts,
    c035_agents_settings_are_refused_where_they_are_and_named_where_they_are_new,
    c037_hooks_that_are_a_link_are_held_with_their_target,
    c038_settings_that_are_links_out_are_kept,
    c127_a_worktree_says_before_the_command_what_it_lacks,
    c128_the_configuration_of_a_worktree_is_read_only_and_readable,
    c130_no_key_that_names_a_program_is_written,
    c131_the_effective_hooks_folder_is_protected,
    c133_hooks_are_installed_when_asked_for,
    what_git_would_execute_cannot_be_planted,
    nothing_is_renamed_aside,
    git_works_inside,
    nested_repositories_are_protected,
    a_repository_above_the_working_folder_is_read_only,
    the_hosts_own_git_config_stays_protected,
    a_writer_that_was_quicker_is_caught,
    what_is_left_is_named_in_one_safe_line,
];

fn c029_absent_settings_stop_no_launch_and_leave_nothing(place: &Place) {
    place.sh("true").ok();
    assert_eq!(place.outside("ls -A").ok(), "");
    let run = place.sh("mkdir -p .claude/commands && echo x >.claude/commands/a.md");
    run.says("oz0-node: left: ").says("work/.claude").ok();
}

fn c032_a_folder_of_repositories_that_cannot_be_written_starts(place: &Place) {
    place.outside("mkdir a b && git init -q a && git init -q b && chmod 555 .").ok();
    assert_eq!(place.sh("ls").ok(), "a\nb");
    for repository in ["a", "b"] {
        place.sh(&format!("echo x >>{repository}/.git/config")).is_refused();
        place.sh(&format!("echo x >{repository}/.git/hooks/pre-commit")).is_refused();
        place.sh(&format!("touch {repository}/file")).ok();
    }
    place.outside("chmod 755 .").ok();
    assert_eq!(place.outside("ls -A").ok(), "a\nb");
}

fn c035_agents_settings_are_refused_where_they_are_and_named_where_they_are_new(place: &Place) {
    let files = [
        ".claude/settings.json",
        ".codex/config.toml",
        ".mcp.json",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".envrc",
        ".husky/pre-commit",
        ".cursor/mcp.json",
        ".devcontainer/devcontainer.json",
    ];
    let reported = ["AGENTS.md", ".github/workflows/x.yml", "package.json", "Makefile"];
    let make = |file: &str| format!("mkdir -p \"$(dirname {file})\" && echo x >{file}");
    // New ones cannot be forbidden by a mount: each is named, by its own or its folder's name.
    for file in files.iter().chain(&reported) {
        let top = file.split('/').next().unwrap();
        let run = place.sh(&make(file));
        run.ok();
        run.says("oz0-node: left: ").says(&format!("work/{top}"));
    }
    // Now they are there: the first list is read-only, in place, by replacing and by removing.
    for file in files {
        let top = file.split('/').next().unwrap();
        place.sh(&format!("echo y >>{file}")).is_refused();
        place.sh(&format!("mv {top} aside")).fails().says_one_of(&["busy", "Read-only", "denied"]);
        place.sh(&format!("rm -rf {top}")).fails();
        place.sh(&format!("echo y >new && mv new {file}")).fails();
        assert_eq!(place.outside(&format!("cat {file}")).ok(), "x");
    }
    for file in reported {
        place.sh(&format!("echo y >>{file}")).says(&format!("work/{}", file.split('/').next().unwrap())).ok();
    }
    let mut explain = place.node();
    let said = finish(explain.args(["sandbox", "explain", "--protected"])).ok();
    assert!(said.contains("agent.claude") && said.contains("version"), "{said}");
}

fn c037_hooks_that_are_a_link_are_held_with_their_target(place: &Place) {
    place.repository();
    place.outside("mkdir -p tools/hooks && rm -r .git/hooks && ln -s ../tools/hooks .git/hooks").ok();
    place.sh("ls .git/hooks/").ok();
    place.sh("echo x >tools/hooks/pre-commit").is_refused();
    place.sh("rm .git/hooks && mkdir .git/hooks").fails();
    place.sh("mv .git/hooks .git/x").fails();
    place.sh("mv tools x").fails();
    place.sh("ln -sfn /tmp .git/hooks").fails();
    assert_eq!(place.outside("readlink .git/hooks; ls tools/hooks").ok(), "../tools/hooks");
    place.outside("echo x >tools/hooks/pre-commit").ok();
}

fn c038_settings_that_are_links_out_are_kept(place: &Place) {
    let store = place.make_folder("store");
    place.write("store/bashrc", "kept");
    symlink(store.join("bashrc"), place.home.join(".bashrc")).unwrap();
    symlink("/nowhere/at/all", place.home.join(".profile")).unwrap();
    let home = |script: &str| {
        let mut run = place.node();
        run.args(["sandbox", "run", "--data-dir=/nowhere", "--work"]).arg(&place.home);
        finish(run.args(["--", "sh", "-c", script]))
    };
    home("true").ok();
    home("echo x >>.bashrc").fails();
    home("ln -sf /tmp/evil .bashrc").fails();
    home("rm .bashrc").fails();
    assert_eq!(std::fs::read_link(place.home.join(".bashrc")).unwrap(), store.join("bashrc"));
    // C040: a link out in some other folder stops nothing.
    std::fs::create_dir(place.work.join(".direnv")).unwrap();
    symlink("/nix/store/h-source", place.work.join(".direnv/h-source")).unwrap();
    place.sh("true").ok();
}

fn c127_a_worktree_says_before_the_command_what_it_lacks(place: &Place) {
    place.repository();
    place.outside("git worktree add -q ../tree -b tree").ok();
    let tree = place.beside("tree");
    let run = |options: &[&str], script: &str| {
        let mut run = place.node();
        run.args(["sandbox", "run", "--work"]).arg(&tree).args(options).args(["--", "sh", "-c", script]);
        finish(&mut run)
    };
    let add = "echo a >a.txt && git add a.txt";
    run(&[], "git status --short && git log --oneline").ok();
    run(&[], add).fails().says("outside the writable folders; add --git to let it");
    let mut explain = place.node();
    explain.args(["sandbox", "explain", "--work"]).arg(&tree);
    finish(&mut explain).says("add --git").ok();
    run(&["--git"], &format!("{add} && git -c user.name=A -c user.email=a@example.com commit -q -m two"))
        .ok();
    let git = place.work.join(".git");
    for file in ["config", "hooks/pre-commit", "worktrees/tree/commondir", "info/attributes"] {
        let before = std::fs::read(git.join(file)).ok();
        let write = run(&["--git"], &format!("echo x >>{}", git.join(file).display()));
        // What is not there cannot be held, and is named.
        if before.is_some() || file.starts_with("hooks") {
            write.is_refused();
            assert_eq!(std::fs::read(git.join(file)).ok(), before, "{file}");
        } else {
            write.says("oz0-node: left: ");
        }
    }
    assert_eq!(place.outside("git log --format=%s tree").ok(), "two\none");
}

fn c128_the_configuration_of_a_worktree_is_read_only_and_readable(place: &Place) {
    place.repository();
    place
        .outside(
            "git config extensions.worktreeConfig true && git config --worktree core.sparseCheckout true",
        )
        .ok();
    place.sh("git status && cat .git/config.worktree").says("sparseCheckout").ok();
    place.sh("echo x >>.git/config.worktree").is_refused();
    place.sh("git config --worktree core.fsmonitor ./x").fails();
    place.outside("git config --worktree core.x y").ok();
}

fn c130_no_key_that_names_a_program_is_written(place: &Place) {
    place.repository();
    let config = place.work.join(".git/config");
    let before = std::fs::read(&config).unwrap();
    for key in [
        "core.fsmonitor ./x.sh",
        "filter.a.clean ./x.sh",
        "diff.external ./x.sh",
        "core.sshCommand ./x.sh",
        "credential.helper ./x.sh",
        "include.path ../evil",
        "alias.status '!./x.sh'",
        "core.hooksPath h",
        "core.pager ./x.sh",
        "core.worktree /tmp",
    ] {
        place.sh(&format!("git config {key}")).fails();
    }
    for act in [
        "echo x >>.git/config",
        "rm .git/config",
        "mv .git/config .git/c",
        "cp .git/config c && echo x >>c && mv c .git/config",
        "ln -f c .git/config",
        "python3 -c \"open('.git/config', 'r+').truncate(0)\"",
        "chmod 777 .git/config",
    ] {
        place.sh(act).fails();
    }
    assert_eq!(std::fs::read(&config).unwrap(), before);
    // The look runs nothing of the repository: a filter and a monitor that are there from before.
    let canary = place.beside("canary");
    place.outside("git config core.fsmonitor ../x.sh && git config filter.a.clean ../x.sh && echo '*.txt filter=a' >.gitattributes").ok();
    place.write("x.sh", format!("#!/bin/sh\ntouch {}\n", canary.display()));
    place.outside("chmod 755 ../x.sh").ok();
    place.sh("echo y >one.txt").ok();
    assert!(!exists(&canary), "the look has executed something");
    place.outside("git status").ok();
    assert!(exists(&canary), "the control: git itself does execute it");
}

fn c131_the_effective_hooks_folder_is_protected(place: &Place) {
    place.repository();
    place.outside("git config core.hooksPath .githooks").ok();
    // Absent at the launch: named afterwards.
    let run = place.sh("mkdir .githooks && echo x >.githooks/pre-commit && chmod 755 .githooks/pre-commit");
    run.says("oz0-node: left: ").says("work/.githooks").ok();
    place.sh("echo y >>.githooks/pre-commit").is_refused();
    place.sh("mv .githooks x").fails();
    // By the caller's own configuration, and through a link.
    place.outside("git config --unset core.hooksPath && git config --global core.hooksPath \"$PWD/mine\" && mkdir mine").ok();
    place.sh("echo x >mine/pre-commit").is_refused();
    place.outside("mv mine real && ln -s real mine").ok();
    place.sh("echo x >real/pre-commit").is_refused();
    place.sh("rm mine").fails();
}

fn c133_hooks_are_installed_when_asked_for(place: &Place) {
    place.repository();
    let install = "printf '#!/bin/sh\\n' >.git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit";
    place.sh(install).is_refused();
    // An installer is told how, anybody else is not.
    place.outside("mkdir tools && printf '#!/bin/sh\\n: >.git/hooks/x\\n' >tools/lefthook && chmod 755 tools/lefthook").ok();
    place.run(&[] as &[&str], &["tools/lefthook", "install"]).says(".git/hooks").says("--git-hooks");
    let run = place.sh_with(&["--git-hooks"], install);
    run.ok();
    run.says("oz0-node: left: ").says(".git/hooks");
    place.sh_with(&["--git-hooks"], "git config core.x y").fails();
}

fn what_git_would_execute_cannot_be_planted(place: &Place) {
    place.repository();
    // What is not there and cannot be forbidden is named; what is there is held.
    for (act, name) in [
        ("echo ../evil >.git/commondir", "commondir"),
        ("echo garbage >.git/HEAD", "HEAD"),
        ("mkdir -p sub/objects sub/refs && echo 'ref: refs/heads/main' >sub/HEAD", "sub"),
        (
            "git init -q nested && echo x >nested/.git/hooks/pre-commit && chmod 755 nested/.git/hooks/pre-commit",
            "nested",
        ),
    ] {
        let run = place.sh(act);
        if run.status == Some(0) {
            run.says("oz0-node: left: ").says(name);
        } else {
            run.is_refused();
        }
        place.outside("rm -rf sub nested .git/commondir && echo 'ref: refs/heads/main' >.git/HEAD").ok();
    }
    place.outside("git status").ok();
}

fn nothing_is_renamed_aside(place: &Place) {
    place.repository();
    let held = "test -d .git/hooks && cat .git/config && ls .git/hooks";
    let before = place.outside(held).ok();
    for act in [
        "mv .git aside",
        "mv .git/hooks .git/h",
        "rmdir .git/hooks",
        "python3 -c \"import os; os.rename('.git', 'x')\"",
        "mkdir x && mv -T x .git",
    ] {
        place.sh(act).fails();
    }
    // The rest of .git stays writable, renames and links across it included.
    place
        .sh("touch y && mv y .git/y && ln .git/y z && mv .git/y .git/refs/heads/y && rm .git/refs/heads/y")
        .ok();
    place.outside("git status && git fsck").ok();
    place.outside("mkdir other && mv other moved && mv .git aside && mv aside .git").ok();
    // What may be removed is; what is protected stays.
    place.sh("rm -rf .git").fails();
    assert_eq!(place.outside(held).ok(), before);
}

fn git_works_inside(place: &Place) {
    place.repository();
    let script = "set -e
git status -s
echo two >two && git add two && git commit -qm two
git branch side && git checkout -q side && echo three >three && git add . && git commit -qm three
git checkout -q main && echo four >four && git add . && git commit -qm four
git rebase -q main side && git checkout -q main && git merge -q --no-edit side
git tag v1 && git stash list && git gc -q && git reflog -n 1 >/dev/null
echo changed >>one && git stash -q && git stash pop -q && git checkout -q one
git worktree list >/dev/null && git reset -q --hard HEAD~1 && git cherry-pick -n side >/dev/null 2>&1 || true
git fsck";
    place.sh(script).ok();
    let names = place.outside("git log --format=%s side").ok();
    assert_eq!(names, "three\nfour\ntwo\none");
    place.outside("git fsck && git status").ok();
}

fn nested_repositories_are_protected(place: &Place) {
    place.repository();
    place.outside("mkdir -p deep/er && git init -q deep/er && git init -q --bare bare.git").ok();
    for file in ["deep/er/.git/config", "deep/er/.git/hooks/x", "bare.git/config", "bare.git/hooks/x"] {
        place.sh(&format!("echo x >>{file}")).is_refused();
        place.outside(&format!("touch {file}")).ok();
    }
    for folder in ["deep", "deep/er", "deep/er/.git", "bare.git"] {
        place.sh(&format!("mv {folder} moved")).fails();
    }
    place.sh("cd deep/er && touch f && git add f && git -c user.name=A -c user.email=a@b commit -qm x").ok();
}

fn a_repository_above_the_working_folder_is_read_only(place: &Place) {
    place.repository();
    let below = place.work.join("below");
    place.outside("mkdir below").ok();
    let run = |options: &[&str], script: &str| {
        let mut run = place.node();
        run.args(["sandbox", "run", "--work"]).arg(&below).args(options).args(["--", "sh", "-c", script]);
        finish(&mut run)
    };
    run(&[], "git log --oneline").says("one").ok();
    run(&[], "echo x >f && git add f").fails().says("add --git");
    // What lies beside it is not there, and is not written.
    run(&[], "test ! -e ../one && echo x >../one; true").ok();
    assert_eq!(place.outside("cat one").ok(), "one");
    run(&["--git"], "git add f && git commit -qm f && ! git config core.x y").ok();
    assert_eq!(place.outside("git log -n 1 --format=%s").ok(), "f");
}

fn the_hosts_own_git_config_stays_protected(place: &Place) {
    place.repository();
    // The run tries all the time to write the configuration that the host keeps replacing.
    let script = "echo ready; n=0
while [ ! -e stop ]; do
  if { echo '[core] fsmonitor = ./x' >>.git/config; } 2>/dev/null; then n=$((n+1)); fi
  sleep 0.01
done
echo $n";
    let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["sh", "-c", script]));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    for number in 0..30 {
        place.outside(&format!("git config --local test.key {number}")).ok();
    }
    place.outside("touch stop").ok();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let status = child.wait().unwrap().code();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let config = std::fs::read_to_string(place.work.join(".git/config")).unwrap();
    assert!(config.contains("key = 29"), "{config}");
    // Between the host's rename and the cover a write may get through: then the run has ended for it.
    if config.contains("fsmonitor") {
        assert!(said.contains("oz0-node: ended: ") && status == Some(137), "{status:?} {rest} {said}");
        assert!(said.contains("oz0-node: left: "), "{said}");
    } else if !said.contains("oz0-node: ended: ") {
        assert_eq!(status, Some(0), "{said}");
    }
}

fn a_writer_that_was_quicker_is_caught(place: &Place) {
    place.repository();
    // It opens the file by a descriptor of the folder, as fast as it can, and keeps it open.
    let script = "
import os, time
print('ready', flush=True)
folder = os.open('.git', os.O_RDONLY)
end = time.monotonic() + 8
while time.monotonic() < end:
    try:
        fd = os.open('config', os.O_RDWR, dir_fd=folder)
    except OSError:
        continue
    time.sleep(8)
    os.write(fd, b'[core] fsmonitor = ./x')
    break";
    let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["/usr/bin/python3", "-c", script]));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    for number in 0..200 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        place.outside(&format!("git config --local test.key {number} || true")).ok();
    }
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    );
    child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let config = std::fs::read_to_string(place.work.join(".git/config")).unwrap();
    assert!(!config.contains("fsmonitor"), "{config}");
    // Whether it was ever quicker is the scheduler's affair; when it was, the run has ended for it.
    if said.contains("had opened it for writing") {
        assert!(said.contains("oz0-node: ended: "), "{said}");
    }
}

fn what_is_left_is_named_in_one_safe_line(place: &Place) {
    place.repository();
    let run = place.sh("mkdir -p \"$(printf 'a\\nb\\033[2J')\" && cd a* && git init -q . && echo x >.git/hooks/post-checkout && chmod 755 .git/hooks/post-checkout");
    run.ok();
    run.says("oz0-node: left: ");
    assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
    assert!(run.stderr.lines().all(|line| line.starts_with("oz0-node: ")), "{}", run.stderr);
}
