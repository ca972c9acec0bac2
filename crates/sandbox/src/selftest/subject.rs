//! The process inside: it is asked for acts, tries each, and answers each with one line on standard output. It
//! judges nothing, and does not know whether it is confined.

mod memory;
mod network;
mod others;
mod processes;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};

use super::act::{Act, Answer, Seen};
pub(super) use network::greeted;

/// Try the acts, each a JSON text, in their order. An act that cannot be read is answered as not tried.
pub fn main(acts: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    for text in acts {
        let act = text
            .to_str()
            .ok_or("not text".to_owned())
            .and_then(|text| serde_json::from_str::<Act>(text).map_err(|error| error.to_string()));
        match act {
            Ok(act) => attempt(&act)?,
            Err(error) => answer(&Answer::untried("reading the act", error))?,
        }
    }
    Ok(())
}

/// One line.
fn answer(answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

fn attempt(act: &Act) -> io::Result<()> {
    let said = match act {
        Act::Write(path) => {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            Answer::of(opened.and_then(|mut file| file.write_all(b"written by the self-test\n")), |()| {
                Seen::Nothing
            })
        }
        Act::Read(path) => Answer::of(fs::read(path), |bytes| Seen::Count(bytes.len() as u64)),
        Act::List(path) => {
            let listed = fs::read_dir(path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            Answer::of(listed, |entries| Seen::Count(entries.len() as u64))
        }
        Act::Rename { from, to } => Answer::of(fs::rename(from, to), |()| Seen::Nothing),
        Act::Connect(address) => network::connect(*address),
        Act::Send { address, words } => network::send(*address, words),
        Act::Ping(address) => network::ping(*address),
        Act::DialItself => network::dial_itself(),
        Act::FindProxy => network::find_proxy(),
        Act::Fetch { url, token } => network::fetch(url, *token),
        Act::Start(number) => processes::start(*number),
        Act::Touch { processes, bytes } => processes::touch(*processes, *bytes),
        Act::Burn { milliseconds, threads } => processes::burn(*milliseconds, *threads),
        Act::Variables { values } => variables(values),
        Act::Spy(whom) => others::spy(*whom),
        Act::Leave => processes::leave(),
        // These speak for themselves.
        Act::Serve { addresses, greeting, reach } => {
            return network::serve(addresses, greeting, *reach, answer);
        }
        Act::Linger { generations } => return processes::linger(*generations),
        Act::Hold { bytes } => return processes::hold(*bytes),
    };
    answer(&said)
}

fn variables(values: &[String]) -> Answer {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    let values = values
        .iter()
        .filter_map(|name| Some((name.clone(), std::env::var_os(name)?.to_string_lossy().into_owned())))
        .collect();
    Answer::Done(Seen::Variables { names, values })
}
