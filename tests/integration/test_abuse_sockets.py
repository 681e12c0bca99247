"""Memory of the kernel behind sockets: what a sandbox sends to itself and never reads. With cgroups of version 1 it is not counted as
memory of the sandbox, so one of 512 MiB could hold gigabytes of the host's. It gets a limit of its own there; where it is counted as
memory (version 2), the memory limit ends it. Answers of netlink that nobody reads are counted nowhere; there the number of sockets is
bounded, while lists of interfaces go on working."""

import os

from common import Shared, Skip, Suite, contains, equal, needs_runtime, poll
import mcp

needs_runtime()
suite = Suite()
shared = Shared()

MEMORY_MB = 512
HELD_MB = 192  # at most; the limit is a quarter of the memory, which the kernel lets TCP pass by a little
FILLED_MB = 96  # at least, by the kernel's own count, so that the bound above says something

# Fills sockets, and says how many bytes they hold, which is found out by reading them.
FILL = """
import os, socket, sys

def no_more(action, *args):
    try:
        action(*args)
        return False
    except OSError:
        return True

def fill_udp():
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    held = []
    for _ in range(900):
        try:
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
            receiver.bind(('127.0.0.1', 0))
        except OSError:
            break  # no more sockets
        held.append(receiver)
        for _ in range(100):
            no_more(sender.sendto, bytes(1400), receiver.getsockname())
    return held

def fill_tcp():
    server = socket.create_server(('127.0.0.1', 0), backlog=1000)
    server.settimeout(1)
    held = []
    for _ in range(200):
        try:
            client = socket.socket()
            client.settimeout(1)
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                client.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
            client.connect(server.getsockname())
            held.append(server.accept()[0])
        except OSError:
            break  # no more connections
        client.setblocking(False)
        while not no_more(client.send, bytes(65536)):
            pass
        others.append(client)
    return held

def drain(held):
    total = 0
    for one in held:
        one.setblocking(False)
        try:
            while data := one.recv(1 << 20):
                total += len(data)
        except OSError:
            pass
    return total

others = []
held = {'udp': fill_udp, 'tcp': fill_tcp}[sys.argv[1]]()
print('full', flush=True)
sys.stdin.readline()  # until all have filled theirs
print(drain(held), flush=True)
"""

ALL = """
import subprocess, sys
def all_of(kind, processes=4):
    children = [subprocess.Popen([sys.executable, '/workspace/fill.py', kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    for child in children:
        child.stdout.readline()
    total = 0
    for child in children:
        said, _ = child.communicate('\\n')
        if child.returncode != 0:
            raise RuntimeError(f'what fills sockets has ended with {child.returncode}')
        total += int(said)
    return total
"""

USE = """
import socket, threading
def echo(server, count):
    for _ in range(count):
        connection, _ = server.accept()
        threading.Thread(target=lambda c: [c.sendall(data) for data in iter(lambda: c.recv(65536), b'')] + [c.close()], args=(connection,)).start()

def through(size):
    server = socket.create_server(('127.0.0.1', 0))
    threading.Thread(target=echo, args=(server, 4)).start()
    total = 0
    clients = [socket.create_connection(server.getsockname()) for _ in range(4)]
    for client in clients:
        threading.Thread(target=lambda c: (c.sendall(bytes(size)), c.shutdown(socket.SHUT_WR)), args=(client,)).start()
    for client in clients:
        total += sum(len(data) for data in iter(lambda: client.recv(65536), b''))
        client.close()
    server.close()
    return total
"""


def most_counted(sandbox):
    """The most MiB that the kernel has counted for sockets of a sandbox, beside what is in them; 0 where it counts them as memory."""
    paths = [os.path.join(group, "memory.kmem.tcp.max_usage_in_bytes") for group in mcp.cgroups_of(sandbox)]
    counts = [0]
    for path in filter(os.path.exists, paths):
        with open(path, encoding="ascii") as file:
            counts.append(int(file.read()) >> 20)
    return max(counts)


def most_charged(sandbox):
    """The most MiB that the kernel has charged to a sandbox as memory of any kind (version 2); 0 where it does not say."""
    charged = [0]
    for pid in mcp.agents_of(sandbox):
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            groups = [line.strip().removeprefix("0::") for line in file if line.startswith("0::")]
        for path in (f"/sys/fs/cgroup{group}/memory.peak" for group in groups):
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    charged.append(int(file.read()) >> 20)
    return max(charged)


