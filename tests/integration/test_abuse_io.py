"""A sandbox that reads and writes the host's disk so that others wait for it: --io-read-mbps, --io-write-mbps, --io-iops.

On oci the files are on a disk of this machine, in a share below /var/tmp; where that is on no disk, or on
one that control groups do not limit, the case skips."""

import glob
import os
import shutil
import subprocess
import tempfile

from common import ON_OCI, Server, Skip, Suite, contains, equal, needs_runtime

needs_runtime()
suite = Suite()
MIB = 1 << 20
SIZE_MB = 6
READ = f"""
import os, time
fd = os.open('/shared/disk/file', os.O_RDONLY)
begun = time.monotonic()
while os.read(fd, {MIB}):
    pass
time.monotonic() - begun
"""


def notes(box, name):
    return [note for note in box["limits"]["unapplied"] if note.startswith(f"{name}:")]


class OnDisk:
    """A directory on a disk of this machine, which /tmp often is not."""

    def __init__(self, parent="/var/tmp"):
        device = os.stat(parent).st_dev
        if not os.path.exists(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"):
            raise Skip(f"{parent} is not on a disk of this machine")
        self.path = tempfile.mkdtemp(prefix="clotest", dir=parent)
        os.chmod(self.path, 0o755)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def not_in_cache(directory):
    """A file that has to be read from the disk."""
    path = os.path.join(directory, "file")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, os.urandom(SIZE_MB * MIB))
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    os.chmod(path, 0o644)


def group_files(sandbox):
    """What the control group of a sandbox says of disks."""
    found = ""
    for pattern in (f"/sys/fs/cgroup/blkio/**/cloister-{sandbox}/blkio.throttle.*_device", f"/sys/fs/cgroup/**/*{sandbox}*/io.max"):
        for path in glob.glob(pattern, recursive=True):
            with open(path, encoding="utf-8") as file:
                found += "".join(f"{os.path.basename(path)} {line}" for line in file)
    return found


@suite.case("what a sandbox reads of the disk is slowed down, and its control group has each of the limits", when=ON_OCI)
def limited():
    limits = ("--io-read-mbps", "1", "--io-write-mbps", "2", "--io-iops", "1000")
    with OnDisk() as directory, Server(*limits, "--share", f"{directory}=disk") as server:
        not_in_cache(directory)
        server.legacy()
        box = server.call("create_sandbox")
        if notes(box, "io"):
            raise Skip(f"not on this host: {notes(box, 'io')[0]}")
        text = group_files(box["sandbox_id"])
        for value in (1 * MIB, 2 * MIB, 1000):
            contains(text, str(value))
        took = float(server.run(READ, sandbox_id=box["sandbox_id"])["result"])
        assert took > SIZE_MB / 2, f"{SIZE_MB} MiB at 1 MiB/s took {took} s"


@suite.case("without the options there is no limit", when=ON_OCI)
def unlimited():
    with Server() as server:
        server.legacy()
        box = server.call("create_sandbox")
        equal(notes(box, "io"), [])
        equal(group_files(box["sandbox_id"]).replace("io.max ", "").strip(), "")


@suite.case("a device that is none is told under unapplied, and refused with --strict", when=ON_OCI)
def no_device():
    options = ("--io-read-mbps", "1", "--io-device", "/dev/null")
    with Server(*options) as server:
        server.legacy()
        contains(notes(server.call("create_sandbox"), "io")[0], "/dev/null" if not blind() else "no control group")
    with Server(*options, "--strict") as server:
        server.legacy()
        contains(server.call_failing("create_sandbox")["error"]["message"], "io")


def blind():
    """Whether control groups of this machine limit no disk."""
    return not os.path.exists("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device") and "io" not in subprocess.run(
        ["cat", "/sys/fs/cgroup/cgroup.controllers"], capture_output=True, text=True, check=False
    ).stdout.split()


@suite.case("on an engine without the name of its disk the limits are told under unapplied", when=not ON_OCI)
def engine():
    with Server("--io-read-mbps", "1") as server:
        server.legacy()
        equal(len(notes(server.call("create_sandbox"), "io")), 1)


suite.run()
