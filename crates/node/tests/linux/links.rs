//! Links that lead out of the workspace: looked for, named or refused.

use std::os::unix::fs::symlink;

use crate::support::{Place, tests};

tests![
    c044_a_hard_link_with_a_name_outside_is_named,
    c044_refuse_starts_nothing,
    c044_off_does_not_look,
    c044_a_write_through_a_symlink_goes_nowhere,
    c044_a_hard_link_to_what_may_not_be_written_is_not_made,
    a_symlink_that_the_run_leaves_is_named,
    links_within_the_workspace_are_nobodys_business,
];

fn c044_a_hard_link_with_a_name_outside_is_named(place: &Place) {
    place.write("outside", "kept");
    place.outside("ln ../outside hard").ok();
    let run = place.sh("true");
    run.ok();
    run.says("oz0-node: links: ").says("work/hard has other names outside").says("--links refuse");
    let report = place.sh_with(&["--json"], "true").report();
    assert_eq!(report["links"]["before"]["hard_links_in_all"], 1, "{report}");
}

fn c044_refuse_starts_nothing(place: &Place) {
    place.sh_with(&["--links=refuse"], "touch started").ok();
    std::fs::remove_file(place.work.join("started")).unwrap();
    place.write("outside", "kept");
    place.outside("ln ../outside hard").ok();
    let run = place.sh_with(&["--links=refuse"], "touch started");
    run.is_sandbox_refusal().says("1 files in the workspace have other names outside").says("work/hard");
    assert!(!place.work.join("started").exists());
    std::fs::remove_file(place.work.join("hard")).unwrap();
    symlink("../outside", place.work.join("soft")).unwrap();
    place.sh_with(&["--links=refuse"], "touch started").is_sandbox_refusal().says("work/soft");
}

fn c044_off_does_not_look(place: &Place) {
    place.write("outside", "kept");
    place.outside("ln ../outside hard").ok();
    let run = place.sh_with(&["--links=off"], "ln -s /etc/passwd out");
    assert_eq!((run.ok().as_str(), run.stderr.as_str()), ("", ""));
}

fn c044_a_write_through_a_symlink_goes_nowhere(place: &Place) {
    let outside = place.write("outside", "kept");
    let folder = place.make_folder("folder");
    symlink(&outside, place.work.join("absolute")).unwrap();
    symlink("../outside", place.work.join("relative")).unwrap();
    symlink(&folder, place.work.join("into")).unwrap();
    // The folders on the way are the run's own there, in its own memory: what is written to them is not outside.
    for act in [
        "echo x >absolute",
        "echo x >relative",
        "echo x >into/new",
        "cat absolute",
        "cat relative",
        "ls into/",
    ] {
        place.sh(act).says_not("kept");
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "kept");
    assert!(!folder.join("new").exists());
    let granted =
        place.sh_with(&[format!("--read={}", outside.display())], "cat absolute && echo x >absolute");
    granted.is_refused().says("kept");
    place.outside("echo changed >absolute").ok();
}

fn c044_a_hard_link_to_what_may_not_be_written_is_not_made(place: &Place) {
    let folder = place.make_folder("folder");
    place.write("folder/file", "kept");
    let option = format!("--read={}", folder.display());
    let run = place.sh_with(&[&option], &format!("ln {}/file mine", folder.display()));
    run.fails().says_one_of(&["Invalid cross-device link", "not permitted", "Permission denied"]);
    place.outside(&format!("ln {}/file mine", folder.display())).ok();
}

fn a_symlink_that_the_run_leaves_is_named(place: &Place) {
    let run = place.sh("ln -s /etc/passwd out; ln -s ../../x up; ln -s inside in; touch inside");
    run.ok();
    run.says("work/out leads out of the workspace, to /etc/passwd")
        .says("work/up leads out")
        .says_not("work/in ");
    // Text of the run's own choice is printed in one safe line.
    let run = place.sh("ln -s /etc/passwd \"$(printf 'a\\nb\\033[31m')\"");
    run.ok();
    assert!(!run.stderr.contains('\u{1b}'));
    assert!(run.stderr.lines().all(|line| line.starts_with("oz0-node: ")), "{}", run.all());
}

fn links_within_the_workspace_are_nobodys_business(place: &Place) {
    place.outside("touch a && ln a b && ln -s a c && mkdir d && ln -s ../a d/e").ok();
    let run = place.sh_with(&["--links=refuse"], "ln a f; ln -s d/e g; cat g");
    assert_eq!((run.ok().as_str(), run.stderr.as_str()), ("", ""));
}
