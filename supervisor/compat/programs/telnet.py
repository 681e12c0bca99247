# Telnet connections, kept by the interpreter of a sandbox that has network and is for nothing else. Each
# call runs this anew: what is asked for is JSON on stdin, the answer is JSON on stdout.

import codecs
import json
import socket
import sys
import time
import uuid

if "connections" not in globals():
    connections = {}

IAC, DONT, DO, WONT, WILL, SB, SE = 255, 254, 253, 252, 251, 250, 240
READ_MAX = 200_000
PART_MAX = 200_000  # of the JSON text of what one answer tells
QUIET = 0.4  # seconds without a byte: it has said what it had to say


def plain(connection, data):
    """Text without commands; options are refused, as by a terminal that has none."""
    data = connection["rest"] + data
    out, at = bytearray(), 0
    while at < len(data):
        byte = data[at]
        if byte != IAC:
            out.append(byte)
            at += 1
            continue
        command = data[at + 1] if at + 1 < len(data) else None
        if command == IAC:
            out.append(IAC)
            at += 2
        elif command in (DO, DONT, WILL, WONT) and at + 2 < len(data):
            if command in (DO, WILL):
                connection["socket"].sendall(bytes([IAC, WONT if command == DO else DONT, data[at + 2]]))
            at += 3
        elif command == SB and bytes([IAC, SE]) in data[at:]:
            at = data.index(bytes([IAC, SE]), at) + 2
        elif command is not None and command not in (DO, DONT, WILL, WONT, SB):
            at += 2
        else:
            break  # the rest of it comes later
    connection["rest"] = data[at:][:4096]
    return bytes(out)


def cost(character):
    """Of its JSON text."""
    if character in '"\\\b\f\n\r\t':
        return 2
    if " " <= character < "\x7f":
        return 1
    return 6 if character < "\U00010000" else 12


def part(connection, text):
    """What fits into an answer; the rest is kept for the next one, and said to be."""
    left, at = PART_MAX, 0
    while at < len(text) and left >= cost(text[at]):
        left -= cost(text[at])
        at += 1
    connection["unread"] = text[at:]
    if at == len(text):
        return text
    return f"{text[:at]}\n... [{len(text) - at} more characters have come, the next send_command begins with them]"


def listen(connection, seconds):
    """What it says within that time, or until it pauses, behind what the answer before this one had no room for."""
    before = connection["unread"]
    said, end = b"", time.monotonic() + seconds
    while len(before) + len(said) < READ_MAX and time.monotonic() < end:
        left = end - time.monotonic()
        connection["socket"].settimeout(max(0.01, min(left, QUIET) if said else left))
        try:
            data = connection["socket"].recv(65536)
        except (TimeoutError, socket.timeout):  # two things before Python 3.10
            break
        if not data:
            connection["open"] = False
            break
        said += plain(connection, data)
    return part(connection, before + connection["decoder"].decode(said))


def connect(host, port, timeout=30):
    made = socket.create_connection((host, port), timeout=timeout)
    session = str(uuid.uuid4())
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    connections[session] = {"socket": made, "host": host, "port": port, "open": True, "rest": b"", "decoder": decoder, "unread": ""}
    return {
        "session_id": session,
        "connected": True,
        "host": host,
        "port": port,
        "initial_response": listen(connections[session], min(timeout, 2)),
    }


def found(session):
    if session not in connections:
        raise ValueError(f"No active connection with session ID {session}")
    return connections[session]


def send_command(session_id, command, timeout=10):
    connection = found(session_id)
    connection["socket"].settimeout(timeout)
    connection["socket"].sendall(command.encode().replace(b"\xff", b"\xff\xff") + b"\r\n")
    return {"success": True, "response": listen(connection, timeout)}


def disconnect(session_id):
    found(session_id)["socket"].close()
    del connections[session_id]
    return {"success": True, "message": f"Connection {session_id} closed successfully"}


def list_connections():
    rows = [{"session_id": key, "host": one["host"], "port": one["port"]} for key, one in connections.items() if one["open"]]
    return {"count": len(rows), "connections": rows}


def answer():
    ask = json.load(sys.stdin)
    tools = {"connect": connect, "send_command": send_command, "disconnect": disconnect, "list_connections": list_connections}
    tool = ask.pop("tool")
    try:
        done = tools[tool](**ask)
    except (OSError, ValueError) as error:
        done = {"connected" if tool == "connect" else "success": False, "error": f"{error}" or type(error).__name__}
    print(json.dumps(done))


answer()
