//! A folder over plain HTTP on this machine's loopback, for the demonstration: `serve DIR` prints the port and
//! answers GET until its standard input closes. It refuses to know more of HTTP than a `git clone` over the dumb
//! protocol needs, and it serves nothing but regular files below the folder.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        let _ = writeln!(std::io::stderr(), "usage: serve DIR");
        return ExitCode::FAILURE;
    };
    match start(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "serve: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(folder: PathBuf) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            // A client that goes away in the middle is no trouble of the server's.
            let _ = answer(stream, &folder);
        }
    });
    // Whoever started it holds the other end: when they are gone, so is the server.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map(drop)
}

/// One request, then the connection closes.
fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream.try_clone()?).take(16 * 1024);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::from("-");
    while !line.trim_end().is_empty() {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    let Some(file) = first.strip_prefix("GET ").and_then(|rest| open(folder, rest.split([' ', '?']).next()?))
    else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let length = file.metadata()?.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    std::io::copy(&mut file.take(length), &mut stream).map(drop)
}

/// The regular file that a request's path names; none for anything that would lead out of the folder.
fn open(folder: &Path, path: &str) -> Option<File> {
    let below = Path::new(path.trim_start_matches('/'));
    if !below.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let file = File::open(folder.join(below)).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}
