"""The one way out of an installer: what code that is let run there reaches, where an index may send for packages, and where names may lead.

An installer has no network but a proxy of its worker's, which leads to the configured sources. Code of packages runs here (--build-packages), and tries to get
elsewhere. On a network of the test's own; on container engines by with_engine.py --network.
"""

import http.server
import socket
import threading

from common import ON_OCI, Common, Server, Suite, clear, contains, doctor, equal, needs_runtime
import net as nets
import wheels

needs_runtime()
net = nets.enter()
suite = Suite()
index = wheels.Index(net.listen(8080), f"http://{nets.NAME}:8080")
index.add(wheels.wheel("harmless", "1.0"))
index.add(wheels.npm("harmless", "1.0.0"))

SOURCES = ("--package-index", index.pip_url, "--npm-registry", index.npm_url)
building = Common(*SOURCES, "--build-packages")

# What must not be reached: a neighbour in the network, this host by its address, and its loopback at the index' own port.
neighbour = nets.Greeter(net.listen(8081))
host = nets.Greeter(socket.create_server((nets.HOST, 8082)))
loopback = nets.Greeter(socket.create_server(("127.0.0.1", 8080)))
METADATA = "169.254.169.254"


def nobody_came():
    equal((neighbour.peers, host.peers, loopback.peers), ([], [], []), "who was let out to what is not configured")


class Elsewhere:
    """Names of the zone that lead elsewhere: to these addresses, in turn."""

    def __init__(self, names):
        self.turns = {name: list(addresses) for name, addresses in names.items()}
        usual = net.names.answer
        net.names.answer = lambda query, asked: self.answer(usual, query, asked)

    def answer(self, usual, query, asked):
        told = usual(query, asked)
        where = socket.inet_aton(nets.OUTSIDE)
        if told is not None and told.endswith(where) and asked[-1] in self.turns:
            addresses = self.turns[asked[-1]]
            addresses.append(addresses.pop(0))
            told = told[: -len(where)] + socket.inet_aton(addresses[-1])
        return told


def fails(server, sandbox, name, manager="pip"):
    """Requires that it is not installed; returns the message and the hint."""
    failed = server.call_failing("install_package", package_name=name, manager=manager, sandbox_id=sandbox)
    error = clear(failed["error"])
    equal((failed["status"], error["code"]), ("failed", "package_failed"), name)
    return error["message"], error["hint"]


def tells(name, code):
    """What code of a package prints while it is built."""
    index.add(wheels.sdist(name, "1.0", setup=f"{code}\nraise SystemExit('told: ' + repr(found))\n"))
    server, sandbox = building()
    message = fails(server, sandbox, name)[0]
    contains(message, "told: ")
    return message.partition("told: ")[2]


PLACES = [(nets.OUTSIDE, 8080), (nets.OUTSIDE, 8081), (nets.HOST, 8082), (METADATA, 80)]


@suite.case("code of a package has no interface but loopback, so it reaches nothing by itself: no neighbour, no host, no metadata service")
def no_interface():
    code = f"""
import errno, socket
found = [sorted(name for _, name in socket.if_nameindex())]
for place in {PLACES!r}:
    s = socket.socket()
    s.settimeout(20)
    found.append(errno.errorcode.get(s.connect_ex(place)))
    s.close()
try:
    socket.getaddrinfo({nets.NAME!r}, 80)
    found.append('a name')
except OSError:
    found.append('no name')
"""
    told = tells("unplugged", code)
    contains(told, "'no name'")
    equal(told.count("'ENETUNREACH'"), len(PLACES), told)
    nobody_came()


ASK = """
import os, socket
def ask(text):
    host, _, port = os.environ['https_proxy'].removeprefix('http://').rpartition(':')
    with socket.create_connection((host, int(port)), 60) as s:
        s.sendall(text.encode())
        return s.makefile('rb').readline().decode().strip()
"""


