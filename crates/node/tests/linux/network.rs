//! What a run reaches: through the proxy what was allowed, and nothing by itself.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use crate::support::{Place, finish, session, tests};

tests![
    direct_connections_are_refused,
    c085_another_host_on_the_proxys_port_is_refused,
    a_forwarded_port_answers_through_the_proxy,
    the_proxy_wants_the_token,
    c178_a_denial_is_told_with_curl_and_git,
    c107_a_lookup_fails_at_once_and_is_explained,
    a_private_address_is_closed_to_names,
    a_listener_inside_is_not_reached_from_outside,
    the_host_sockets_of_names_without_a_file_are_not_reached,
    c076_own_sockets_work_and_others_do_not,
    c073_one_socket_is_granted_by_name,
    share_net_reaches_the_host_and_is_said,
    each_decision_is_logged,
    denials_are_not_told_of_a_command_that_succeeded,
    ;
    as root:
    an_allowed_name_leads_where_it_may,
];

/// A listener on the host's loopback that answers every request alike.
struct Origin {
    port: u16,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut head = [0; 4096];
                if stream.read(&mut head).is_ok_and(|read| read > 0) {
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nanswer";
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        });
        Origin { port }
    }
}

fn direct_connections_are_refused(place: &Place) {
    let origin = Origin::start();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let script = format!(
        "
import socket, errno
def refused(family, address, port):
    s = socket.socket(family); s.settimeout(5)
    try:
        s.connect((address, port))
    except OSError as error:
        assert error.errno in (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EPERM, errno.EACCES, errno.EADDRNOTAVAIL, errno.EINVAL), (address, error)
        return
    raise SystemExit(f'reached {{address}}')
for address in ('127.0.0.1', '127.0.0.2', '0.0.0.0', '10.0.0.1', '192.0.2.1', '198.51.100.7', '169.254.169.254'):
    refused(socket.AF_INET, address, {port})
for address in ('::1', '::', '::ffff:127.0.0.1', '::ffff:198.51.100.7', '2001:db8::1', 'fe80::1'):
    refused(socket.AF_INET6, address, {port})
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for address in ('127.0.0.1', '198.51.100.7'):
    try: s.sendto(b'x', (address, {udp}))
    except OSError: pass
print('refused')",
        port = origin.port,
        udp = udp.local_addr().unwrap().port(),
    );
    let start = Instant::now();
    assert_eq!(place.python(&script).ok(), "refused");
    assert!(start.elapsed() < Duration::from_secs(5), "refused, not timed out: {:?}", start.elapsed());
    assert!(udp.recv(&mut [0; 8]).is_err(), "a datagram came out");
    place.outside(&format!("curl -sf --noproxy '*' http://127.0.0.1:{}/", origin.port)).ok();
    assert_eq!(
        place.sh("ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1").ok().trim(),
        "lo"
    );
}

fn c085_another_host_on_the_proxys_port_is_refused(place: &Place) {
    let script = "
import socket
for address in ('127.0.0.2', '198.51.100.7', '127.1.2.3'):
    s = socket.socket(); s.settimeout(3)
    try: s.connect((address, 47320))
    except OSError as error: assert error.errno in (111, 101, 113), error
    else: raise SystemExit('reached ' + address)
s = socket.socket(); s.connect(('127.0.0.1', 47320)); print('the proxy')";
    assert_eq!(place.python(script).ok(), "the proxy");
}

fn a_forwarded_port_answers_through_the_proxy(place: &Place) {
    let origin = Origin::start();
    let url = format!("http://127.0.0.1:{}/", origin.port);
    let get = format!("curl -sf {url}");
    assert_eq!(place.sh_with(&[format!("--forward={}", origin.port)], &get).ok(), "answer");
    place.sh(&get).fails().says(&format!("to allow it: --forward {}", origin.port));
    // C086: this port alone, and not by going past the proxy.
    let other = Origin::start();
    let options = [format!("--forward={}", origin.port)];
    place.sh_with(&options, &format!("curl -sf http://127.0.0.1:{}/", other.port)).fails();
    place.sh_with(&options, &format!("curl -sf http://127.0.0.2:{}/", origin.port)).fails();
    place.sh_with(&options, &format!("curl -sf --noproxy '*' {url}")).exits(7);
}

