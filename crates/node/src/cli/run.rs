//! `oz0-node sandbox run`: what was typed, turned into a policy.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use oz0_egress::Allowlist;
use oz0_sandbox::backend::{self, Backend as _, psec};
use oz0_sandbox::environ::Environment;
use oz0_sandbox::limits::{self, Kind, Limits, Overrides};
use oz0_sandbox::links::Links;
use oz0_sandbox::policy::{GitAccess, Network, Policy, absolute};
use oz0_sandbox::report::Status;
use oz0_sandbox::run::{Options, prepare, run};

use super::{NodeArguments, answer, answer_json, complain, refuse};
use crate::env;

const EXAMPLES: &str = "\
Examples:
  oz0-node sandbox run -- make test
      The command writes the current folder and a TEMP of its own, and reaches no network.
  oz0-node sandbox run --work src --read ../fixtures --allow '*.example.com' -- ./fetch.sh
  oz0-node sandbox run --memory 512M --cpu 0.5 --timeout 90s -- ./untrusted
  oz0-node sandbox run --allow example.com --plan -- true
      Prints what would be done, and does nothing.

Exit status: the command's own; 128 and the signal's number when a signal ended it; 125 when the sandbox failed
or refused, 126 when the command cannot be executed, 127 when there is no such command.";

/// What may be typed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    #[command(flatten)]
    pub policy: PolicyArguments,
    /// Print the plan, and do nothing.
    #[arg(long, help_heading = "Output")]
    plan: bool,
    /// Print plan or report as JSON (the report: one line, the last on stderr).
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write the report to FILE, as JSON.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Write each decision of the egress proxy to FILE, a JSON object a line.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    egress_log: Option<PathBuf>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a run may do, as typed.
#[derive(Args)]
pub struct PolicyArguments {
    /// The working directory: the command starts in it and may write it [default: the current folder].
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    work: Option<PathBuf>,
    /// A file or folder that the command may read besides the system's.
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    read: Vec<PathBuf>,
    /// A file or folder that it may write as well.
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    write: Vec<PathBuf>,
    /// A git repository to protect wherever it lies in the writable folders.
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    protect: Vec<PathBuf>,
    /// Let it write the git folder that lies outside the working directory (config and hooks stay read-only).
    #[arg(long, help_heading = "Files")]
    git: bool,
    /// Let it write git hooks, for a hook installer. Other programs will execute them.
    #[arg(long, help_heading = "Files")]
    git_hooks: bool,
    /// What to do about links that lead out of the working directory.
    #[arg(long, value_name = "MODE", default_value = "report", help_heading = "Files")]
    links: LinksArgument,
    /// A Unix socket of this machine that it may connect to.
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    allow_socket: Vec<PathBuf>,

    /// A host that it may reach: a name, `*.example.com`, an address; ports 80 and 443 unless said.
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Network")]
    allow: Vec<String>,
    /// Let it reach every name and public address, on ports 80 and 443.
    #[arg(long, help_heading = "Network")]
    allow_any: bool,
    /// A loopback port of this machine that it may reach through the proxy.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Network")]
    forward: Vec<u16>,
    /// Use this machine's own network. Such a run is not tier 1.
    #[arg(long, conflicts_with_all = ["allow", "allow_any", "forward"], help_heading = "Network")]
    share_net: bool,

    /// What kind of job it is: sets the limits.
    #[arg(long, value_name = "KIND", default_value = "command", value_parser = kind, help_heading = "Limits")]
    kind: Kind,
    /// Memory of all its processes together: 512M, 1.5G.
    #[arg(long, value_name = "SIZE", value_parser = limits::parse_memory, help_heading = "Limits")]
    memory: Option<u64>,
    /// Processes and threads together.
    #[arg(long, value_name = "N", value_parser = limits::parse_processes, help_heading = "Limits")]
    processes: Option<u32>,
    /// A hard cap on CPU time, in cores: 0.5, 2, 150%.
    #[arg(long, value_name = "CORES", value_parser = limits::parse_cpu, help_heading = "Limits")]
    cpu: Option<limits::Cpu>,
    /// Time after which the run is ended: 90s, 5m.
    #[arg(long, value_name = "TIME", value_parser = limits::parse_duration, help_heading = "Limits")]
    timeout: Option<std::time::Duration>,

    /// A variable to pass: with its value, or as it is set here.
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "Environment")]
    env: Vec<OsString>,

    #[command(flatten)]
    pub node: NodeArguments,
}

fn kind(text: &str) -> Result<Kind, limits::LimitError> {
    text.parse()
}

