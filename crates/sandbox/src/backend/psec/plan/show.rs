//! A plan as a person reads it: names of variables and never their values.

use std::fmt;

use super::Plan;
use crate::backend::psec::route::{PORTS, PROFILE, Route};
use crate::backend::psec::spec::Network;
use crate::limits::show_memory;
use crate::text::escape;

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.command.iter().map(escape).collect();
        writeln!(out, "command   {}", words.join(" "))?;
        writeln!(out, "start in  {}", self.start.shown())?;
        writeln!(
            out,
            "job       memory {}, {} processes, {} cores of {} processors' time; ends with the run",
            show_memory(self.job.memory),
            self.job.processes,
            self.job.cpu,
            self.job.processors
        )?;
        writeln!(out, "container PSEC, specification {}", self.version)?;
        match self.route {
            Route::Bridge => {
                writeln!(out, "network   none; the bridge inside leads to {}", self.socket_shown())?
            }
            Route::Relay => writeln!(
                out,
                "network   127.0.0.1, one port of {}-{}, where {PROFILE} leads to {}",
                PORTS.start(),
                PORTS.end(),
                self.socket_shown()
            )?,
        }
        // The lists do not depend on the way to the network.
        write!(out, "{}", self.specification(Network::Closed))?;
        writeln!(out, "variables {}, and TEMP and TMP from Windows", self.variables.join(", "))?;
        for note in &self.notes {
            writeln!(out, "note      {note}")?;
        }
        Ok(())
    }
}
