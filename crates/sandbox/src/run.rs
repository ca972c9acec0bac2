//! One run from policy to report: the only place that strings the steps together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use oz0_egress::{Proxy, Settings, Token, Upstream};

use crate::backend::{Backend, Refusal, Running as _, find_outside};
use crate::links::{self, Cut, Findings, Links};
use crate::policy::{Network, Policy};
use crate::protected::{self, Bounds, Protected, Request, Snapshot};
use crate::report::{Ending, LinksFound, NotStarted, Report};

/// How long tunnels may still carry what was written before the end.
const DRAIN: Duration = Duration::from_secs(2);

/// What a run is asked besides its policy.
#[derive(Default)]
pub struct Options {
    /// Where each egress decision is written, a JSON object a line.
    pub records: Option<Box<dyn std::io::Write + Send>>,
    /// The proxy that this machine's own way out leads through.
    pub upstream: Option<Upstream>,
    /// Time to end after this process was asked to, by a first signal; none: a few seconds.
    pub patience: Option<Duration>,
}

/// What has been worked out before anything is done.
pub struct Prepared<P> {
    /// All that will be done.
    pub plan: P,
    /// What is protected.
    pub protected: Protected,
}

/// Look at the protected paths and plan. Changes nothing.
pub fn prepare<B: Backend>(backend: &B, policy: &Policy) -> Result<Prepared<B::Plan>, Refusal> {
    policy.validate().map_err(|error| Refusal { code: "policy", reason: error.to_string(), fix: None })?;
    // A missing folder is the survey's to report, with the option that named it.
    let survey = backend.survey(policy)?;
    let protected = protect(policy)?;
    let plan = backend.plan(policy, &survey, &protected)?;
    Ok(Prepared { plan, protected })
}

/// A plan that another process made of this policy, with the protected paths looked at again here.
pub fn with_plan<P>(policy: &Policy, plan: P) -> Result<Prepared<P>, Refusal> {
    Ok(Prepared { plan, protected: protect(policy)? })
}

fn protect(policy: &Policy) -> Result<Protected, Refusal> {
    let mut request = Request::new(policy.work.clone());
    request.writable = policy.write.iter().filter(|path| path.is_dir()).cloned().collect();
    request.repositories.clone_from(&policy.protect);
    request.home.clone_from(&policy.caller.home);
    request.config_home.clone_from(&policy.caller.config_home);
    request.git = policy.git.outside;
    request.git_hooks = policy.git.hooks;
    protected::find(&request).map_err(|error| refused("protected", "looking for protected paths", &error))
}

