"""Echoes: the least that a hop of its kind costs. A child answers each message by the same bytes, and does nothing else.

nng is called by ctypes, since nothing else of it is needed: one message at a time, without threads of our own.
"""

import ctypes
import ctypes.util
import os
import socket
import subprocess
import sys

MESSAGE_BYTES = 4096

UNIX = """
import socket, sys
with socket.socket(fileno=int(sys.argv[1])) as end:
    while data := end.recv(65536):
        end.sendall(data)
"""

NNG = """
import ctypes, sys
nng = ctypes.CDLL(sys.argv[1])
end, size, data = ctypes.c_uint32(), ctypes.c_size_t(), ctypes.create_string_buffer(4096)
assert nng.nng_rep0_open(ctypes.byref(end)) == 0 and nng.nng_dial(end, sys.argv[2].encode(), None, 0) == 0
while True:
    size.value = len(data)
    if nng.nng_recv(end, data, ctypes.byref(size), 0) != 0 or nng.nng_send(end, data, size, 0) != 0:
        break
"""


class Child:
    def __init__(self, command, **options):
        self.child = subprocess.Popen(command, **options)

    def close(self):
        self.child.kill()
        self.child.wait()


class PipeEcho(Child):
    """A line to `cat` and back."""

    def __init__(self):
        super().__init__(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def ask(self, data):
        self.child.stdin.write(data)
        left = len(data)
        while left > 0:
            left -= len(os.read(self.child.stdout.fileno(), left))

    def close(self):
        super().close()
        self.child.stdin.close()
        self.child.stdout.close()


class UnixEcho(Child):
    def __init__(self):
        self.end, other = socket.socketpair(socket.AF_UNIX)
        with other:
            super().__init__([sys.executable, "-c", UNIX, str(other.fileno())], pass_fds=[other.fileno()])

    def ask(self, data):
        self.end.sendall(data)
        left = len(data)
        while left > 0:
            left -= len(self.end.recv(left))

    def close(self):
        self.end.close()
        super().close()


class NngEcho(Child):
    """REQ here, REP in the child, over ipc://; raises OSError where nng is no library of its own."""

    def __init__(self, directory):
        name = ctypes.util.find_library("nng")
        if name is None:
            raise OSError("no libnng")
        self.nng = ctypes.CDLL(name)
        self.socket = ctypes.c_uint32()
        url = f"ipc://{directory}/echo"
        if self.nng.nng_req0_open(ctypes.byref(self.socket)) != 0 or self.nng.nng_listen(self.socket, url.encode(), None, 0) != 0:
            raise OSError(f"nng cannot listen on {url}")
        self.room = ctypes.create_string_buffer(MESSAGE_BYTES)
        self.size = ctypes.c_size_t()
        super().__init__([sys.executable, "-c", NNG, name, url])

    def ask(self, data):
        self.size.value = MESSAGE_BYTES
        if self.nng.nng_send(self.socket, data, len(data), 0) != 0 or self.nng.nng_recv(self.socket, self.room, ctypes.byref(self.size), 0) != 0:
            raise SystemExit("nng's echo has failed")

    def close(self):
        self.nng.nng_close(self.socket)
        super().close()
