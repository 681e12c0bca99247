"""contrib/vm: its exit status is that of the command in the machine, and a machine that never came so far is a failure. QEMU, the tools that
make a system and those that mount are stand-ins; no system is made."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import HERE, NONE, ON_OCI, Suite, contains, equal, mcp, skip_all

if not ON_OCI:
    skip_all("does not depend on the backend")
if os.getuid() != 0:
    skip_all("is for root, who makes the system")
suite = Suite(NONE)
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "contrib", "vm")
NOTHING = "#!/bin/sh\nexit 0\n"
NOT_MOUNTED = "#!/bin/sh\nexit 1\n"

# Does what $MACHINE says with $results, the disk for results, and $console.
QEMU = r"""#!/bin/sh
for word; do
    case $word in
        file=*results.img,*) results=${word#file=} results=${results%%,*} ;;
        file:*) console=${word#file:} ;;
    esac
done
echo booting >"$console"
ended() {
    echo "$1" >"$results.status"
    tar -cf "$results" --transform 's,.*/results.img.status,./status,' -P "$results.status"
}
eval "$MACHINE"
"""


class Machine:
    """A place in which a system and a build seem to be there already."""

    def __init__(self):
        self.top = mcp.temporary_directory()
        os.makedirs(f"{self.top}/keep/trixie/root/home/someone")
        open(f"{self.top}/keep/trixie/system.img", "wb").close()
        tools = dict.fromkeys(("mmdebstrap", "mke2fs", "chroot", "mount", "umount"), NOTHING)
        for name, text in {**tools, "mountpoint": NOT_MOUNTED, "qemu-system-x86_64": QEMU}.items():
            os.makedirs(f"{self.top}/bin", exist_ok=True)
            with open(f"{self.top}/bin/{name}", "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(file.name, 0o755)

    def run(self, does):
        """Exit status and words of a run whose machine does this."""
        environment = {**os.environ, "PATH": f"{self.top}/bin:{os.environ['PATH']}", "MACHINE": does}
        done = subprocess.run(
            [SCRIPT, "--keep", f"{self.top}/keep", "--", "true"],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )
        return done.returncode, done.stderr


machine = Machine()


@suite.case("the status is that of the command in the machine")
def command():
    equal(machine.run("ended 0")[0], 0)
    equal(machine.run("ended 7")[0], 7)


@suite.case("a command that a signal has ended has failed")
def signal():
    status, words = machine.run("ended TERM")
    equal(status, 2)
    contains(words, "TERM")


@suite.case("a machine that ends before the command has run has failed, and the end of its console is shown")
def boot():
    for does in (":", "ended ''", "echo nothing >$results"):
        status, words = machine.run(f"echo 'Kernel panic' >>$console; {does}")
        equal(status, 2, does)
        contains(words, "Kernel panic")


@suite.case("a virtual machine that does not start has failed")
def start():
    status, words = machine.run("exit 1")
    equal(status, 2)
    contains(words, "QEMU ended with 1")


suite.run()
