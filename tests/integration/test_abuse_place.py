"""Places of this host that everybody can take. Packages are in /var/tmp/cloister-UID where the runtime directory is in memory or without
programs, as /run mostly is. Whoever takes that name first could read and replace what others install; and a server that silently used
another place would put packages into memory, or where their libraries cannot be loaded."""

import os
import subprocess

from common import ON_OCI, Server, Suite, clear, contains, equal, needs_runtime, skip_all, works
import mcp

needs_runtime()
if not ON_OCI:
    skip_all("engines keep packages in volumes of theirs")
if os.getuid() != 0:
    skip_all("needs root")
suite = Suite()
PLACE = f"/var/tmp/cloister-{os.getuid()}"
STRANGER = 12345


class TakenServer:
    """A server whose /var/tmp is its own, with something at the place of packages, and whose runtime directory is as /run is. Both are
    visible only to the server and its children, so nobody else of this host notices."""

    def __init__(self, take, *options):
        shown = mcp.temporary_directory()
        prepare = f'mount -t tmpfs -o mode=1777 tmpfs /var/tmp && {take} && mount -t tmpfs -o noexec,mode=0755 tmpfs "$0" && exec "$@"'
        self.server = Server(*options, runtime_dir=shown, prefix=["unshare", "--mount", "sh", "-c", prepare, shown])
        self.server.legacy()

    def command(self, line):
        """Runs a line of shell where the server is; returns what it says."""
        words = ["nsenter", f"--mount=/proc/{self.server.process.pid}/ns/mnt", "sh", "-c", line]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.server.__exit__(*problem)


def refused(take, why):
    """Requires that no sandbox is made, with the reason and what helps; and that all is well when the place is free."""
    with TakenServer(take) as taken:
        before = taken.command(f"ls -laR {PLACE}/ 2>&1; ls -ld {PLACE}")
        error = clear(taken.server.call_failing("create_sandbox")["error"])
        contains(error["message"], PLACE)
        contains(error["message"], why)
        contains(error["hint"], "--packages=no")
        equal(taken.command(f"ls -laR {PLACE}/ 2>&1; ls -ld {PLACE}"), before, "what was taken")
        taken.command(f"rm -rf {PLACE}")
        works(taken.server)
        contains(taken.command(f"stat -c '%u %a' {PLACE}"), f"{os.getuid()} 711")


@suite.case("a directory of somebody else's at the place of packages is refused with the reason, and left alone")
def strangers():
    refused(f"mkdir -m 0755 {PLACE} && chown {STRANGER} {PLACE}", f"a directory of uid {STRANGER}")


@suite.case("a symbolic link there leads nowhere")
def link():
    refused(f"mkdir -m 0711 /var/tmp/theirs && ln -s /var/tmp/theirs {PLACE} && chown -h {STRANGER} {PLACE}", f"a symbolic link of uid {STRANGER}")


@suite.case("a directory of ours in which others can write is refused, too")
def open_to_all():
    refused(f"mkdir {PLACE} && chmod 0777 {PLACE}", "others can write there")


@suite.case("with --packages=no it does not matter who has that place")
def without_packages():
    with TakenServer(f"mkdir -m 0755 {PLACE} && chown {STRANGER} {PLACE}", "--packages=no") as taken:
        works(taken.server)


suite.run()
