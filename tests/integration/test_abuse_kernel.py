"""Doors of the kernel that user code needs for nothing: odd protocols, for which it would load modules, netlink of the firewall, of
IPsec and of the audit system, requests to terminals and devices, message queues that outlive everybody, secret memory. And what people
do need through the same calls goes on working: name look-ups, lists of interfaces, terminals, debuggers, shared memory."""

from common import Shared, Suite, equal, needs_runtime, poll

needs_runtime()
suite = Suite()
shared = Shared()

PRELUDE = """
import ctypes, errno, fcntl, mmap, os, platform, signal, socket, struct, termios
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() != 'x86_64'

def name_of(number):
    return errno.errorcode.get(number, str(number))

def attempt(function, *args):
    try:
        function(*args)
    except OSError as problem:
        return name_of(problem.errno)
    return 'done'

def call(numbers, *args):
    ctypes.set_errno(0)
    words = [a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in args]
    return 'done' if libc.syscall(ctypes.c_long(numbers[arm]), *words) >= 0 else name_of(ctypes.get_errno())
"""


def prepared():
    server, sandbox = shared.get()
    equal(server.run(PRELUDE, sandbox_id=sandbox)["status"], "ok")


def value(code):
    done = shared.run(code)
    equal(done["status"], "ok", code)
    return eval(done["result"], {})


def each(code, *expected):
    """Requires that every value of a dict is one of the names of errors that are expected."""
    got = value(code)
    equal({name: result for name, result in got.items() if result not in expected}, {}, f"not one of {expected}")
    return got


@suite.case("netlink is for lists of interfaces and routes: no firewall, IPsec, audit, devices or crypto")
def netlink():
    prepared()
    each("{n: attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, n) for n in range(1, 32)}", "EPROTONOSUPPORT")
    # with a bit that the kernel does not look at, and a filter must not either
    each("{n: call((41, 198), 16 | 1 << 32, 3, n) for n in (6, 9, 12)}", "EPROTONOSUPPORT")
    each("{n: call((41, 198), 16, 3, n | 1 << 32) for n in (6, 9, 12)}", "EPROTONOSUPPORT")


