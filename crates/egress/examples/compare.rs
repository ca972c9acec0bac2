//! Measures this proxy beside a direct connection, a minimal splice(2) relay, and squid and privoxy where they are
//! installed: requests a second on kept connections, tunnels a second, one tunnel's GB/s and CPU seconds a GB.
//! All in one run on loopback, each server a process of its own, so that its CPU time can be read. With the node's
//! program the same clients also run inside a sandbox of its making, against that run's own proxy.
//!
//! `cargo run --release --example compare -- [SECONDS [OZ0-NODE]]`

#[cfg(not(target_os = "linux"))]
#[allow(clippy::print_stderr, reason = "this is where a person is told")]
fn main() {
    eprintln!("CPU time is read from /proc: Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    linux::main()
}

#[cfg(target_os = "linux")]
#[allow(clippy::print_stdout, clippy::print_stderr)]
mod linux {
    use std::fs;
    use std::io::{self, BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use base64::Engine;
    use oz0_egress::{Allowlist, Proxy, Settings, Token};

    const BODY: &str = "0123456789012345678901234567890123456789012345678901234567890123";
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 3;

    pub fn main() -> io::Result<()> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match arguments.first().map(String::as_str) {
            Some("serve") => serve(),
            Some("relay") => {
                relay(arguments.get(1).and_then(|text| text.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?)
            }
            Some("inside") => inside(&arguments[1..]),
            other => {
                let seconds = other.and_then(|text| text.parse().ok()).unwrap_or(1);
                compare(Duration::from_secs(seconds), arguments.get(1).map(Path::new))
            }
        }
    }

    /// How a server under test is spoken to.
    enum Way {
        Direct,
        /// Whatever connects is led to the origin.
        Relay,
        /// A proxy, with the line that carries its credentials.
        Proxy(String),
    }

    struct Subject {
        name: &'static str,
        address: SocketAddr,
        way: Way,
        process: Option<Child>,
    }

    impl Drop for Subject {
        fn drop(&mut self) {
            if let Some(process) = &mut self.process {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }

    impl Subject {
        /// User and system time of the process so far, in seconds. 100 ticks a second on every Linux.
        fn cpu(&self) -> f64 {
            let Some(process) = &self.process else { return f64::NAN };
            let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
            let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
            let ticks =
                |at: usize| after.split(' ').nth(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or(f64::NAN);
            (ticks(11) + ticks(12)) / 100.0
        }

        fn request(&self, origin: SocketAddr) -> String {
            match &self.way {
                Way::Proxy(line) => format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n{line}\r\n"),
                _ => format!("GET / HTTP/1.1\r\nHost: {origin}\r\n\r\n"),
            }
        }

        /// A connection on which the origin is spoken to directly.
        fn open(&self, to: SocketAddr) -> io::Result<TcpStream> {
            let mut stream =
                TcpStream::connect(if matches!(self.way, Way::Direct) { to } else { self.address })?;
            stream.set_nodelay(true)?;
            if let Way::Proxy(line) = &self.way {
                stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{line}\r\n").as_bytes())?;
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if head.len() > 4096 {
                        return Err(io::Error::other("the proxy's answer has no end"));
                    }
                    let mut bytes = [0; 256];
                    let count = stream.read(&mut bytes)?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    head.extend_from_slice(&bytes[..count]);
                }
                if !head.starts_with(b"HTTP/1.1 200") && !head.starts_with(b"HTTP/1.0 200") {
                    return Err(io::Error::other(String::from_utf8_lossy(&head).into_owned()));
                }
            }
            Ok(stream)
        }
    }

    fn compare(time: Duration, node: Option<&Path>) -> io::Result<()> {
        let origin = origin()?;
        let bulk = bulk_origin()?;
        let folder = tempfile::tempdir()?;
        let own = std::env::current_exe()?;
        let mut subjects = vec![Subject { name: "direct", address: origin, way: Way::Direct, process: None }];
        subjects.push(child("splice relay", Command::new(&own).args(["relay", &origin.to_string()]))?);
        let bulk_relay = child("splice relay", Command::new(&own).args(["relay", &bulk.to_string()]))?;
        subjects
            .push(child("oz0", Command::new(&own).args(["serve", &origin.to_string(), &bulk.to_string()]))?);
        for (name, started) in [("squid", squid(folder.path())), ("privoxy", privoxy(folder.path()))] {
            match started {
                Ok(subject) => subjects.push(subject),
                Err(error) => println!("{name}: not measured, {error}"),
            }
        }
        // Rounds, interleaved, and their medians: on a busy machine a figure alone says little.
        let mut figures = vec![[const { Vec::new() }; 4]; subjects.len()];
        let mut seen_inside = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            for (subject, figures) in subjects.iter().zip(&mut figures) {
                if !matches!(subject.way, Way::Relay) {
                    figures[0].push(requests(subject, origin, time)?);
                }
                figures[1].push(tunnels(subject, origin, time)?);
                let carrier = if matches!(subject.way, Way::Relay) { &bulk_relay } else { subject };
                let (rate, cpu) = throughput(carrier, bulk, time)?;
                figures[2].push(rate);
                figures[3].push(cpu);
            }
            if let Some(node) = node {
                let seen = sandboxed(node, folder.path(), [origin, bulk], time)?;
                seen_inside.iter_mut().zip(seen).for_each(|(figures, figure)| figures.push(figure));
            }
        }
        println!("{:14}{:>14}{:>14}{:>12}{:>14}", "", "requests/s", "tunnels/s", "GB/s", "CPU s/GB");
        let mut rows: Vec<_> = subjects.iter().map(|subject| subject.name).zip(figures).collect();
        if node.is_some() {
            rows.push(("oz0, inside", seen_inside));
        }
        for (name, figures) in rows {
            let [requests, tunnels, rate, cpu] = figures.map(median);
            println!("{name:14}{requests:>14.0}{tunnels:>14.0}{rate:>12.2}{cpu:>14.2}");
        }
        Ok(())
    }

    /// The figures as a program inside a sandbox gets them. The proxy's time is the node's.
    fn sandboxed(
        node: &Path,
        folder: &Path,
        [origin, bulk]: [SocketAddr; 2],
        time: Duration,
    ) -> io::Result<[f64; 4]> {
        let own = std::env::current_exe()?;
        let mut command = Command::new(node);
        command.args(["sandbox", "run", "--work"]).arg(folder).arg("--read").arg(&own);
        command.args(["--allow", &origin.to_string(), "--allow", &bulk.to_string(), "--"]).arg(&own);
        command.args(["inside", &origin.to_string(), &bulk.to_string(), &time.as_secs().to_string()]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let address = origin;
        let mut subject = Subject { name: "oz0, inside", address, way: Way::Direct, process: Some(process) };
        let output = subject.process.as_mut().and_then(|process| process.stdout.take());
        let mut lines = BufReader::new(output.ok_or(io::ErrorKind::BrokenPipe)?).lines();
        let mut next = || {
            let line = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
            line.parse::<f64>().map_err(|_| io::Error::other(format!("inside the sandbox: {line}")))
        };
        let (requests, tunnels) = (next()?, next()?);
        let before = subject.cpu();
        let rate = next()?;
        // It stays a moment, so that its node can still be asked for its time.
        Ok([requests, tunnels, rate, (subject.cpu() - before) / (rate * time.as_secs_f64())])
    }

    /// What runs inside: the same clients, one figure a line.
    fn inside(arguments: &[String]) -> io::Result<()> {
        let bad = || io::Error::from(io::ErrorKind::InvalidInput);
        let [origin, bulk, seconds] = arguments else { return Err(bad()) };
        let origin: SocketAddr = origin.parse().map_err(|_| bad())?;
        let bulk: SocketAddr = bulk.parse().map_err(|_| bad())?;
        let time = Duration::from_secs(seconds.parse().map_err(|_| bad())?);
        let url = std::env::var("HTTP_PROXY").map_err(io::Error::other)?;
        let subject = proxy("oz0, inside", url.trim_end_matches('/'), None)?;
        println!("{}", requests(&subject, origin, time)?);
        println!("{}", tunnels(&subject, origin, time)?);
        println!("{}", throughput(&subject, bulk, time)?.0);
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    fn median(mut figures: Vec<f64>) -> f64 {
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn requests(subject: &Subject, origin: SocketAddr, time: Duration) -> io::Result<f64> {
        let request = subject.request(origin);
        let to = if matches!(subject.way, Way::Direct) { origin } else { subject.address };
        repeat(time, || {
            let mut stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            let request = request.clone();
            Ok(move || {
                stream.write_all(request.as_bytes())?;
                read_answer(&mut stream)
            })
        })
    }

    fn tunnels(subject: &Subject, origin: SocketAddr, time: Duration) -> io::Result<f64> {
        repeat(time, || {
            Ok(|| {
                let mut stream = subject.open(origin)?;
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
                read_answer(&mut stream)
            })
        })
    }

    /// Runs one action again and again on several threads; gives how often a second.
    fn repeat<A>(time: Duration, make: impl Fn() -> io::Result<A> + Sync) -> io::Result<f64>
    where
        A: FnMut() -> io::Result<()>,
    {
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let started = Instant::now();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(|| -> io::Result<()> {
                        let mut act = make()?;
                        while !stop.load(Ordering::Relaxed) {
                            act()?;
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(())
                    })
                })
                .collect();
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
            })
        })?;
        Ok(done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
    }

    fn throughput(subject: &Subject, bulk: SocketAddr, time: Duration) -> io::Result<(f64, f64)> {
        let mut stream = subject.open(bulk)?;
        stream.write_all(b"!")?;
        let mut bytes = vec![0; 256 * 1024];
        let (started, cpu) = (Instant::now(), subject.cpu());
        let mut total = 0u64;
        while started.elapsed() < time {
            total += stream.read(&mut bytes)? as u64;
        }
        let gigabytes = total as f64 / 1e9;
        Ok((gigabytes / started.elapsed().as_secs_f64(), (subject.cpu() - cpu) / gigabytes))
    }

    fn read_answer(stream: &mut TcpStream) -> io::Result<()> {
        let mut bytes = [0; 2048];
        let mut have = 0;
        loop {
            let count = stream.read(&mut bytes[have..])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            have += count;
            if bytes[..have].ends_with(BODY.as_bytes()) {
                return Ok(());
            }
        }
    }

    fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = Arc::clone(&serve);
                thread::Builder::new().stack_size(64 * 1024).spawn(move || serve(stream)).ok();
            }
        });
        Ok(address)
    }

    fn origin() -> io::Result<SocketAddr> {
        listen(|mut stream| {
            let _ = stream.set_nodelay(true);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
            let mut bytes = [0; 2048];
            let mut have = 0;
            while let Ok(count @ 1..) = stream.read(&mut bytes[have..]) {
                have += count;
                if bytes[..have].ends_with(b"\r\n\r\n") {
                    have = 0;
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            }
        })
    }

    fn bulk_origin() -> io::Result<SocketAddr> {
        listen(|mut stream| {
            // Not before it is asked: what comes with a proxy's own answer would be lost in its head.
            let bytes = vec![b'x'; 256 * 1024];
            if stream.read_exact(&mut [0]).is_err() {
                return;
            }
            while stream.write_all(&bytes).is_ok() {}
        })
    }

    /// Starts one of this program's own servers, which prints its URL.
    fn child(name: &'static str, command: &mut Command) -> io::Result<Subject> {
        let mut process = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        proxy(name, line.trim(), Some(process))
    }

    /// A server by its URL, or by its address alone when it is no proxy.
    fn proxy(name: &'static str, url: &str, process: Option<Child>) -> io::Result<Subject> {
        let (user, address) = url.rsplit_once('@').unwrap_or(("", url));
        let way = match user.strip_prefix("http://") {
            None => Way::Relay,
            Some(user) => Way::Proxy(format!(
                "Proxy-Authorization: Basic {}\r\n",
                base64::engine::general_purpose::STANDARD.encode(user)
            )),
        };
        let address = address.parse().map_err(|_| io::Error::other("the server did not start"))?;
        Ok(Subject { name, address, way, process })
    }

    /// Ends this process when the one that started it has ended, however it did.
    fn end_with_parent() {
        thread::spawn(|| {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            std::process::exit(0);
        });
    }

    fn serve() -> io::Result<()> {
        end_with_parent();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let token = Token::generate().map_err(io::Error::other)?;
        println!("{}", *token.proxy_url(listener.local_addr()?));
        let allow: Vec<String> = std::env::args().skip(2).collect();
        let allowlist = Allowlist::parse(allow).map_err(io::Error::other)?;
        let _proxy = Proxy::start(Settings::new(allowlist, token), listener.into(), None)?;
        loop {
            thread::park();
        }
    }

    /// The least that moves bytes between two sockets: a thread each way, a pipe, splice(2).
    fn relay(to: SocketAddr) -> io::Result<()> {
        use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
        fn one_way(from: TcpStream, to: TcpStream) -> io::Result<()> {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setpipe_size(&write, 512 * 1024)?;
            loop {
                let mut left = splice(&from, None, &write, None, 512 * 1024, SpliceFlags::MOVE)?;
                if left == 0 {
                    to.shutdown(std::net::Shutdown::Write)?;
                    return Ok(());
                }
                while left > 0 {
                    left -= splice(&read, None, &to, None, left, SpliceFlags::MOVE)?;
                }
            }
        }
        end_with_parent();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?);
        for client in listener.incoming() {
            let (client, origin) = (client?, TcpStream::connect(to)?);
            client.set_nodelay(true)?;
            origin.set_nodelay(true)?;
            let (back, forth) = (origin.try_clone()?, client.try_clone()?);
            thread::spawn(move || one_way(client, origin));
            thread::spawn(move || one_way(back, forth));
        }
        Ok(())
    }

    fn free_port() -> io::Result<SocketAddr> {
        TcpListener::bind("127.0.0.1:0")?.local_addr()
    }

    fn foreign(name: &'static str, command: &mut Command, address: SocketAddr) -> io::Result<Subject> {
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(
                |error| match error.kind() {
                    io::ErrorKind::NotFound => io::Error::other("it is not installed"),
                    _ => error,
                },
            )?;
        let subject = Subject { name, address, way: Way::Proxy(String::new()), process: Some(process) };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(io::Error::other("it did not listen within 10 s"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(subject)
    }

    fn squid(folder: &Path) -> io::Result<Subject> {
        let address = free_port()?;
        let file = folder.join("squid.conf");
        fs::write(
            &file,
            format!(
                "http_port {address}\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log /dev/null\n\
                 pid_filename none\nshutdown_lifetime 0 seconds\nvia off\nforwarded_for delete\n"
            ),
        )?;
        foreign("squid", Command::new("/usr/sbin/squid").args(["-N", "-f"]).arg(file), address)
    }

    fn privoxy(folder: &Path) -> io::Result<Subject> {
        let address = free_port()?;
        let file = folder.join("privoxy.conf");
        fs::write(
            &file,
            format!(
                "listen-address {address}\nkeep-alive-timeout 30\nconnection-sharing 0\nmax-client-connections 512\ntoggle 0\n"
            ),
        )?;
        foreign("privoxy", Command::new("/usr/sbin/privoxy").arg("--no-daemon").arg(file), address)
    }
}
