"""What /proc tells of the host: how it was started, what it is made of and what others are doing on it; and what can be written
there. Programs of a sandbox need processes, memory, processors and mounts, which they see as ever."""

import os
import subprocess

from common import ON_OCI, Server, Shared, Skip, Suite, contains, equal, needs_runtime
import mcp
import mounts as lists

needs_runtime()
suite = Suite()
shared = Shared()

READ = """
import os
def texts(*paths):
    found = {}
    for top in paths:
        for path in [top] if not os.path.isdir(top) else [os.path.join(d, n) for d, _, names in os.walk(top) for n in names]:
            try:
                with open(path, 'rb') as file:
                    text = file.read(200)
            except OSError:
                continue
            if text:
                found[path] = text
    return found
"""


def value(code):
    done = shared.run(READ + code)
    equal(done["status"], "ok", code)
    return eval(done["result"], {})


@suite.case("how the host was started and built, its disks, modules and symbols cannot be read")
def what_it_is():
    paths = ["cmdline", "config.gz", "consoles", "crypto", "devices", "driver", "iomem", "ioports", "kallsyms", "kcore", "kmsg", "mdstat", "misc", "modules", "mtrr", "partitions", "scsi", "swaps"]
    equal(value(f"texts(*{['/proc/' + p for p in paths]})"), {})


@suite.case("what others do on the host cannot be told from counters of its memory, disks, interrupts and timers")
def what_it_does():
    paths = ["buddyinfo", "diskstats", "interrupts", "key-users", "keys", "pagetypeinfo", "pressure", "schedstat", "sched_debug", "slabinfo", "softirqs", "timer_list", "vmallocinfo", "vmstat", "zoneinfo"]
    equal(value(f"texts(*{['/proc/' + p for p in paths]})"), {})


@suite.case("nothing of /proc can be written but what belongs to one's own processes")
def written():
    code = """
open_to_write = []
for top, dirs, names in os.walk('/proc'):
    if top == '/proc':  # what is of processes comes below these, and /proc/sys is another case (test_isolation.py)
        dirs[:] = [d for d in dirs if not d.isdigit() and d not in ('self', 'thread-self', 'sys')]
    for path in (os.path.join(top, name) for name in names):
        if os.access(path, os.W_OK) and not os.path.samefile(path, '/dev/null'):
            open_to_write.append(path)
open_to_write
"""
    equal(value(code), [])


@suite.case("pressure of the host is not for code to watch: each watch is work for the kernel")
def pressure():
    if not os.path.isdir("/proc/pressure"):
        raise Skip("this kernel has none")
    code = "def watch(name):\n    try:\n        open('/proc/pressure/' + name, 'w').write('some 150000 2000000')\n        return 'done'\n    except OSError as problem:\n        return type(problem).__name__\n{name: watch(name) for name in ('cpu', 'io', 'memory')}"
    equal({name: got for name, got in value(code).items() if got == "done"}, {})


@suite.case("what programs need of /proc is there: processes, memory, processors, load, mounts, file systems, networks")
def needed():
    paths = ["cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "cgroups", "mounts", "self/status", "self/maps", "self/mountinfo", "self/limits", "net/dev", "net/tcp", "sys/kernel/pid_max", "sysvipc/shm"]
    found = value(f"texts(*{['/proc/' + p for p in paths]})")
    equal([p for p in paths if f"/proc/{p}" not in found], [])


@suite.case("the list of mounts tells nothing of somebody else's sandbox", when=ON_OCI)
def mounts():
    server, sandbox = shared.get()
    _, other = shared.fresh()
    text = server.stdout("cat /proc/self/mountinfo /proc/self/mounts", language="bash", sandbox_id=sandbox)
    assert other not in text, text
    server.call("close_sandbox", sandbox_id=other)


def make_image():
    """The host's /usr as an image, in a place of which neither the user nor an option of an overlay could tell the name."""
    image = os.path.join(mcp.temporary_directory(), "of:somebody,")
    os.makedirs(f"{image}/usr")
    os.mkdir(f"{image}/etc")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{image}/{name}")
    return image


def private(made):
    """Skips the case where root's sandbox has no overlays, as it says itself."""
    for missing in made["limits"]["unapplied"]:
        if missing.startswith("private files"):
            raise Skip(f"not on this host: {missing}")
    return made["sandbox_id"]


@suite.case("where this host keeps its files is in no list of mounts, but as the source of packages and shares", when=ON_OCI)
def places():
    share = mcp.temporary_directory()
    with Server("--share", f"{share}=data:rw", "--share", f"{share}=seen") as server:
        server.legacy()
        text = server.stdout(lists.READ, language="bash", sandbox_id=private(server.call("create_sandbox")))
        contains(text, " /shared/seen ")
        names = [server.runtime_dir, os.path.dirname(os.path.dirname(os.environ["CLOISTER"])), os.path.expanduser("~"), share, "lowerdir=/", ":/"]
        equal(lists.telling(text, names, binds=("/packages", "/shared/data", "/shared/seen")), [])


@suite.case("where an image is on this host is in no list of mounts", when=ON_OCI)
def image_place():
    if os.geteuid() != 0:
        raise Skip("only root can make the image")
    image = make_image()
    subprocess.run(["mount", "--bind", "/usr", f"{image}/usr"], check=True)
    try:
        with Server("--image", image) as server:
            server.legacy()
            text = server.stdout(lists.READ, language="bash", sandbox_id=private(server.call("create_sandbox")))
            equal(lists.telling(text, [image, "somebody", server.runtime_dir], binds=("/packages",)), [])
    finally:
        subprocess.run(["umount", f"{image}/usr"], check=True)


@suite.finish
def close():
    """the server ends and leaves nothing behind"""
    shared.close()


suite.run()
