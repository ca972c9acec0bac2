//! Launchers that break a property by themselves, whatever the plan says.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::{World, names};
use oz0_fleet::Property;
use oz0_sandbox::backend::linux::Linux;
use oz0_sandbox::backend::linux::plan::Plan;
use oz0_sandbox::backend::{Refusal, Unattainable};
use oz0_sandbox::environ::Environment;
use oz0_sandbox::limits::Limits;
use oz0_sandbox::policy::{Network, Policy};
use oz0_sandbox::selftest::act::Act;
use oz0_sandbox::selftest::{Launcher, Order, Staged, Started, Told};

/// Makes every hole of this file, and gives the properties that were broken.
pub fn every_hole_is_named(world: &World) -> Vec<Property> {
    let backend = Linux;
    let sound = Staged::new(&backend, &world.node.binary);
    let mut met = Vec::new();
    let mut meet = |property, hole: &str, launcher: &dyn Launcher| {
        names(property, hole, &world.look(launcher, None));
        met.push(property);
    };

    let altered = |change| Altered { sound: &sound, change };
    let every_port = altered(forward_every_port);
    meet(Property::Egress, "the proxy forwards whichever port is asked for", &every_port);
    let narrow =
        altered(|policy| policy.network = Network::Proxy { allow: Default::default(), forward: vec![] });
    meet(Property::Egress, "the proxy lets nothing through", &narrow);

    let publishing = Publishing { sound: &sound, open: Mutex::default() };
    meet(Property::Ingress, "ports inside are published on the host", &publishing);
    drop(publishing);

    let script = "#!/bin/sh\nexec 3<&0\nNODE \"$@\" <&3 &\necho $! >>FOLDER/launchers\nwait $!\n";
    let between = world.script("between", script);
    meet(Property::JobLimits, "another process holds the run", &Staged::new(&backend, &between));
    end_all(&world.folder.path().join("launchers"));

    let unlimited = Staged::new(&backend, &world.node.binary).changed(|plan: &mut Plan| plan.cgroup = None);
    let falling_back = Instead { sound: &sound, instead: &unlimited };
    meet(Property::FailClosed, "without its limits it runs all the same", &falling_back);
    // Only there: a script between the launcher and the run would break job_limits first.
    let quiet = world.script("quiet", "#!/bin/sh\nNODE \"$@\"\n[ $? != 125 ] || exit 0\n");
    let quiet = Staged::new(&backend, &quiet);
    let quiet = Instead { sound: &sound, instead: &quiet };
    meet(Property::FailClosed, "a failure is told as the command's success", &quiet);

    let leaking = altered(|policy| policy.environment.set("OZ0_NODE_KEY", "secret"));
    meet(Property::Environment, "a variable of the node's comes along", &leaking);
    let around = altered(|policy| policy.environment.set("NO_PROXY", "*"));
    meet(Property::Environment, "NO_PROXY is set", &around);
    let bare = altered(|policy| policy.environment = Environment::default());
    meet(Property::Environment, "what the caller passes is dropped", &bare);
    met
}

/// Starts the command as it is, with every variable of its own.
pub struct Bare;

impl Launcher for Bare {
    fn start(&self, order: &Order<'_>) -> Result<Started, Refusal> {
        let mut command = Command::new(&order.policy.command[0]);
        command.args(&order.policy.command[1..]).current_dir(&order.policy.work);
        command.envs(order.policy.environment.variables()).envs(order.own.iter().copied());
        let told = |status: std::process::ExitStatus, _| Told::Command { status: status.code(), usage: None };
        Started::new(command, b"", told).map_err(|error| Refusal {
            code: "bare",
            reason: error.to_string(),
            fix: None,
        })
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        vec![Unattainable { words: "one process", limits: Limits { processes: 1, ..*limits } }]
    }
}

/// Changes what is meant before it is planned.
struct Altered<'a> {
    sound: &'a dyn Launcher,
    change: fn(&mut Policy),
}

impl Launcher for Altered<'_> {
    fn start(&self, order: &Order<'_>) -> Result<Started, Refusal> {
        let mut policy = order.policy.clone();
        (self.change)(&mut policy);
        self.sound.start(&Order { policy: &policy, ..*order })
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        self.sound.unattainable(limits)
    }
}

