//! One process that the agent has started to stand by a command: waited for by one thread, told to end by others.

use std::io::{self, PipeReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::check::Tiers;
use super::order::Order;
use super::os;

/// The process. Its number is used only while it has not been waited for.
pub struct Child {
    id: u32,
    process: Mutex<Option<std::process::Child>>,
}

impl Child {
    /// Start the node's own program on an order, with `input` as what the command reads; gives also what both of its
    /// outputs write, in one. The calling thread has to live as long as the process does: on Linux the process ends
    /// with it.
    pub fn start(
        binary: &Path,
        tiers: &Tiers,
        order: &Order,
        input: Vec<u8>,
    ) -> io::Result<(Child, PipeReader)> {
        let (output, write) = io::pipe()?;
        let mut command = Command::new(binary);
        command.args(["stage", "job"]).stdin(Stdio::piped()).stdout(write.try_clone()?).stderr(write);
        tiers.hand_down(&mut command);
        // Ctrl-C at a terminal is a word to the agent, which lets its jobs end.
        os::own_group(&mut command);
        let mut process = command.spawn()?;
        // The command holds the ends for writing: with these the log would never end.
        drop(command);
        let mut stdin = process.stdin.take();
        let mut text = zeroize::Zeroizing::new(Vec::new());
        order.write(&mut *text)?;
        // A command that does not read its input does not hold up the agent.
        let written = std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(&text).and_then(|()| stdin.write_all(&input));
            }
        });
        if let Err(error) = written {
            let _ = process.kill();
            let _ = process.wait();
            return Err(error);
        }
        Ok((Child { id: process.id(), process: Mutex::new(Some(process)) }, output))
    }

    /// Wait for its end.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        let told = os::wait_until_ended(self.id);
        loop {
            let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(child) = &mut *process else { return Err(io::Error::other("it was waited for")) };
            if let Some(status) = child.try_wait()? {
                *process = None;
                return Ok(status);
            }
            drop(process);
            // Where the system did not tell.
            std::thread::sleep(if told { Duration::ZERO } else { Duration::from_millis(10) });
        }
    }

    /// Ask it to end the command; asked again it ends every process of it at once.
    pub fn ask(&self) {
        if self.process.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            os::ask(self.id);
        }
    }

    /// End it, and with it what it stands by.
    pub fn kill(&self) {
        if let Some(process) = &mut *self.process.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = process.kill();
        }
    }
}