@suite.case("by the proxy it is let out to the configured sources and to nothing else, and hears why")
def by_proxy():
    asks = [f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n" for host, port in PLACES + [("localhost", 8080), ("127.0.0.1", 8080), (nets.NAME, 8081), (nets.NAME, 22)]]
    asks += [f"GET http://{METADATA}/latest/meta-data/ HTTP/1.1\r\nHost: {nets.NAME}:8080\r\n\r\n", f"CONNECT {nets.NAME}:8080@{nets.OUTSIDE}:8081 HTTP/1.1\r\n\r\n"]
    told = tells("knocking", f"{ASK}\nfound = sorted(set(ask(each).split(':')[0] for each in {asks!r}))")
    equal(sorted(set(eval(told))), ["HTTP/1.1 400 cloister", "HTTP/1.1 403 cloister"])  # pylint: disable=eval-used
    told = tells("asking", f"{ASK}\nfound = ask({asks[3]!r})")
    contains(told, f"403 cloister: not let out: {METADATA}:80 is none of the configured sources")
    told = tells("reaching", f"{ASK}\nfound = ask('CONNECT {nets.NAME}:8080 HTTP/1.1\\r\\n\\r\\n')")
    contains(told, "HTTP/1.1 200 ")
    nobody_came()


@suite.case("neither many connections nor broken ones take the way out from those that come after them", when=ON_OCI)
def floods():
    code = f"""{ASK}
import struct
found, kept = [], []
host, _, port = os.environ['https_proxy'].removeprefix('http://').rpartition(':')
good = socket.create_connection((host, int(port)), 60)
good.sendall(b'CONNECT {nets.NAME}:8080 HTTP/1.1\\r\\n\\r\\n')
good.recv(1000)
for number in range(600):
    s = socket.create_connection((host, int(port)), 60)
    s.sendall([b'', b'x', b'CONNECT nowhere:1 HTTP/1.1\\r\\n\\r\\n', b'CONNECT {nets.NAME}:8080 HTTP/1.1\\r\\n\\r\\n'][number % 4])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
good.sendall(b'GET /heard-after HTTP/1.0\\r\\n\\r\\n')
found.append(good.makefile('rb').read(12).decode())
found.append(ask('GET {index.base}/heard-flood HTTP/1.1\\r\\n\\r\\n'))
"""
    told = tells("flooding", code)
    contains(told, "'HTTP/1.1 404'")
    contains(told, "404 Not Found")
    server, sandbox = building()
    equal(server.call("install_package", package_name="harmless", sandbox_id=sandbox)["status"], "installed")


class Redirecting:
    """An index that sends for everything to another place."""

    def __init__(self, port, to):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                self.send_response(302)
                self.send_header("Location", to + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = net.listen(port)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.options = ("--package-index", f"http://{nets.NAME}:{port}/simple/", "--npm-registry", f"http://{nets.NAME}:{port}/npm/")


@suite.case("an index that sends elsewhere is not followed, which is told as such and not as an absent package; the operator can allow it")
def redirected():
    options = Redirecting(8090, "http://mirror.test:8080").options
    for more in ((), ("--build-packages",)):
        with Server(*options, *more) as server:
            server.legacy()
            sandbox = server.call("create_sandbox")["sandbox_id"]
            for manager in ("pip", "npm"):
                message, hint = fails(server, sandbox, "harmless", manager)
                contains(message, "not let out: mirror.test:8080 is none of the configured sources")
                contains(hint, "--package-hosts")
    with Server(*options, "--package-hosts", f"mirror.test:8080, {nets.NAME}:8080") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for manager in ("pip", "npm"):
            equal(server.call("install_package", package_name="harmless", manager=manager, sandbox_id=sandbox)["status"], "installed", manager)


@suite.case("an index that sends to this host, its loopback or the metadata service is not followed either", when=ON_OCI)
def redirected_inwards():
    for port, to in ((8091, f"http://{METADATA}"), (8092, "http://127.0.0.1:8080"), (8093, f"http://{nets.HOST}:8082"), (8094, "http://localhost:8080")):
        with Server(*Redirecting(port, to).options) as server:
            server.legacy()
            sandbox = server.call("create_sandbox")["sandbox_id"]
            contains(fails(server, sandbox, "harmless")[0], "not let out: ")
    nobody_came()


@suite.case("a name of an index that leads to loopback or to the metadata service, always or some of the time, is not followed", when=ON_OCI)
def names():
    Elsewhere({"inside.test": ["127.0.0.1"], "cloud.test": [METADATA], "turning.test": ["127.0.0.1", nets.OUTSIDE]})
    for name, which in (("inside.test", "127.0.0.1, a loopback address"), ("cloud.test", f"{METADATA}, a link-local address")):
        for more in ((), ("--build-packages",)):
            with Server("--package-index", f"http://{name}:8080/simple/", "--npm-registry", f"http://{name}:8080/npm/", *more) as server:
                server.legacy()
                sandbox = server.call("create_sandbox")["sandbox_id"]
                for manager in ("pip", "npm"):
                    contains(fails(server, sandbox, "harmless", manager)[0], f"not let out: {name}:8080 is at {which}")
    with Server("--package-index", "http://turning.test:8080/simple/", "--build-packages") as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        for _ in range(2):
            server.start_call("install_package", package_name="harmless", sandbox_id=sandbox).result()  # as it happens
    nobody_came()


@suite.case("an index that the operator names by its address may be at this host's loopback: there, and nowhere else", when=ON_OCI)
def own_loopback():
    own = wheels.Index(socket.create_server(("127.0.0.1", 8095)), "http://127.0.0.1:8095")
    own.add(wheels.wheel("homemade", "1.0"))
    with Server("--package-index", own.pip_url) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        equal(server.call("install_package", package_name="homemade", sandbox_id=sandbox)["status"], "installed")
        own.base = "http://127.0.0.1:8080"  # where it now says that its files are
        own.add(wheels.wheel("farther", "1.0"))
        contains(fails(server, sandbox, "farther")[0], "not let out: 127.0.0.1:8080 is none of the configured sources")
    nobody_came()


@suite.case("the password of a proxy is added on the way, and nothing in an installer knows it", when=ON_OCI)
def password():
    index.add(wheels.sdist("curious", "1.0", setup="import os\nraise SystemExit('told: ' + ' '.join(sorted(os.environ.values())))\n"))
    far = ("--package-index", "http://far.example/simple/", "--package-proxy", f"http://me:open%20sesame@{nets.NAME}:8080", "--package-hosts", f"{nets.NAME}:8080", "--build-packages")
    with Server(*far) as server:
        server.legacy()
        sandbox = server.call("create_sandbox")["sandbox_id"]
        message = fails(server, sandbox, "curious")[0]
        contains(message, "http://127.0.0.1:3128")
        assert "sesame" not in message, message
    contains([headers.get("Proxy-Authorization") for headers in index.headers], "Basic bWU6b3BlbiBzZXNhbWU=")


@suite.case("what is no source, no host and no proxy is refused when the server starts, with the option", when=ON_OCI)
def bad_options():
    for option, value in (
        ("--package-index", "pypi.org/simple"),
        ("--package-index", "file:///srv/wheels"),
        ("--package-index", "http:///simple"),
        ("--npm-registry", "http://a b/"),
        ("--package-hosts", "good.example,http://bad.example"),
        ("--package-hosts", "a.example:0"),
        ("--package-proxy", "https://proxy.example:3128"),
        ("--package-proxy", "proxy.example:3128"),
    ):
        done = doctor(option, value)
        assert done.returncode != 0, (option, value)
        contains(done.stderr, f"{option}: ")
        contains(done.stderr, "expected ")


@suite.case("nothing is left when all is done")
def finished():
    building()
    building.close()


suite.run()
