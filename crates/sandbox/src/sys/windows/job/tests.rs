//! Job objects: what Wine holds is tested by what happens, what it only takes or refuses is asserted as that.

use std::os::windows::io::AsHandle;
use std::process::{Child, Command, Stdio};

use super::super::{handle, lab, processmodel::ProcessModel};
use super::events::Event;
use super::*;

/// A process that waits for its input's end, with a child that does the same.
fn waiting(script: &str) -> Child {
    Command::new("cmd.exe")
        .args(["/d", "/c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started")
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_process_that_is_put_in_and_its_children_end_with_the_job() {
    let job = Job::new(&Limits::default()).expect("a job");
    let events = job.events().expect("events");
    let child = waiting("set /p x= & cmd /d /c set /p y= & exit 3");
    assert_eq!(job.contains(child.as_handle()), Ok(false));
    job.assign(child.as_handle()).expect("assigned");
    assert_eq!(job.contains(child.as_handle()), Ok(true));
    assert_eq!(job.processes(), Ok(vec![child.id()]));
    assert_eq!(events.next(Some(LONG)), Ok(Some(Event::Started(child.id()))));
    let mut child = child;
    // The first answer starts the second process.
    use std::io::Write as _;
    child.stdin.as_mut().expect("piped").write_all(b"go\r\n").expect("written");
    let Ok(Some(Event::Started(second))) = events.next(Some(LONG)) else { panic!("the second starts") };
    let counters = job.counters().expect("counters");
    assert_eq!((counters.processes_total, counters.processes_active), (2, 2));
    assert_eq!(job.processes().map(|ids| ids.len()), Ok(2));

    let copy = handle::duplicate(child.as_handle(), false).expect("a copy");
    assert_eq!(job.end(77, LONG), Ok(Ended::Empty));
    assert_eq!(handle::wait(copy.as_handle(), Some(Duration::ZERO)), Ok(true), "gone, not only counted out");
    assert_eq!(child.wait().expect("ended").code(), Some(77));
    assert_eq!(job.processes(), Ok(vec![]));
    let mut seen = vec![];
    while let Some(event) = events.next(Some(Duration::from_millis(200))).expect("events") {
        seen.push(event);
    }
    assert!(seen.contains(&Event::Empty), "{seen:?}");
    assert!(second != child.id() && !seen.contains(&Event::Started(second)), "{seen:?}");
    assert_eq!(job.end(77, Duration::ZERO), Ok(Ended::Empty), "again");
}

#[test]
fn a_process_that_ends_by_itself_is_told() {
    let job = Job::new(&Limits::default()).expect("a job");
    let events = job.events().expect("events");
    let mut child = waiting("set /p x=");
    job.assign(child.as_handle()).expect("assigned");
    drop(child.stdin.take());
    child.wait().expect("ended");
    let told = [(); 3].map(|()| events.next(Some(LONG)).expect("told"));
    assert_eq!(told, [Event::Started(child.id()), Event::Ended(child.id()), Event::Empty].map(Some));
    assert_eq!(events.next(Some(Duration::ZERO)), Ok(None));
    assert_eq!(job.counters().map(|counters| counters.processes_active), Ok(0));
}

#[test]
fn closing_the_job_ends_what_is_in_it() {
    let job = Job::new(&Limits { processes: Some(8), memory: Some(256 << 20), ..Limits::default() })
        .expect("a job");
    let child = waiting("set /p x=");
    job.assign(child.as_handle()).expect("assigned");
    assert_eq!(handle::wait(child.as_handle(), Some(Duration::from_millis(50))), Ok(false), "it runs");
    drop(job);
    assert_eq!(handle::wait(child.as_handle(), Some(LONG)), Ok(true));
}

#[test]
fn nothing_leaves_a_job() {
    use std::os::windows::process::CommandExt as _;
    let job = Job::new(&Limits::default()).expect("a job");
    let mut outer = waiting("set /p x=");
    job.assign(outer.as_handle()).expect("assigned");
    // CREATE_BREAKAWAY_FROM_JOB (winbase.h) from a process that is in a job: this one goes into a job of its own.
    let own = Job::new(&Limits::default()).expect("a job");
    let mut inner = waiting("set /p x=");
    own.assign(inner.as_handle()).expect("assigned");
    assert_eq!(job.contains(inner.as_handle()), Ok(false));
    assert_eq!(own.contains(outer.as_handle()), Ok(false));
    // A second job nests inside the first.
    own.assign(outer.as_handle()).expect_err("a sibling is no inner job");
    let nested = Job::new(&Limits::default()).expect("a job");
    nested.assign(outer.as_handle()).expect("nested");
    assert_eq!(job.contains(outer.as_handle()), Ok(true));
    assert_eq!(job.end(1, LONG), Ok(Ended::Empty), "the outer one ends what is in the nested one");
    drop((own, nested));
    assert!(outer.wait().is_ok() && inner.wait().is_ok());
    let mut command = Command::new("cmd.exe");
    command.creation_flags(0x0100_0000);
    drop(command);
}

#[test]
fn a_process_that_has_ended_cannot_be_put_in() {
    let job = Job::new(&Limits::default()).expect("a job");
    let mut child = waiting("exit 0");
    child.wait().expect("ended");
    let error = job.assign(child.as_handle()).expect_err("it is gone");
    assert_eq!(error.call, "AssignProcessToJobObject");
    assert_ne!(error.win32_code(), Some(0));
}

#[test]
fn figures_that_are_none_are_refused_before_windows_is_asked() {
    for limits in [
        Limits { processes: Some(0), ..Limits::default() },
        Limits { memory: Some(0), ..Limits::default() },
        Limits { cpu: Some(0), ..Limits::default() },
        Limits { cpu: Some(10_001), ..Limits::default() },
    ] {
        assert!(matches!(Job::new(&limits), Err(JobError::Figure { .. })), "{limits:?}");
    }
}

#[test]
fn all_limits_are_held_or_the_one_that_is_not_is_named() {
    // With the stand-in loaded, what Wine forgets or lacks is remembered.
    let remembered = ProcessModel::load().is_ok();
    let all = Limits { processes: Some(8), memory: Some(256 << 20), cpu: Some(5_000), ui: 0x3DE };
    match Job::new(&all) {
        Ok(job) => assert_eq!(job.held(), Ok(all)),
        Err(error) => {
            assert!(lab::is_wine() && !remembered, "{error}");
            // Wine has no processor cap: ERROR_INVALID_PARAMETER.
            assert_eq!(error, JobError::Cpu(CallError::win32("SetInformationJobObject", 87)));
        }
    }
}

#[test]
fn bits_of_the_user_interface_are_the_ten_of_winnt_h() {
    assert!(UI_BITS.iter().enumerate().all(|(place, (bit, _))| *bit == 1 << place));
    assert_eq!(UI_BITS.iter().fold(0, |mask, (bit, _)| mask | bit), 0x3FF);
    let error =
        JobError::Ui { bits: vec!["input method", "input injection"], error: CallError::win32("X", 87) };
    assert_eq!(error.to_string(), "job user interface limits (input method, input injection): X: error 87");
}
