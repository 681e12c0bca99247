"""contrib/install-quietly: packages come without their services. The package manager is a stand-in that does what
Debian's packages do as they are installed; the root directory is one of the test's own."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # pylint: disable=wrong-import-position

from common import HERE, NONE, ON_OCI, Suite, contains, equal, mcp, poll, skip_all

if not ON_OCI:
    skip_all("does not depend on the backend")
suite = Suite(NONE)
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "contrib", "install-quietly")

# Asks for leave to start a service, enables three, and waits for the file `go` if `wait` is there.
MANAGER = r"""#!/bin/sh
status=0
[ ! -x "$DPKG_ROOT/usr/sbin/policy-rc.d" ] || "$DPKG_ROOT/usr/sbin/policy-rc.d" engine start || status=$?
echo "$status $*" >>"$DPKG_ROOT/asked"
mkdir -p "$DPKG_ROOT/etc/systemd/system/sockets.target.wants" "$DPKG_ROOT/etc/systemd/user/timers.target.wants"
ln -sf /usr/lib/engine.socket "$DPKG_ROOT/etc/systemd/system/sockets.target.wants/engine.socket"
ln -sf /usr/lib/engine.timer "$DPKG_ROOT/etc/systemd/user/timers.target.wants/engine.timer"
ln -sf ../init.d/engine "$DPKG_ROOT/etc/rc2.d/S01engine"
while [ -e "$DPKG_ROOT/wait" ] && [ ! -e "$DPKG_ROOT/go" ]; do sleep 0.02; done
echo done >>"$DPKG_ROOT/asked"
exit "${MANAGER_STATUS:-0}"
"""

OTHER_POLICY = '#!/bin/sh\necho "$@" >>"$0.asked"\nexit 7\n'


class Root:
    """A root directory with one service that its owner has enabled."""

    def __init__(self):
        self.path = mcp.temporary_directory()
        for name in ("run", "usr/sbin", "etc/rc2.d", "etc/systemd/system/multi-user.target.wants", "bin"):
            os.makedirs(f"{self.path}/{name}")
        self.own = f"{self.path}/etc/systemd/system/multi-user.target.wants/own.service"
        os.symlink("/usr/lib/own.service", self.own)
        self.policy = f"{self.path}/usr/sbin/policy-rc.d"
        self.write("bin/apt-get", MANAGER)

    def write(self, name, text):
        with open(f"{self.path}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o755)

    def start(self, *words, **env):
        environment = {**os.environ, "DPKG_ROOT": self.path, "PATH": f"{self.path}/bin:{os.environ['PATH']}", **env}
        return subprocess.Popen([SCRIPT, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, *words, **env):
        process = self.start(*words, **env)
        said = process.communicate(timeout=120)[0]
        return process.returncode, said.decode()

    def asked(self):
        if not os.path.exists(f"{self.path}/asked"):
            return []
        with open(f"{self.path}/asked", encoding="utf-8") as file:
            return file.read().splitlines()

    def links(self):
        return sorted(
            os.path.join(where, name)[len(self.path) :] for where, _, names in os.walk(f"{self.path}/etc") for name in names
        )

    def may_start(self):
        """The status with which a service that is started now is let through (0) or not."""
        return subprocess.run([self.policy, "own", "start"], timeout=60, check=False).returncode if os.path.exists(self.policy) else 0


@suite.case("services are neither started nor enabled, and what was enabled before stays so")
def quiet():
    root = Root()
    status, said = root.run("engine", "registry")
    equal(status, 0, said)
    equal(len(root.asked()), 2, said)
    assert root.asked()[0].startswith("101 "), root.asked()
    contains(root.asked()[0], "install -y --no-install-recommends engine registry")
    equal(root.links(), [root.own[len(root.path) :]])
    equal(os.path.exists(root.policy), False)


@suite.case("a failure of the package manager is the script's own, and leaves nothing either")
def failing():
    root = Root()
    equal(root.run("engine", MANAGER_STATUS="100")[0], 100)
    equal(root.links(), [root.own[len(root.path) :]])
    equal(os.path.exists(root.policy), False)


@suite.case("a policy that is there is put back")
def other_policy():
    root = Root()
    root.write("usr/sbin/policy-rc.d", OTHER_POLICY)
    equal(root.run("engine")[0], 0)
    assert root.asked()[0].startswith("101 "), root.asked()
    equal(root.may_start(), 7)
    with open(root.policy, encoding="utf-8") as file:
        equal(file.read(), OTHER_POLICY)
    equal(sorted(os.listdir(os.path.dirname(root.policy))), ["policy-rc.d", "policy-rc.d.asked"])


@suite.case("after a kill services start as ever, and the next run mends the rest")
def killed():
    root = Root()
    root.write("usr/sbin/policy-rc.d", OTHER_POLICY)
    root.write("wait", "")
    process = root.start("engine")
    poll("it installs", lambda: len(root.asked()) == 1)
    equal(root.may_start(), 101)
    process.kill()
    process.wait()
    equal(root.may_start(), 7)
    root.write("go", "")
    poll("the package manager has ended", lambda: len(root.asked()) == 2)
    process.stdout.close()
    equal(root.run("engine")[0], 0)
    with open(root.policy, encoding="utf-8") as file:
        equal(file.read(), OTHER_POLICY)


@suite.case("a signal ends it when the package manager has finished, and not in the middle")
def interrupted():
    root = Root()
    root.write("wait", "")
    process = root.start("engine")
    poll("it installs", lambda: len(root.asked()) == 1)
    os.killpg(process.pid, signal.SIGTERM)
    equal(root.may_start(), 101)
    equal(process.poll(), None)
    root.write("go", "")
    process.communicate(timeout=120)
    equal(process.returncode, 143)
    equal(len(root.asked()), 2)
    equal(root.links(), [root.own[len(root.path) :]])
    equal(os.path.exists(root.policy), False)


suite.run()
