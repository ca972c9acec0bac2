# For the test alone: a git repository behind HTTPS on loopback, for whoever has the credential. Prints its port, ends
# when its standard input does.
import base64, http.server, os, ssl, subprocess, sys, threading

top = sys.argv[1]
environment = {"PATH": "/usr/bin:/bin", "HOME": top, "GIT_CONFIG_GLOBAL": "/dev/null"}


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, env=environment, **more).stdout


source = os.path.join(top, "source")
run("git", "init", "-q", "-b", "main", source)
with open(os.path.join(source, "file"), "w") as file:
    file.write("of the repository\n")
run("git", "-C", source, "add", "file")
run("git", "-C", source, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "one")
key, certificate = os.path.join(top, "key.pem"), os.path.join(top, "certificate.pem")
run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
wanted = "Basic " + base64.b64encode(b"somebody:hunter2hunter2").decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("authorization") != wanted:
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="git"')
            self.send_header("content-length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        request = {"GIT_PROJECT_ROOT": top, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
                   "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("content-type", ""),
                   "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
                   "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", "")}
        made = subprocess.run(["git", "http-backend"], input=body, env=environment | request, capture_output=True)
        head, _, rest = made.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().split("\r\n"):
            name, value = line.split(": ", 1)
            if name != "Status":
                self.send_header(name, value)
        self.send_header("content-length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    do_GET = do_POST = answer

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
