"""A worker and an agent spoken to directly, in the place of the process that usually asks them.

The messages are those of proto/messages.def, which is read here, so a field that is added there is known here. What
asks is as plain as it can be: one socket, one thread, no library, so nearly all of the time of an answer is the
asked process's. nng's wire is simple enough for that: eight bytes of greeting, then each message behind its length.
"""

import os
import re
import socket
import struct
import time

PROTO = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "proto")
EMPTY = {"UINT": 0, "INT": 0, "BOOL": False, "STR": "", "BIN": b"", "LIST": (), "MSGS": ()}
OP_EVAL = 1
OP_DONE = 3
WAIT_MS = 20000
ANSWER_S = 30.0
REQ, REP = 48, 49  # nng's numbers of both ends
FIRST_ID = 0x80000000  # of a request of nng's


def text_of(name):
    with open(os.path.join(PROTO, name), encoding="utf-8") as file:
        return file.read()


def messages():
    """name: (number, ((field, type), …)), as messages.def says."""
    text = text_of("messages.def")
    fields = {
        name: tuple((field, kind) for kind, field in re.findall(r"F\(T,\s*(\w+),\s*(\w+)", body))
        for name, body in re.findall(r"#define FIELDS_(\w+)\(F, T\)((?:.*\\\n)*.*)", text)
    }
    return {name: (int(number), fields[short]) for name, number, short in re.findall(r"MSG\((\w+),\s*(\d+), (\w+),", text)}


MESSAGES = messages()
NAMES = {number: name for name, (number, _) in MESSAGES.items()}
VERSION = int(re.search(r"#define PROTO_VERSION\s+(\d+)", text_of("version.h")).group(1))


# ---- msgpack, as far as messages have it ----


def packed(value):
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        for most, head, form in ((0x7F, b"", ">B"), (0xFF, b"\xcc", ">B"), (0xFFFF, b"\xcd", ">H"), (0xFFFFFFFF, b"\xce", ">I")):
            if value <= most:
                return head + struct.pack(form, value)
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        data = value.encode()
        return (bytes([0xA0 | len(data)]) if len(data) < 32 else b"\xd9" + bytes([len(data)])) + data
    if isinstance(value, bytes):
        return (b"\xc4" + bytes([len(value)]) if len(value) < 256 else b"\xc5" + struct.pack(">H", len(value))) + value
    head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + struct.pack(">H", len(value))
    return head + b"".join(map(packed, value))


SIZED = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDC: ">H"}
NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}


def unpacked(data, at=0):
    """Returns a value and where the next one begins."""
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    if kind in (0xC2, 0xC3):
        return kind == 0xC3, at
    if kind in NUMBERS:
        form = NUMBERS[kind]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    count = kind & (0x1F if 0xA0 <= kind < 0xC0 else 0x0F)
    if kind in SIZED:
        form = SIZED[kind]
        count = struct.unpack_from(form, data, at)[0]
        at += struct.calcsize(form)
    if kind == 0xDC or 0x90 <= kind < 0xA0:
        values = []
        for _ in range(count):
            value, at = unpacked(data, at)
            values.append(value)
        return values, at
    return data[at : at + count], at + count


def encoded(name, seq, **values):
    number, fields = MESSAGES[name]
    unknown = set(values) - {field for field, _ in fields}
    if unknown:
        raise SystemExit(f"{name} has no field {', '.join(sorted(unknown))}: proto/messages.def has changed, and bench has to follow")
    return packed([number, seq, *(values.get(field, EMPTY[kind]) for field, kind in fields)])


def name_of(data):
    """Of a message: its number is the first of a list, whose length takes one byte or three."""
    return NAMES[data[1 if data[0] & 0xF0 == 0x90 else 3]]


def decoded(data):
    """Returns the name of a message and its fields."""
    _, _, *values = unpacked(data)[0]
    name = name_of(data)
    return name, dict(zip((field for field, _ in MESSAGES[name][1]), values))


# ---- who asks ----


class Peer:
    """What both have in common: requests with a number, and runs of code."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(ANSWER_S)
        self.seq = 0
        self.operations = 0
        self.last = ()

    def ask(self, name, **values):
        return decoded(self.ask_bytes(self.request(name, **values)))

    def request(self, name, **values):
        self.seq += 1
        return encoded(name, self.seq, **values)

    def want(self, answer, name, **values):
        found, fields = self.ask(name, **values)
        if found != answer:
            raise SystemExit(f"{name} was answered by {found}: {fields.get('message', b'').decode()}")
        return fields

    def start(self, code):
        """A START as the supervisor sends it: it names the run before as taken."""
        self.operations += 1
        op = f"hops{self.operations}"
        made = self.request("START", op=op, kind=OP_EVAL, language="python", data=code, timeout_ms=30000, wait_ms=WAIT_MS, acks=self.last)
        self.last = (op.encode(),)
        return made

    def finish(self, data):
        """The outcome, of the answer to a START."""
        name, fields = decoded(data)
        while name == "OUTPUT" and fields["state"] != OP_DONE:
            name, fields = self.ask("WAIT", op=self.last[0].decode(), wait_ms=WAIT_MS)
        if name != "OUTPUT":
            raise SystemExit(f"code was answered by {name}: {fields.get('message', b'').decode()}")
        return fields

    def exactly(self, size):
        data = self.sock.recv(size)
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise SystemExit("the other end of a link has hung up; run `cloister doctor`")
            data += more
        return data

    def close(self):
        self.sock.close()


class AgentPeer(Peer):
    """In the place of a worker, which is dead: a stream of messages behind their length."""

    def __init__(self, path, sandbox, generation):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        super().__init__(sock)
        self.want("HELLO_OK", "HELLO", protocol="cloister-agent", version=VERSION, sandbox=sandbox, generation=generation)

    def ask_bytes(self, data):
        self.sock.sendall(len(data).to_bytes(4, "big") + data)
        while True:
            answer = self.exactly(int.from_bytes(self.exactly(4), "big"))
            if name_of(answer) != "RUNNING":  # an event, which nobody has asked for
                return answer


class WorkerPeer(Peer):
    """In the place of a supervisor, which is gone: the worker dials again, and finds this end of nng's."""

    def __init__(self, path, sandbox, generation):
        if os.path.exists(path):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(ANSWER_S)
            sock, _ = listener.accept()
        super().__init__(sock)
        sock.sendall(b"\0SP\0" + struct.pack(">HH", REQ, 0))
        if self.exactly(8)[4:6] != struct.pack(">H", REP):
            raise SystemExit("the worker's end is no REP of nng's: common/io has changed, and bench has to follow")
        self.want("HELLO_OK", "HELLO", protocol="cloister-worker", version=VERSION, sandbox=sandbox, generation=generation)

    def ask_bytes(self, data):
        ident = FIRST_ID + (self.seq & 0x7FFFFFFF)
        self.sock.sendall(struct.pack(">BQI", 1, len(data) + 4, ident) + data)
        size = struct.unpack(">BQ", self.exactly(9))[1]
        return self.exactly(size)[4:]


def poll(what, function):
    end = time.monotonic() + ANSWER_S
    while not function():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {ANSWER_S:.0f} s")
        time.sleep(0.01)