fn an_allowed_name_leads_where_it_may(place: &Place) {
    let origin = Origin::start();
    let hosts = place.write("hosts", "127.0.0.1 site.example other.example localhost\n");
    let rule = format!("site.example@127.0.0.1:{}", origin.port);
    // In a mount namespace where the node finds the names; nothing of it is seen elsewhere.
    let run = |options: &str, url: &str| {
        let script = format!(
            "mount --bind {} /etc/hosts && exec {} sandbox run --work {} --allow {rule} -- curl -sf {options} {url}:{}/",
            hosts.display(),
            session::binary().display(),
            place.work.display(),
            origin.port,
        );
        let mut unshare = place.command("unshare");
        finish(unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]))
    };
    for host in ["site.example", "SITE.example", "site.example."] {
        assert_eq!(run("", &format!("http://{host}")).ok(), "answer");
    }
    // A tunnel: bytes as they are.
    assert_eq!(run("--proxytunnel", "http://site.example").ok(), "answer");
    for host in ["other.example", "a.site.example", "site.example.evil.test", "127.0.0.1"] {
        run("", &format!("http://{host}")).fails().says("oz0-node: denied: ");
    }
    // Without the address behind the @ the name leads to no private one.
    let script = format!(
        "mount --bind {} /etc/hosts && exec {} sandbox run --work {} --allow {other} -- curl -sf http://{other}/",
        hosts.display(),
        session::binary().display(),
        place.work.display(),
        other = format_args!("other.example:{}", origin.port),
    );
    let mut unshare = place.command("unshare");
    let said = finish(unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]));
    said.fails().says("not public");
}

fn the_proxy_wants_the_token(place: &Place) {
    let origin = Origin::start();
    let code = "curl -s -o /dev/null -w '%{http_code}'";
    let url = format!("http://127.0.0.1:{}/", origin.port);
    let script = format!(
        "{code} -x http://127.0.0.1:47320 {url}; echo; {code} -x http://oz0:wrong@127.0.0.1:47320 {url}; echo; \
         {code} {url}; echo; {code} http://b.example/"
    );
    let said = place.sh_with(&[format!("--forward={}", origin.port)], &script).ok();
    assert_eq!(said, "407\n407\n200\n403");
}

fn c178_a_denial_is_told_with_curl_and_git(place: &Place) {
    let script = "curl -s http://b.example/ ; curl -s http://b.example/; curl -s https://b.example/; git clone -q https://c.example/r; exit 22";
    let run = place.sh_with(&["--allow=a.example"], script);
    let page = run.exits(22);
    assert!(
        page.lines()
            .all(|line| line.starts_with("denied: b.example:80:") && line.ends_with("--allow b.example")),
        "{page}"
    );
    for line in [
        "denied: b.example:80 (2x), no --allow names this host; to allow it: --allow b.example",
        "denied: b.example:443 (1x), no --allow names this host; to allow it: --allow b.example",
        "denied: c.example:443 (1x), no --allow names this host; to allow it: --allow c.example",
    ] {
        run.says(&format!("oz0-node: {line}\n"));
    }
    let report = place.sh_with(&["--allow=a.example", "--json"], script).report();
    assert_eq!(report["denials"].as_array().unwrap().len(), 3, "{report}");
    assert!(report["denials"].to_string().contains("\"not-allowed\""), "{report}");
    // What a run denied is not told of the next one.
    place.sh_with(&["--allow=a.example"], "exit 3").says_not("denied").exits(3);
}

fn c107_a_lookup_fails_at_once_and_is_explained(place: &Place) {
    let start = Instant::now();
    let script = "import socket; socket.getaddrinfo('svc.corp.example', 443)";
    let run = place.run(&["--allow=svc.corp.example"], &["/usr/bin/python3", "-c", script]);
    run.exits(1);
    run.says("gaierror")
        .says("oz0-node: name lookup of svc.corp.example: this program does not use the proxy");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    place.python("import socket; print(socket.getaddrinfo('localhost', 80)[0][4][0])").ok();
}

fn a_private_address_is_closed_to_names(place: &Place) {
    let origin = Origin::start();
    // localhost is a name that every resolver leads to this machine.
    place.sh(&format!("curl -sf http://localhost:{}/", origin.port)).fails().says("oz0-node: denied: ");
    for host in ["10.0.0.5", "192.168.1.1", "169.254.169.254"] {
        let url = format!("curl -s -o /dev/null -w '%{{http_code}}' http://{host}/");
        assert_eq!(place.sh(&url).text(), "403", "{host}");
    }
}