fn acts(policy: &Policy) -> impl Iterator<Item = Act> {
    policy.command.iter().filter_map(|word| serde_json::from_str(word.to_str()?).ok())
}

fn forward_every_port(policy: &mut Policy) {
    let ports: Vec<u16> = acts(policy)
        .filter_map(|act| match act {
            Act::Fetch { url, .. } => url.strip_suffix('/')?.rsplit_once(':')?.1.parse().ok(),
            _ => None,
        })
        .collect();
    if let Network::Proxy { forward, .. } = &mut policy.network {
        forward.extend(ports);
    }
}

/// When the limits cannot be had, starts otherwise.
struct Instead<'a> {
    sound: &'a dyn Launcher,
    instead: &'a dyn Launcher,
}

impl Launcher for Instead<'_> {
    fn start(&self, order: &Order<'_>) -> Result<Started, Refusal> {
        let limits = &order.policy.limits;
        let cannot = self.sound.unattainable(limits).iter().any(|asked| asked.limits == *limits);
        if cannot { self.instead.start(order) } else { self.sound.start(order) }
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        self.sound.unattainable(limits)
    }
}

/// Listens on the host on the ports that the command listens on inside, and carries connections in.
struct Publishing<'a> {
    sound: &'a dyn Launcher,
    open: Mutex<Vec<Published>>,
}

impl Launcher for Publishing<'_> {
    fn start(&self, order: &Order<'_>) -> Result<Started, Refusal> {
        let ports = acts(order.policy).find_map(|act| match act {
            Act::Serve { addresses, .. } if !addresses.is_empty() => Some(addresses),
            _ => None,
        });
        let word = order.policy.command.last().expect("a command").clone();
        for address in ports.into_iter().flatten() {
            let published = Published::open(address.port(), word.to_str().expect("text").to_owned());
            self.open.lock().expect("no panic").push(published);
        }
        self.sound.start(order)
    }

    fn unattainable(&self, limits: &Limits) -> Vec<Unattainable> {
        self.sound.unattainable(limits)
    }
}

struct Published {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Published {
    /// `word` is the last of the command's, by which its process is found.
    fn open(port: u16, word: String) -> Published {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let address = listener.local_addr().unwrap();
        let ending = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ending);
        let thread = thread::spawn(move || {
            for outer in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                carry_out(outer.unwrap(), port, &word).unwrap();
            }
        });
        Published { address, ending, thread: Some(thread) }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let woken = TcpStream::connect(self.address);
        assert!(woken.is_ok() && self.thread.take().unwrap().join().is_ok());
    }
}

/// What a peer inside hears on that port, to a peer outside: read by a program that enters the run's network.
fn carry_out(mut outer: TcpStream, port: u16, word: &str) -> io::Result<()> {
    let process = process_with(word).expect("the command runs");
    let inner = Command::new("nsenter")
        .args(["--user", "--preserve-credentials", "--net", "--target", &process, "--"])
        .args(["bash", "-c", &format!("cat </dev/tcp/127.0.0.1/{port}")])
        .output()?;
    assert!(inner.status.success(), "{}", String::from_utf8_lossy(&inner.stderr));
    outer.write_all(&inner.stdout)?;
    outer.shutdown(Shutdown::Write)
}

/// The number of the process whose last word this is.
fn process_with(word: &str) -> Option<String> {
    let is_it = |line: &[u8]| {
        let line = line.strip_suffix(b"\0").unwrap_or(line);
        line.rsplit(|byte| *byte == 0).next() == Some(word.as_bytes())
    };
    let mut found = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let found = found.find(|path| fs::read(path.join("cmdline")).is_ok_and(|line| is_it(&line)))?;
    found.file_name()?.to_str().map(str::to_owned)
}

/// End the launching processes that were noted, if they still run.
fn end_all(noted: &Path) {
    for line in fs::read_to_string(noted).unwrap().lines() {
        let command = fs::read(format!("/proc/{line}/cmdline")).unwrap_or_default();
        if command.windows(5).any(|word| word == b"stage") {
            let pid = rustix::process::Pid::from_raw(line.parse().unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}