def bounded(kind):
    shared.enforced("memory", "sockets")
    server, sandbox = shared.fresh(memory_mb=MEMORY_MB)
    server.call("write_file", sandbox_id=sandbox, path="fill.py", content=FILL)
    equal(server.run(ALL, sandbox_id=sandbox)["status"], "ok")
    done = server.run(f"all_of({kind!r})", sandbox_id=sandbox, timeout_seconds=120)
    contains(("ok", "memory_exceeded"), done["status"], f"end of the code, {done.get('error')}")
    if done["status"] == "ok":
        held = int(done["result"]) >> 20
        charged = most_charged(sandbox)
        if charged:
            assert held < charged <= MEMORY_MB, f"{held} MiB in sockets of a sandbox with {MEMORY_MB}, to which {charged} were charged"
        else:
            assert held <= HELD_MB, f"{held} MiB of the host's memory in sockets of a sandbox with {MEMORY_MB}"
        counted = most_counted(sandbox)
        if counted:
            assert FILLED_MB <= counted <= HELD_MB, f"the kernel has counted {counted} MiB for sockets, which held {held} MiB"
    # it was this sandbox's own loss, and is over with the sockets
    equal(server.run(USE, sandbox_id=sandbox)["status"], "ok")
    equal(server.run("through(4 << 20)", sandbox_id=sandbox).get("result"), str(4 * (4 << 20)))
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("UDP that nobody reads holds no more than the limit, however many sockets there are")
def udp():
    bounded("udp")


@suite.case("TCP that nobody reads holds no more than the limit, however many connections there are")
def tcp():
    bounded("tcp")


# Opens as many netlink sockets as it may in several processes, asks each 400 times for an interface, and reads no answer.
NETLINK = """
import os, socket, struct, time
ASK = struct.pack('=IHHII', 32, 18, 1, 1, 0) + struct.pack('=BxHiII', 0, 0, 1, 0, 0)  # RTM_GETLINK of the first one
def fill():
    held = []
    try:
        while len(held) < 300:
            held.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0))
    except OSError:
        pass
    for one in held:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        for _ in range(400):
            try:
                one.send(ASK)
            except OSError:
                break
    return held
for process in range(3):
    if os.fork() == 0:
        held = fill()
        open(f'full{process}', 'w').close()
        while not os.path.exists('go'):
            time.sleep(0.05)
        os._exit(0)
for process in range(3):
    os.wait()
"""
BUDGET = 64 << 20  # of all netlink sockets of a sandbox, unless eight of the largest take more
LEAST = 8
FEW = 64

LISTED = "import socket, threading\nsorted(name for _, name in socket.if_nameindex())"
AT_ONCE = """
def lists(found):
    for _ in range(20):
        found.append(len(socket.if_nameindex()))
found = []
threads = [threading.Thread(target=lists, args=(found,)) for _ in range(24)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
len(found), min(found) > 0
"""


def netlink_of(sandbox):
    """(sockets, bytes) of the netlink sockets in the namespace of a sandbox, as the kernel counts them."""
    with open(f"/proc/{mcp.agents_of(sandbox)[0]}/net/netlink", encoding="ascii") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    of_processes = [row for row in rows if row[2] != "0"]
    return len(of_processes), sum(int(row[4]) for row in of_processes)


@suite.case("answers of netlink that nobody reads hold only so much of the kernel's memory, and interfaces can be listed before and after")
def netlink():
    shared.enforced("netlink")
    if mcp.OWN_KERNEL:
        raise Skip("a kernel of the sandbox's own has them, in the memory of the sandbox")
    server, sandbox = shared.fresh(memory_mb=MEMORY_MB)
    names = server.run(LISTED, sandbox_id=sandbox)["result"]
    contains(names, "'lo'")
    equal(server.run(AT_ONCE, sandbox_id=sandbox).get("result"), "(480, True)")
    pending = server.start_call("execute_code", sandbox_id=sandbox, code=NETLINK, language="python")
    poll("all have filled theirs", lambda: all(server.read_text(f"full{process}", sandbox) is not None for process in range(3)), seconds=60)
    sockets, held = netlink_of(sandbox)
    with open("/proc/sys/net/core/rmem_max", encoding="ascii") as file:
        bound = max(BUDGET, LEAST * 2 * int(file.read()))
    assert 0 < held <= bound, f"{held >> 20} MiB of the host's memory in {sockets} netlink sockets"
    assert sockets <= FEW, f"{sockets} sockets"
    server.call("write_file", sandbox_id=sandbox, path="go", content="")
    equal(pending.structured()["status"], "ok")
    # dockerd keeps one of its own in each network
    poll("none is left", lambda: netlink_of(sandbox) <= (1, 0), found=lambda: netlink_of(sandbox))
    equal(server.run(LISTED, sandbox_id=sandbox)["result"], names)
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.case("servers and clients in a sandbox move as much as they like, in a small one as well")
def ordinary():
    server, sandbox = shared.fresh(memory_mb=64)
    equal(server.run(USE, sandbox_id=sandbox)["status"], "ok")
    equal(server.run("through(8 << 20)", sandbox_id=sandbox, timeout_seconds=120).get("result"), str(4 * (8 << 20)))
    server.call("close_sandbox", sandbox_id=sandbox)


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