fn a_listener_inside_is_not_reached_from_outside(place: &Place) {
    let script = "
import socket
s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen()
print(s.getsockname()[1], flush=True)
c = socket.create_connection(('127.0.0.1', s.getsockname()[1])); print('inside it is', flush=True)
s.accept(); s.settimeout(1.5)
try: s.accept(); print('reached')
except TimeoutError: print('nobody came')";
    let mut child = place.start(&mut place.sandbox(&[] as &[&str], &["/usr/bin/python3", "-c", script]));
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    assert!(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "inside it is\nnobody came\n");
    child.wait().unwrap();
}

fn the_host_sockets_of_names_without_a_file_are_not_reached(place: &Place) {
    use std::os::linux::net::SocketAddrExt as _;
    let name = format!("oz0-suite-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let connect =
        format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}'); print('reached')");
    place.python(&connect).fails().says_one_of(&["Connection refused", "not permitted", "Permission denied"]);
    place.outside(&format!("python3 -c \"{connect}\"")).ok();
}

fn c076_own_sockets_work_and_others_do_not(place: &Place) {
    let script = "
import os, socket
for folder in ('.', os.environ['TMPDIR'], os.environ['HOME'], '/dev/shm'):
    path = os.path.join(folder, 'own.sock')
    s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(path); s.accept()
    os.unlink(path)
print('own sockets work')";
    assert_eq!(place.python(script).ok(), "own sockets work");
    // One of the host's in the working folder, and one in a folder that is granted for reading.
    let granted = place.make_folder("granted");
    let paths = [place.work.join("host.sock"), granted.join("host.sock")];
    let _listeners = paths.each_ref().map(|path| {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        place.user.own(path);
        listener
    });
    for path in &paths {
        let connect = format!(
            "import socket; socket.socket(socket.AF_UNIX).connect('{}'); print('reached')",
            path.display()
        );
        let option = format!("--read={}", granted.display());
        place.run(&[option.as_str()], &["/usr/bin/python3", "-c", &connect]).fails().says_one_of(&[
            "Permission denied",
            "Connection refused",
            "Operation not permitted",
        ]);
        place.outside(&format!("python3 -c \"{connect}\"")).ok();
    }
}

fn c073_one_socket_is_granted_by_name(place: &Place) {
    let folder = place.make_folder("agents");
    let path = folder.join("agent.1");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    place.user.own(&path);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.map(|mut stream| stream.write_all(b"agent"));
        }
    });
    let connect = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('{}'); print(s.recv(9))",
        path.display()
    );
    let python = ["/usr/bin/python3", "-c", &connect];
    place.run(&[] as &[&str], &python).fails();
    let refused = place.run(&[format!("--read={}", folder.display())], &python);
    refused
        .is_sandbox_refusal()
        .says("an agent that holds keys")
        .says(&format!("--allow-socket {}", path.display()));
    assert_eq!(place.run(&[format!("--allow-socket={}", path.display())], &python).ok(), "b'agent'");
    place
        .run(&[format!("--allow-socket={}", folder.display())], &["true"])
        .is_sandbox_refusal()
        .says("not a socket");
}

fn share_net_reaches_the_host_and_is_said(place: &Place) {
    let origin = Origin::start();
    let run = place.sh_with(
        &["--share-net"],
        &format!("curl -sf --noproxy '*' http://127.0.0.1:{}/; env | grep -ci proxy", origin.port),
    );
    run.says("answer0").exits(1);
    run.says("oz0-node: network: shared with the node (--share-net), so this run was not tier 1");
    for with in ["--allow=a.example", "--forward=80"] {
        place.sh_with(&["--share-net", with], "true").exits(125);
    }
    let report = place.sh_with(&["--share-net", "--json"], "true").report();
    assert_eq!(report["shared_network"], true);
    assert!(!report["mechanism"]["namespaces"].to_string().contains("net"));
}

fn each_decision_is_logged(place: &Place) {
    let origin = Origin::start();
    let log = place.beside("egress.log");
    let options = [format!("--egress-log={}", log.display()), format!("--forward={}", origin.port)];
    place
        .sh_with(&options, &format!("curl -s http://127.0.0.1:{}/; curl -s http://b.example/", origin.port))
        .ok();
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["verdict"], "allowed");
    assert!(lines[0]["down"].as_u64() > Some(0));
    assert_eq!((&lines[1]["verdict"], &lines[1]["reason"]), (&"denied".into(), &"not-allowed".into()));
}

fn denials_are_not_told_of_a_command_that_succeeded(place: &Place) {
    let run = place.sh("curl -s -o /dev/null http://b.example/; exit 0");
    assert_eq!((run.ok().as_str(), run.stderr.as_str()), ("", ""));
}
