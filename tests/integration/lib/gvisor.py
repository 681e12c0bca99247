"""What is different in a sandbox with a kernel of its own, gVisor's, for the tests: which of their cases cannot hold there and why, and
what runs in a sandbox, which this host does not see."""

import os
import re
import subprocess

RUNTIME = os.environ.get("CLOISTER_RUNTIME", "")
OWN_KERNEL = os.path.basename(RUNTIME) == "runsc"

MEMORY = "its kernel kills no single process for memory: the sandbox ends"
CANNOT = {
    "host files outside /usr and the generated ones are invisible": "the agent's socket is in a directory of /run, closed to code",
    "only the usual devices are there and none can be made": "its kernel has /dev/net and /dev/fuse of its own",
    "user code has a uid of its own, no capabilities, no-new-privileges and seccomp": "its kernel does not tell the ambient set",
    "only the sandbox's own processes are visible, and not the agent's insides": "it has no hidepid, which `unapplied` says",
    "no namespace is shared with the host": "it has no files of namespaces",
    "the agent cannot be signalled, traced, renamed or starved": "it takes priorities of others, and does nothing with them",
    "memory over the limit is reported as memory_exceeded, and the sandbox goes on": MEMORY,
    "a child killed for memory does not make a later SIGKILL look like that": MEMORY,
    "what is missing, no file or not allowed is said as such": "it shows processes their own environment whatever their dumpable flag",
}


LIST = 'for f in /proc/[0-9]*/stat; do read -r line < $f && echo "$line"; done 2>/dev/null'


def processes_inside(line_of_kernel, sandbox):
    """{pid: parent} of the live processes in the sandbox, by its own pids; the shell that lists them is no part of it."""
    root = re.search(r"--root=(\S+)", line_of_kernel)[1]
    command = [RUNTIME, "--root", root, "exec", f"cloister-{sandbox}", "/bin/sh", "-c", LIST]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    found = {}
    for row in done.stdout.splitlines():
        pid, rest = row.split(" ", 1)
        state, parent = rest.rsplit(")", 1)[1].split()[:2]
        if state not in "ZX" and (parent != "0" or pid == "1"):
            found[int(pid)] = int(parent)
    return found