@suite.case("sockets are TCP, UDP and Unix ones: no protocol for which a module would be loaded")
def protocols():
    prepared()
    protocols = {"sctp": (1, 132), "sctp seqpacket": (5, 132), "dccp": (6, 33), "dccp by type": (6, 0), "mptcp": (1, 262), "smc": (1, 256), "udplite": (2, 136), "l2tp": (2, 115), "rdm": (4, 0), "packet": (10, 0)}
    each("{(n, f): attempt(socket.socket, f, *how) for n, how in " + repr(protocols) + ".items() for f in (2, 10)}", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT")
    each("{(f, t): attempt(socket.socket, f, t, 0) for f in (3, 4, 9, 15, 17, 21, 29, 30, 31, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45) for t in (1, 2, 3, 5)}", "EAFNOSUPPORT")
    # pairs are made by the same code of the kernel
    each("{(f, t): call((53, 199), f, t, 0, ctypes.create_string_buffer(8)) for f in (2, 10, 16, 30, 40, 43) for t in (1, 2, 5)}", "EOPNOTSUPP", "ENOTSUP")
    each("{'raw': attempt(socket.socket, 2, 3, 255), 'raw6': attempt(socket.socket, 10, 3, 58)}", "EPERM")
    each("{o: attempt(socket.socket().setsockopt, 6, 31, o) for o in (b'tls', b'smc', b'mptcp', b'espintcp')}", "ENOPROTOOPT")


@suite.case("requests to terminals that act for somebody else, or load modules, are not known")
def terminals():
    prepared()
    code = """
ours, theirs = os.openpty()
requests = {'TIOCSTI': 0x5412, 'TIOCLINUX': 0x541c, 'TIOCCONS': 0x541d, 'TIOCSETD': 0x5423, 'TIOCVHANGUP': 0x5437, 'TIOCSSERIAL': 0x541f}
tried = {}
for name, number in requests.items():
    for above in (0, 1 << 32):
        tried[name, above] = call((16, 29), theirs, number | above, ctypes.create_string_buffer(b'x', 64))
os.close(ours), os.close(theirs)
tried
"""
    each(code, "ENOTTY")


@suite.case("requests to files, sockets and namespaces that configure something are not known")
def requests():
    prepared()
    code = """
file, sock, space = os.open('/workspace', os.O_RDONLY), socket.socket(), os.open('/proc/self/ns/user', os.O_RDONLY)
buffer = ctypes.create_string_buffer(256)
numbers = {'FITRIM': (file, 0xc0185879), 'FIFREEZE': (file, 0xc0045877), 'FIBMAP': (file, 1), 'EXT4 move': (file, 0xc028660f), 'BTRFS subvolume': (file, 0x5000940e), 'fscrypt key': (file, 0xc0506617), 'verity': (file, 0x40806685),
           'SIOCSIFFLAGS': (sock.fileno(), 0x8914), 'SIOCSIFADDR': (sock.fileno(), 0x8916), 'SIOCADDRT': (sock.fileno(), 0x890b), 'SIOCBRADDBR': (sock.fileno(), 0x89a0), 'SIOCGSKNS': (sock.fileno(), 0x894c),
           'NS_GET_USERNS': (space, 0xb701), 'NS_GET_PARENT': (space, 0xb702), 'NS_GET_OWNER_UID': (space, 0xb704)}
tried = {name: call((16, 29), fd, number, buffer) for name, (fd, number) in numbers.items()}
os.close(file), sock.close(), os.close(space)
tried
"""
    each(code, "ENOTTY")


@suite.case("no message queues of either kind, no AIO, no secret memory, no filters of one's own")
def calls():
    prepared()
    numbers = {"mq_open": (240, 180), "mq_unlink": (241, 181), "msgget": (68, 186), "msgsnd": (69, 189), "io_setup": (206, 0), "io_submit": (209, 2), "io_pgetevents": (333, 292), "io_uring_setup": (425, 425), "memfd_secret": (447, 447), "seccomp": (317, 277)}
    each("{n: call(numbers, 0, 0, 0, 0) for n, numbers in " + repr(numbers) + ".items()}", "ENOSYS")
    # as a file system the first kind is there in containers of engines
    done = value("attempt(lambda: os.close(os.open('/dev/mqueue/mine', os.O_RDWR | os.O_CREAT)))")
    assert done in ("EMFILE", "ENOENT", "ENFILE", "EACCES", "EROFS"), done


@suite.case("System V's shared memory is bounded, and goes with the last process that uses it: no memory of the sandbox stays occupied")
def shared_memory():
    shared.enforced("shm")
    server, sandbox = shared.fresh(memory_mb=256)
    fill = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segments, total = 0, 0
while True:
    ident = libc.shmget(0, 16 << 20, 0o1600)
    if ident < 0:
        break
    at = libc.shmat(ident, None, 0)
    ctypes.memset(at, 1, 16 << 20)
    segments += 1
print(segments, flush=True)
"""
    taken = int(server.stdout(fill, sandbox_id=sandbox))
    assert 1 <= taken <= 8, f"{taken} segments of 16 MiB in 256 MiB"
    # the interpreter ends without having removed one
    assert server.run("os.kill(os.getpid(), signal.SIGKILL)", sandbox_id=sandbox)["status"] != "ok"
    left = "sum(int(line.split()[3]) for line in open('/proc/sysvipc/shm').readlines()[1:])"
    poll("none is left", lambda: server.run(left, sandbox_id=sandbox).get("result") == "0")
    # nor of those that were only made, by a program that is over
    made = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import ctypes\\nfor i in range(4): ctypes.CDLL(None).shmget(i + 1, 16 << 20, 0o1600)'])\n"
    equal(server.run(made + left, sandbox_id=sandbox).get("result"), "0")
    equal(server.run("len(b'x' * (150 << 20))", sandbox_id=sandbox).get("result"), str(150 << 20))
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("System V's semaphores are few")
def semaphores():
    shared.enforced("shm")
    prepared()
    made = value("len([None for _ in iter(lambda: libc.semget(0, 1, 0o1600), -1)])")
    assert 1 <= made <= 128, f"{made} sets of semaphores"


# ---- what goes on working ----


@suite.case("names are looked up and interfaces listed as ever")
def names():
    prepared()
    equal(value("sorted({a[4][0] for a in socket.getaddrinfo('localhost', 80)} & {'127.0.0.1', '::1'})[:1]"), ["127.0.0.1"])
    assert "lo" in value("[name for _, name in socket.if_nameindex()]")
    listed = """
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
s.bind((0, 0))
s.send(struct.pack('IHHII', 20, 22, 0x301, 1, 0) + bytes(4))  # addresses
answer = s.recv(65536)
s.close()
b'lo\\0' in answer
"""
    equal(value(listed), True)
    equal(value("fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8915, struct.pack('256s', b'lo'))[20:24]"), b"\x7f\0\0\1")


@suite.case("terminals of programs work: modes, sizes, job control, a shell in one")
def own_terminals():
    prepared()
    code = """
import pty, tty
ours, theirs = os.openpty()
tty.setraw(theirs)
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
size = struct.unpack('HHHH', fcntl.ioctl(ours, termios.TIOCGWINSZ, bytes(8)))[:2]
os.close(ours), os.close(theirs)
pid, fd = pty.fork()
if pid == 0:
    os.execv('/bin/sh', ['sh', '-c', 'test -t 0 && stty size && echo yes'])
said = b''
try:
    while True:
        said += os.read(fd, 1000)
except OSError:
    pass
os.close(fd), os.waitpid(pid, 0)
size, b'yes' in said
"""
    equal(value(code), ((30, 100), True))


@suite.case("a program can be traced by another of the sandbox, as debuggers do, and nothing else can")
def tracing():
    shared.enforced("uid")
    prepared()
    code = """
libc.ptrace.restype = ctypes.c_long
pid = os.fork()
if pid == 0:
    signal.pause()
attached = libc.ptrace(16, pid, None, None)
os.waitpid(pid, 0)
word = libc.ptrace(2, pid, ctypes.c_void_p(id(libc)), None)
libc.ptrace(17, pid, None, None)
os.kill(pid, 9), os.waitpid(pid, 0)
attached, word == ctypes.c_long.from_address(id(libc)).value, libc.ptrace(16, 1, None, None)
"""
    equal(value(code), (0, True, -1))


@suite.case("processes, threads, locks, shared memory and event loops of Python work")
def python():
    program = """
import asyncio, multiprocessing, multiprocessing.shared_memory as memory, socketserver, threading
def square(n): return n * n
with multiprocessing.get_context('fork').Pool(3) as pool:
    squares = pool.map(square, range(5))
block = memory.SharedMemory(create=True, size=100)
block.buf[:5] = b'hello'
other = memory.SharedMemory(block.name)
seen = bytes(other.buf[:5])
other.close()
block.unlink()
async def talk():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(echo, '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b'over a socket\\n')
    line = await reader.readline()
    child = await asyncio.create_subprocess_exec('echo', 'from a child', stdout=asyncio.subprocess.PIPE)
    return line, (await child.communicate())[0]
print((squares, seen, asyncio.run(talk())))
"""
    server, sandbox = shared.get()
    server.call("write_file", sandbox_id=sandbox, path="all_of_it.py", content=program)
    said = server.stdout("python3 all_of_it.py", language="bash", sandbox_id=sandbox)
    equal(eval(said, {}), ([0, 1, 4, 9, 16], b"hello", (b"over a socket\n", b"from a child\n")))


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