/// `--links`.
#[derive(Clone, Copy, ValueEnum)]
enum LinksArgument {
    /// Look while the command runs, and name them afterwards.
    Report,
    /// Look first, and start nothing when there are any.
    Refuse,
    /// Do not look.
    Off,
}

impl PolicyArguments {
    /// What is meant.
    pub fn into_policy(self, command: Vec<OsString>) -> Result<Policy, String> {
        let current = std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
        let all = |paths: Vec<PathBuf>| paths.iter().map(|path| absolute(&current, path)).collect();
        let mut environment = Environment::default();
        for word in &self.env {
            environment.add(word, env::value).map_err(|error| error.to_string())?;
        }
        let network = if self.share_net {
            Network::Host
        } else {
            let allow = Allowlist::parse(&self.allow).map_err(|error| error.to_string())?;
            let allow = if self.allow_any { allow.with_any() } else { allow };
            Network::Proxy { allow, forward: self.forward }
        };
        Ok(Policy {
            work: self.work.map_or_else(|| current.clone(), |work| absolute(&current, &work)),
            read: all(self.read),
            write: all(self.write),
            protect: all(self.protect),
            sockets: all(self.allow_socket),
            git: GitAccess { hooks: self.git_hooks, outside: self.git },
            network,
            limits: Limits::fitted(self.kind, backend::host(None).machine_memory()).with(Overrides {
                memory: self.memory,
                processes: self.processes,
                cpu: self.cpu,
                timeout: self.timeout,
            }),
            environment,
            links: match self.links {
                LinksArgument::Report => Links::Report,
                LinksArgument::Refuse => Links::Refuse,
                LinksArgument::Off => Links::Off,
            },
            caller: env::caller(),
            data_directory: env::data_directory(self.node.data_dir),
            node_binary: std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?,
            command,
        })
    }
}

/// Run it.
pub fn main(arguments: RunArguments) -> ExitCode {
    let json = arguments.json;
    let policy = match arguments.policy.into_policy(arguments.command) {
        Ok(policy) => policy,
        Err(reason) => {
            complain(&reason, None);
            return Status::Sandbox.into();
        }
    };
    let backend = match super::host() {
        Ok(backend) => backend,
        Err(refusal) => return refuse(&refusal, json),
    };
    if psec::HERE && !env::psec_preview() {
        // What is missing comes first: the preview opens nothing that is not there.
        let lacking = backend.probe().lacking.into_iter().next();
        return refuse(&lacking.unwrap_or_else(psec::not_previewed), json);
    }
    // Two things at once: the container is made while what goes into it is worked out.
    let begun = (!arguments.plan).then(|| backend.begin(&policy));
    let prepared = match prepare(&backend, &policy) {
        Ok(prepared) => prepared,
        Err(refusal) => return refuse(&refusal, json),
    };
    let Some(begun) = begun else {
        let reaches = super::explain::reaches(&policy);
        if json {
            return answer_json(&serde_json::json!({ "plan": prepared.plan, "reaches": reaches }));
        }
        answer(prepared.plan.to_string().trim_end());
        return answer(&format!("reaches   {reaches}"));
    };
    let create = |option: &str, path: &PathBuf| {
        File::create(path).map_err(|error| format!("{option} {}: {error}", path.display()))
    };
    let opened = (|| {
        let log = arguments.egress_log.as_ref().map(|path| create("--egress-log", path)).transpose()?;
        let report = arguments.report.as_ref().map(|path| create("--report", path)).transpose()?;
        Ok::<_, String>((log, report))
    })();
    let (log, report_file) = match opened {
        Ok(opened) => opened,
        Err(reason) => {
            complain(&reason, None);
            return Status::Sandbox.into();
        }
    };
    let upstream = match env::upstream() {
        Ok(upstream) => upstream,
        Err(reason) => {
            complain(&reason, None);
            return Status::Sandbox.into();
        }
    };
    let records = log.map(|file| Box::new(file) as Box<dyn std::io::Write + Send>);
    let options = Options { records, upstream, patience: None };
    let report = match run(&backend, begun, &policy, &prepared, options) {
        Ok(report) => report,
        Err(refusal) => return refuse(&refusal, json),
    };
    if let Some(file) = report_file
        && let Err(error) = serde_json::to_writer(file, &report)
    {
        complain(&format!("--report: {error}"), None);
    }
    #[allow(clippy::print_stderr, reason = "the report's place")]
    match serde_json::to_string(&report) {
        Ok(text) if json => eprintln!("{text}"),
        _ => eprint!("{}", report.block()),
    }
    super::end_with(report.status())
}
