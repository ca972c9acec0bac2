//! `oz0-node sandbox explain`: what a run may do, what is protected, and which rule decides. Starts nothing.

#[cfg(target_os = "linux")]
mod filter;

use std::process::ExitCode;

use clap::Args;
use oz0_egress::{Allowlist, Host, decide};
use oz0_sandbox::limits::{show_duration, show_memory};
use oz0_sandbox::policy::{Network, Policy};
use oz0_sandbox::protected::{Protected, rules};
use oz0_sandbox::report::Status;
use oz0_sandbox::run::prepare;
use oz0_sandbox::text::escape;

use super::run::PolicyArguments;
use super::{answer, answer_json, complain, refuse};

const EXAMPLES: &str = "\
Examples:
  oz0-node sandbox explain --work src --allow '*.example.com'
      The effective policy of a run with these options.
  oz0-node sandbox explain --allow '*.example.com' --host api.example.com:443
      Which rule decides for that host.
  oz0-node sandbox explain --protected
      The list of protected paths, each with its reason.";

/// What may be typed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArguments {
    #[command(flatten)]
    policy: PolicyArguments,
    /// Say which rule decides for this host.
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "What to explain")]
    host: Option<String>,
    /// Print the list of protected paths.
    #[arg(long, help_heading = "What to explain")]
    protected: bool,
    /// Print what --allow may say.
    #[arg(long, help_heading = "What to explain")]
    grammar: bool,
    #[cfg(target_os = "linux")]
    /// Print the system calls that the filter treats specially.
    #[arg(long, help_heading = "What to explain")]
    filter: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Explain.
pub fn main(arguments: ExplainArguments) -> ExitCode {
    let json = arguments.json;
    if arguments.protected {
        return protected(json);
    }
    if arguments.grammar {
        return grammar(json);
    }
    #[cfg(target_os = "linux")]
    if arguments.filter {
        return filter::explain(json);
    }
    // A policy needs a command to be whole; none is started.
    let policy = match arguments.policy.into_policy(vec!["true".into()]) {
        Ok(policy) => policy,
        Err(reason) => {
            complain(&reason, None);
            return Status::Sandbox.into();
        }
    };
    match &arguments.host {
        Some(host) => explain_host(&policy, host, json),
        None => explain_policy(&policy, json),
    }
}

fn explain_policy(policy: &Policy, json: bool) -> ExitCode {
    let prepared = match super::host().and_then(|host| prepare(&host, policy)) {
        Ok(prepared) => prepared,
        Err(refusal) => return refuse(&refusal, json),
    };
    if json {
        return answer_json(&serde_json::json!({
            "plan": prepared.plan,
            "protected": prepared.protected,
            "environment": policy.environment.names().iter().map(escape).collect::<Vec<_>>(),
        }));
    }
    let paths = |paths: &[std::path::PathBuf]| paths.iter().map(escape).collect::<Vec<_>>().join(", ");
    let more = |word: &str, list: &[std::path::PathBuf]| {
        if list.is_empty() { String::new() } else { format!("{word}{}", paths(list)) }
    };
    answer(&format!("writes       {}{}, a TEMP of its own", escape(&policy.work), more(", ", &policy.write)));
    answer(&format!("reads        the system{}; home: {}", more(", ", &policy.read), home(policy)));
    answer(&format!("reaches      {}", reaches(policy)));
    let limits = &policy.limits;
    let timeout = limits
        .timeout
        .map_or("no timeout".to_owned(), |timeout| format!("timeout {}", show_duration(timeout)));
    answer(&format!(
        "limits       memory {}, {} tasks, {} cores, {timeout}",
        show_memory(limits.memory),
        limits.processes,
        limits.cpu
    ));
    let names: Vec<String> = policy.environment.names().iter().map(escape).collect();
    answer(&format!(
        "passes       {}",
        if names.is_empty() { "no variable of yours".to_owned() } else { names.join(", ") }
    ));
    explain_protected(&prepared.protected);
    ExitCode::SUCCESS
}

/// What of the network a run reaches, on one line.
pub fn reaches(policy: &Policy) -> String {
    let Network::Proxy { allow, forward } = &policy.network else {
        return "the node's own network (--share-net): not tier 1".to_owned();
    };
    let mut named: Vec<String> = allow.rules().iter().map(ToString::to_string).collect();
    named.extend(forward.iter().map(|port| format!("127.0.0.1:{port} (forwarded)")));
    if named.is_empty() { "no host".to_owned() } else { named.join(", ") }
}

/// How much of the caller's home folder a run sees.
fn home(policy: &Policy) -> &'static str {
    let Some(home) = &policy.caller.home else { return "no" };
    let granted = || policy.grants().map(|(_, _, path)| path);
    if granted().any(|path| home.starts_with(path)) {
        "yes"
    } else if granted().any(|path| path.starts_with(home)) {
        "no, but for what is named here"
    } else {
        "no"
    }
}

fn explain_protected(protected: &Protected) {
    for entry in &protected.read_only {
        answer(&format!("protected    {} ({})", escape(&entry.path), entry.rule));
    }
    if protected.read_only.is_empty() {
        answer("protected    nothing of the list is here; what a run makes of it is named at the end");
    }
    for problem in &protected.problems {
        answer(&format!("note         {}", problem.sentence));
    }
}

fn explain_host(policy: &Policy, host: &str, json: bool) -> ExitCode {
    let Network::Proxy { allow, forward } = &policy.network else {
        return answer("--share-net: the node's own network, nothing is asked");
    };
    let (name, port) = match split_port(host) {
        Ok(split) => split,
        Err(reason) => {
            complain(&reason, Some("give HOST or HOST:PORT, as in example.com:443"));
            return Status::Sandbox.into();
        }
    };
    let explanation = decide::explain(allow, forward, &name, port);
    if json { answer_json(&explanation) } else { answer(&explanation.to_string()) }
}

/// A host with its port, 443 where none is given.
fn split_port(text: &str) -> Result<(Host, u16), String> {
    let bare_address = text.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !bare_address && !port.ends_with(']') => {
            let port = port.parse().map_err(|_| format!("--host {}: {port:?} is no port", escape(text)))?;
            (host, port)
        }
        _ => (text, 443),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = host.parse().map_err(|error| format!("--host {}: {error}", escape(text)))?;
    Ok((host, port))
}

fn protected(json: bool) -> ExitCode {
    if json {
        return answer_json(&serde_json::json!({ "version": rules::VERSION, "rules": rules::RULES }));
    }
    answer(&format!("Protected paths, version {}:", rules::VERSION));
    for rule in rules::RULES {
        let path = if rule.path.is_empty() { "(as configured)" } else { rule.path };
        let how = match rule.treatment {
            rules::Treatment::ReadOnly => "read-only",
            rules::Treatment::Report => "named",
        };
        answer(&format!("  {how:<10} {:<18} {path:<28} {}", rule.id, rule.why));
    }
    ExitCode::SUCCESS
}

fn grammar(json: bool) -> ExitCode {
    let table: Vec<_> = Allowlist::grammar().collect();
    if json {
        return answer_json(&table);
    }
    for (pattern, covers) in table {
        answer(&format!("  {pattern:<28} {covers}"));
    }
    ExitCode::SUCCESS
}
