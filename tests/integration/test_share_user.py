"""Directories of this host in the sandboxes of an ordinary user, with subordinate ids and without."""

import os
import shutil
import subprocess

from common import ON_OCI, Server, Skip, Suite, equal, needs_runtime, skip_all
import mcp
import mounts
import net as nets

if not ON_OCI:
    skip_all("about the oci backend: on engines nobody but the engine has a uid")
nets.needs_network()
net = nets.enter()
needs_runtime()
suite = Suite()


def user(ids):
    prefix = net.make_user(ids)
    tried = subprocess.run([*prefix, os.environ["CLOISTER"], "--version"], capture_output=True, check=False)
    if tried.returncode != 0:
        raise Skip("the built program cannot be run by another user")
    if ids and shutil.which("newuidmap") is None:
        raise Skip("newuidmap is not installed")
    return prefix


def owned(path, mode):
    os.mkdir(path)
    os.chown(path, nets.USER, nets.USER)
    os.chmod(path, mode)
    return path


def readable(ids):
    """What everybody may read is read by code that has another id than the agent."""
    prefix = user(ids)
    place, data = owned(os.path.join(mcp.temporary_directory(), "rt"), 0o700), mcp.temporary_directory()
    with open(os.path.join(data, "a"), "w", encoding="utf-8") as file:
        file.write("a")
    with Server("--share", f"{data}=open", runtime_dir=place, prefix=prefix) as server:
        server.legacy()
        equal(server.stdout("import os; print(open('/shared/open/a').read(), os.getuid())"), f"a {1000 if ids else 0}\n")


def listed(ids):
    """Reads in the lists of mounts where the directory is, and nothing else of the host's."""
    prefix = user(ids)
    place, home = owned(os.path.join(mcp.temporary_directory(), "rt"), 0o700), mcp.temporary_directory()
    os.chown(home, nets.USER, nets.USER)
    data = owned(os.path.join(home, "data"), 0o700)
    with Server("--share", f"{data}:rw", runtime_dir=place, prefix=prefix, env={"HOME": home}) as server:
        server.legacy()
        made = server.call("create_sandbox")
        if any(missing.startswith("private files") for missing in made["limits"]["unapplied"]):
            raise Skip(f"not on this host: {made['limits']['unapplied']}")
        text = server.stdout(mounts.READ, language="bash", sandbox_id=made["sandbox_id"])
        equal(mounts.telling(text, [place, home], binds=("/packages", "/shared/data")), [])
        assert mounts.telling(text, [data]), "the kernel has become discreet: contrib/docs/security.md can say so"


def shared(ids):
    """Reads and writes in the directory of a home that nobody else may enter."""
    prefix = user(ids)
    place, home = owned(os.path.join(mcp.temporary_directory(), "rt"), 0o700), mcp.temporary_directory()
    os.chown(home, nets.USER, nets.USER)
    os.chmod(home, 0o700)
    data = owned(os.path.join(home, "data"), 0o700)
    below = owned(os.path.join(data, "below"), 0o755)
    with open(os.path.join(data, "mine"), "w", encoding="utf-8") as file:
        file.write("mine")
    os.chown(file.name, nets.USER, nets.USER)
    os.chmod(file.name, 0o600)
    with open(os.path.join(data, "covered"), "w", encoding="utf-8"):
        pass
    subprocess.run(["mount", "-t", "tmpfs", "none", below], check=True)
    subprocess.run(["mount", "--bind", "/etc/hostname", os.path.join(data, "covered")], check=True)
    with open(os.path.join(below, "inside"), "w", encoding="utf-8"):
        pass
    try:
        with Server("--share", "~/data:rw", "--share", f"{data}=seen", runtime_dir=place, prefix=prefix, env={"HOME": home}) as server:
            server.legacy()
            code = """
import os
os.chdir('/shared/data')
print(open('mine').read(), open('../seen/mine').read())
open('new', 'w').write('new')
os.mkdir('dir')
open('mine', 'a').write(' too')
print(os.listdir('below'), repr(open('covered').read()), os.getuid())
try:
    open('/shared/seen/no', 'w')
except OSError as e:
    print(type(e).__name__, e.errno)
"""
            lines = server.stdout(code).splitlines()
            server.call("write_file", path="/shared/data/w", content="w")
        equal(lines, ["mine mine", "[] '' 0", "OSError 30"])
        for name in ("new", "dir", "mine", "w"):
            st = os.lstat(os.path.join(data, name))
            equal((st.st_uid, st.st_gid), (nets.USER, nets.USER), name)
    finally:
        subprocess.run(["umount", os.path.join(data, "covered")], check=True)
        subprocess.run(["umount", below], check=True)


@suite.case("with subordinate ids nothing but the sources of packages and shares is told by the lists of mounts")
def listed_with_ids():
    listed(True)


@suite.case("without subordinate ids neither")
def listed_without_ids():
    listed(False)


@suite.case("with subordinate ids what code writes is the user's")
def with_ids():
    shared(True)
    readable(True)


@suite.case("without subordinate ids what code writes is the user's, too")
def without_ids():
    shared(False)
    readable(False)


suite.run()
