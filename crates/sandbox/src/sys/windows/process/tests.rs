//! Processes started, resumed and ended: cmd.exe stands for any program.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use super::super::attributes::Attribute;
use super::super::known;
use super::super::sid::Sid;
use super::*;

fn cmd() -> PathBuf {
    known::system_folder().expect("System32").join("cmd.exe")
}

fn block(variables: &[(&str, &str)]) -> Vec<u16> {
    let mut block: Vec<u16> = variables
        .iter()
        .flat_map(|(name, value)| format!("{name}={value}\0").encode_utf16().collect::<Vec<_>>())
        .collect();
    block.push(0);
    block
}

/// The output and the exit status of a cmd.exe with pipes.
fn run(script: &str, input: &str, variables: &[(&str, &str)]) -> (String, u32) {
    let (stdin, mut writer) = std::io::pipe().expect("a pipe");
    let (mut reader, stdout) = std::io::pipe().expect("a pipe");
    let folder = known::windows_folder().expect("the Windows folder");
    let root = folder.to_str().expect("a plain name").to_owned();
    let variables = [variables, &[("SystemRoot", root.as_str())]].concat();
    let suspended = start(&Start {
        application: &cmd(),
        command_line: format!("cmd.exe /d /c {script}").as_ref(),
        environment: &block(&variables),
        directory: &folder,
        standard: [stdin.as_handle(), stdout.as_handle(), stdout.as_handle()],
        container: Container::None,
    })
    .expect("started");
    drop((stdin, stdout));
    let process = suspended.resume().expect("resumed");
    writer.write_all(input.as_bytes()).expect("written");
    drop(writer);
    let mut output = String::new();
    reader.read_to_string(&mut output).expect("read");
    (output, process.wait(None).expect("waited").expect("ended"))
}

#[test]
fn output_input_environment_folder_and_status_arrive() {
    let (output, status) = run("echo %GREETING% & cd & exit 7", "", &[("GREETING", "hello = from outside")]);
    assert!(output.starts_with("hello = from outside"), "{output:?}");
    assert!(output.to_lowercase().contains(r"c:\windows"), "{output:?}");
    assert_eq!(status, 7);
    assert_eq!(run("set /p x= & call echo [%x%]", "abc\r\n", &[]).0.trim(), "[abc]");
    for status in [0, 1, 42, 259] {
        assert_eq!(run(&format!("exit {status}"), "", &[]).1, status);
    }
}

#[test]
fn the_callers_own_variables_do_not_go_over() {
    // Cargo sets this one for every test.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some() || std::env::var_os("PATH").is_some());
    let (output, _) = run("set", "", &[("ONLY", "this")]);
    assert!(output.contains("ONLY=this"), "{output}");
    assert!(!output.contains("CARGO"), "{output}");
}

#[test]
fn one_that_is_dropped_never_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let mark = place.path().join("ran");
    let nul = [null_input().expect("NUL"), null_output().expect("NUL"), null_output().expect("NUL")];
    let line = format!("cmd.exe /d /c echo x>{}", mark.display());
    let folder = place.path().to_owned();
    let environment = block(&[("SystemRoot", r"C:\windows")]);
    let make = || {
        start(&Start {
            application: &cmd(),
            command_line: line.as_ref(),
            environment: &environment,
            directory: &folder,
            standard: [nul[0].as_handle(), nul[1].as_handle(), nul[2].as_handle()],
            container: Container::None,
        })
        .expect("started")
    };
    let suspended = make();
    let observer = duplicate(suspended.as_handle(), false).expect("a copy");
    drop(suspended);
    assert_eq!(wait(observer.as_handle(), Some(Duration::ZERO)), Ok(true), "it is gone");
    assert!(!mark.exists());
    // The control: the same one does write when it is resumed.
    let process = make().resume().expect("resumed");
    assert_eq!(process.wait(Some(Duration::from_secs(60))), Ok(Some(0)));
    assert!(mark.exists());
}

#[test]
fn one_that_runs_can_be_ended() {
    let (stdin, _writer) = std::io::pipe().expect("a pipe");
    let out = null_output().expect("NUL");
    let process = start(&Start {
        application: &cmd(),
        command_line: "cmd.exe /d /c set /p x=".as_ref(),
        environment: &block(&[("SystemRoot", r"C:\windows")]),
        directory: &known::windows_folder().expect("the Windows folder"),
        standard: [stdin.as_handle(), out.as_handle(), out.as_handle()],
        container: Container::None,
    })
    .expect("started")
    .resume()
    .expect("resumed");
    assert_eq!(process.wait(Some(Duration::from_millis(50))), Ok(None), "it waits for input");
    process.terminate(99).expect("ended");
    assert_eq!(process.wait(Some(ENDING)), Ok(Some(99)));
}

#[test]
fn what_cannot_be_started_says_why() {
    let out = null_output().expect("NUL");
    let standard = [out.as_handle(), out.as_handle(), out.as_handle()];
    let folder = known::windows_folder().expect("the Windows folder");
    let environment = block(&[("SystemRoot", r"C:\windows")]);
    let program = cmd();
    let good = Start {
        application: &program,
        command_line: "cmd.exe /d /c exit".as_ref(),
        environment: &environment,
        directory: &folder,
        standard,
        container: Container::None,
    };
    let error = |start_: Start<'_>| start(&start_).err().expect("refused");
    let nowhere = Path::new(r"C:\no\such\program.exe");
    // ERROR_PATH_NOT_FOUND or ERROR_FILE_NOT_FOUND
    match error(Start { application: nowhere, ..good }) {
        StartError::Create(error) => assert!(matches!(error.win32_code(), Some(2 | 3)), "{error}"),
        other => panic!("{other}"),
    }
    let nul = StartError::Text { what: "command line", error: InteriorNul };
    assert_eq!(error(Start { command_line: "cmd\0.exe".as_ref(), ..good }), nul);
    assert_eq!(error(Start { environment: &[], ..good }), StartError::Environment);
    assert_eq!(error(Start { environment: &[0x41, 0x3D, 0], ..good }), StartError::Environment);
    let sid = Sid::parse("S-1-15-2-1-2-3-4-5-6-7").expect("valid");
    if super::super::lab::is_wine() && !super::super::lab::has_stand_in() {
        // Wine has no AppContainers: nothing is started outside of one instead.
        match error(Start { container: Container::Profile(&sid), ..good }) {
            StartError::Attribute(error) => assert_eq!(error.attribute, Attribute::SecurityCapabilities),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn standard_handles_are_always_three() {
    let handles = standard_handles().expect("three");
    assert!(handles.iter().all(|handle| duplicate(handle.as_handle(), false).is_ok()));
    assert!(!is_console(null_output().expect("NUL").as_handle()));
}