/// Run the command of a policy, from plan to report, in what was begun for it.
pub fn run<B: Backend>(
    backend: &B,
    begun: B::Begun,
    policy: &Policy,
    prepared: &Prepared<B::Plan>,
    options: Options,
) -> Result<Report, Refusal> {
    let started = Instant::now();
    if policy.links == Links::Refuse {
        refuse_links(&prepared.protected.roots)?;
    }
    let proxied = match &policy.network {
        Network::Proxy { allow, forward } => {
            let token =
                Token::generate().map_err(|error| refused("random", "making the run's token", &error))?;
            Some((allow, forward, token))
        }
        Network::Host => None,
    };
    let mut environment = backend.environment(policy, &prepared.plan, |address| match &proxied {
        Some((_, _, token)) => token.proxy_url(address).to_string(),
        None => String::new(),
    });
    if prepared.protected.enclosing.as_ref().is_some_and(|enclosing| !enclosing.outside.is_empty()) {
        // Inside, the repository above the working directory lies on another file system; git stops at that.
        environment.set_default("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1");
    }
    let (mut before, mut scan): (Option<Snapshot>, Option<LinkScan>) = (None, None);
    let mut running = backend.launch(begun, &prepared.plan, &environment, || {
        before = Some(protected::before(&prepared.protected));
        scan = LinkScan::start(policy, &prepared.protected.roots);
    })?;
    drop(environment);
    if let Some(patience) = options.patience {
        running.set_patience(patience);
    }
    running.sweep();
    // Most runs that end at once never ask for the network: the proxy starts when one does.
    let mut settings = proxied.map(|(allow, forward, token)| {
        let mut settings = Settings::new(allow.clone(), token);
        settings.forward.clone_from(forward);
        settings.records = options.records;
        settings.upstream = options.upstream;
        settings
    });
    let mut proxy: Option<std::io::Result<Proxy>> = None;
    let (ending, cause) = running
        .wait(policy.limits.timeout, &mut |listener, resolver| {
            proxy = settings.take().map(|settings| Proxy::start(settings, listener, resolver));
        })
        .map_err(|error| refused("wait", "standing by the run", &error))?;
    let proxy = proxy.transpose().map_err(|error| refused("proxy", "starting the egress proxy", &error))?;
    let mechanism = running.mechanism();
    let look = before.as_ref().map(|before| protected::after(&prepared.protected, before, Bounds::LOOK));
    let links = scan.map(|scan| scan.stop(&prepared.protected.roots, started.elapsed()));
    // Last, since the rest of the container may go while what was left is looked at.
    let used = running.finish()?;
    let denials = proxy.map(|proxy| proxy.stop(DRAIN).denials).unwrap_or_default();
    let outside = match ending {
        Ending::NotStarted(NotStarted::NotFound) => policy
            .command
            .first()
            .and_then(|program| find_outside(program.as_ref(), policy.caller.search.as_deref())),
        _ => None,
    };
    Ok(Report {
        command: policy.command.clone(),
        ending,
        cause,
        timeout: policy.limits.timeout,
        hits: used.as_ref().map(|(usage, limits)| usage.hit(limits)).unwrap_or_default(),
        usage: used.map(|(usage, _)| usage),
        denials,
        left: look.as_ref().map(|look| look.left.clone()).unwrap_or_default(),
        look_cut: look.is_some_and(|look| look.cut),
        problems: prepared.protected.problems.clone(),
        hooks: prepared.protected.closed_hooks().map(std::path::Path::to_path_buf),
        links,
        mechanism,
        shared_network: matches!(policy.network, Network::Host),
        found_outside: outside,
        elapsed: started.elapsed(),
    })
}

fn refused(code: &'static str, what: &str, error: &dyn std::fmt::Display) -> Refusal {
    Refusal { code, reason: format!("{what}: {error}"), fix: None }
}

/// `--links refuse`: nothing starts while a link leads out.
fn refuse_links(roots: &[PathBuf]) -> Result<(), Refusal> {
    let findings = links::scan(roots, Links::Refuse, &AtomicBool::new(false));
    findings.refuse().map_err(|error| Refusal {
        code: "links",
        reason: format!("--links refuse: {error}"),
        fix: None,
    })
}

/// A scan that could not be made: nothing found is not the same as nothing there.
fn unfinished() -> Findings {
    Findings { cut: Some(Cut::Cancelled), ..Findings::default() }
}

/// The scan that runs beside the command.
struct LinkScan {
    cancel: Arc<AtomicBool>,
    since: SystemTime,
    scan: Scan,
}

enum Scan {
    Done(Findings),
    Going(JoinHandle<Findings>),
}

impl LinkScan {
    fn start(policy: &Policy, roots: &[PathBuf]) -> Option<LinkScan> {
        if policy.links != Links::Report {
            return None;
        }
        let since = SystemTime::now();
        let cancel = Arc::new(AtomicBool::new(false));
        let scan = match links::scan_at_once(roots) {
            Some(findings) => Scan::Done(findings),
            None => {
                let (roots, stop) = (roots.to_vec(), Arc::clone(&cancel));
                let thread = std::thread::Builder::new()
                    .stack_size(256 * 1024)
                    .spawn(move || links::scan(&roots, Links::Report, &stop));
                match thread {
                    Ok(thread) => Scan::Going(thread),
                    Err(_) => Scan::Done(unfinished()),
                }
            }
        };
        Some(LinkScan { cancel, since, scan })
    }

    /// The look after the run takes time in proportion to the run, so that a short command in a large workspace
    /// stays short.
    fn stop(self, roots: &[PathBuf], elapsed: Duration) -> LinksFound {
        self.cancel.store(true, Ordering::Relaxed);
        let before = match self.scan {
            Scan::Done(findings) => findings,
            Scan::Going(thread) => thread.join().unwrap_or_else(|_| unfinished()),
        };
        let limit = (elapsed / 20).clamp(Duration::from_millis(5), Duration::from_millis(250));
        let left = links::left(roots, &before, self.since, limit);
        LinksFound { before, left }
    }
}
