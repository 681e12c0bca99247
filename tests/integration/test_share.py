"""Directories of this host in sandboxes (--share): who may read and write what, and that nothing else is reached."""

import hashlib
import os
import shutil
import socket
import stat
import subprocess

from common import NONE, ON_OCI, ONE, Server, Skip, Suite, contains, equal, mcp, needs_runtime, poll

needs_runtime()
suite = Suite()
OWNER = 54321  # an ordinary user of this host, who is nobody in particular
AS_ROOT = os.geteuid() == 0


class Place:
    """A directory to share, of an ordinary user where the tests are root."""

    def __init__(self, mode=0o755):
        self.path = os.path.join(mcp.temporary_directory(), "data")
        os.mkdir(self.path)
        self.give(self.path)
        os.chmod(self.path, mode)

    def __fspath__(self):
        return self.path

    def give(self, path):
        if AS_ROOT:
            os.chown(path, OWNER, OWNER, follow_symlinks=False)

    def at(self, name):
        return os.path.join(self.path, name)

    def put(self, name, text, mode=0o644):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.at(name), mode)
        self.give(self.at(name))

    def get(self, name):
        with open(self.at(name), encoding="utf-8") as file:
            return file.read()


def started(*options, **how):
    server = Server(*options, **how)
    server.legacy()
    return server


def refusal(*options, **how):
    """What a server that does not start says."""
    done = subprocess.run(
        [os.environ["CLOISTER"], "--runtime-dir", mcp.temporary_directory(), *options],
        **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60, "check": False, **how},
    )
    assert done.returncode != 0, done
    return done.stderr


@suite.case("a share is read where it lies, and nobody writes what is read-only")
def read_only():
    place = Place()
    place.put("sales.csv", "a,b\n1,2\n")
    with started("--share", f"{place.path}=sales") as server:
        box = server.call("create_sandbox")
        equal(box["shares"], ["/shared/sales (read-only)"])
        sandbox = box["sandbox_id"]
        equal(server.stdout("print(open('/shared/sales/sales.csv').read(), end='')", sandbox_id=sandbox), "a,b\n1,2\n")
        equal(server.call("read_file", path="/shared/sales/sales.csv", sandbox_id=sandbox)["content"], "a,b\n1,2\n")
        names = [row["name"] for row in server.call("list_files", path="/shared/sales", sandbox_id=sandbox)["entries"]]
        equal(names, ["sales.csv"])
        for code in ("open('/shared/sales/new', 'w')", "import os; os.remove('/shared/sales/sales.csv')"):
            contains(server.run(code, sandbox_id=sandbox)["error"]["message"], "Read-only file system")
        equal(os.listdir(place.path), ["sales.csv"])
        # the default sandbox has it, too
        equal(server.stdout("import os; print(os.listdir('/shared/sales'))"), "['sales.csv']\n")


@suite.case("what code writes belongs to whom the directory belongs to, and what was there can be changed")
def written():
    place = Place(0o700)
    place.put("mine", "before", 0o600)
    with started("--share", f"{place.path}:rw") as server:
        sandbox = server.call("create_sandbox")["sandbox_id"]
        code = """
import os
os.chdir('/shared/data')
print(open('mine').read())
open('mine', 'a').write(' and after')
os.makedirs('out/deep')
open('out/deep/chart.txt', 'w').write('chart')
os.rename('out/deep/chart.txt', 'chart.txt')
"""
        equal(server.stdout(code, sandbox_id=sandbox), "before\n")
        equal(place.get("mine"), "before and after")
        equal(place.get("chart.txt"), "chart")
        for name in ("mine", "chart.txt", "out", "out/deep"):
            st = os.lstat(place.at(name))
            wanted = OWNER if AS_ROOT else os.geteuid()
            equal((st.st_uid, st.st_gid), (wanted, wanted if AS_ROOT else os.getegid()), name)
        server.call("write_file", path="/shared/data/w", content="w", sandbox_id=sandbox)
        equal(os.lstat(place.at("w")).st_uid, OWNER if AS_ROOT else os.geteuid())
        run = server.run("open('/shared/data/x', 'w').write('x')", sandbox_id=sandbox)
        equal(run.get("files", []), [])  # not of the workspace
    equal(place.get("x"), "x")  # and nothing goes with the sandbox


@suite.case("on oci a file that only its owner may read is read", when=ON_OCI)
def private():
    place = Place(0o700)
    place.put("secret", "for me", 0o600)
    with started("--share", place.path) as server:
        equal(server.stdout("print(open('/shared/data/secret').read())"), "for me\n")
        unapplied = server.call("get_sandbox_status")["sandboxes"][0]["limits"]["unapplied"]
        equal([text for text in unapplied if text.startswith("share")], [])


@suite.case("where ids cannot be mapped a share is readable by what everybody may, and never writable", when=ON_OCI and AS_ROOT)
def unmapped():
    place = Place()
    if subprocess.run(["mount", "-t", "ramfs", "none", place.path], check=False).returncode != 0:
        raise Skip("no file system without mapped ids can be mounted here")
    try:
        os.chmod(place.path, 0o755)
        place.put("open", "open")
        place.put("closed", "closed", 0o600)
        with started("--share", place.path) as server:
            box = server.call("create_sandbox")
            notes = [text for text in box["limits"]["unapplied"] if text.startswith("share data: ")]
            if not notes:
                raise Skip("this kernel maps the ids of ramfs")
            code = """
print(open('/shared/data/open').read())
try:
    open('/shared/data/closed')
except OSError as e:
    print(type(e).__name__)
"""
            equal(server.stdout(code, sandbox_id=box["sandbox_id"]), "open\nPermissionError\n")
        with started("--share", f"{place.path}:rw") as server:
            error = server.call_failing("create_sandbox")["error"]
            contains(error["message"], "share data: it cannot be writable")
            contains(error["message"], "cannot be mapped")
            contains(error["hint"], "--share")
        with started("--share", place.path, "--strict") as server:
            contains(server.call_failing("create_sandbox")["error"]["message"], "cannot apply")
    finally:
        subprocess.run(["umount", place.path], check=True)


@suite.case("on an engine code is nobody there unless it may write, and never root", when=not ON_OCI and AS_ROOT)
def engine_users():
    place = Place(0o700)
    with started("--share", place.path) as server:
        limits = server.call("create_sandbox")["limits"]["unapplied"]
        equal([text.split(":")[0] for text in limits if text.startswith("share")], ["share data"])
    os.chown(place.path, 0, 0)
    with started("--share", f"{place.path}:rw") as server:
        error = server.call_failing("create_sandbox")["error"]
        contains(error["message"], "share data: it cannot be writable")
        contains(error["message"], "root of this host")
        contains(error["hint"], "--share")


@suite.case("symbolic links, set-user-ids, devices and mounts in it lead nowhere", when=AS_ROOT)
def nowhere():
    place = Place()
    outside = os.path.join(os.path.dirname(place.path), "outside")
    with open(outside, "w", encoding="utf-8") as file:
        file.write("not yours")
    os.symlink(outside, place.at("link"))
    os.symlink("../outside", place.at("up"))
    os.symlink(os.path.dirname(place.path), place.at("above"))
    shutil.copy("/usr/bin/id", place.at("id"))
    os.chmod(place.at("id"), 0o6755)
    os.mknod(place.at("kmsg"), 0o666 | stat.S_IFCHR, os.makedev(1, 11))
    os.chmod(place.at("kmsg"), 0o666)
    os.mkdir(place.at("below"))
    below = subprocess.run(["mount", "-t", "tmpfs", "none", place.at("below")], check=False).returncode == 0
    try:
        if below:
            with open(place.at("below/inside"), "w", encoding="utf-8") as file:
                file.write("of another mount")
        with started("--share", f"{place.path}:rw") as server:
            code = """
import os, subprocess
os.chdir('/shared/data')
def tried(f):
    try:
        return f()
    except OSError as e:
        return type(e).__name__
for name in ('link', 'up', 'above/outside'):
    print(name, tried(lambda: open(name).read()))
print(subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout == str(os.getuid()) + '\\n')
print('device', tried(lambda: os.open('kmsg', os.O_RDONLY | os.O_NONBLOCK) and 'opened'))
print('mknod', tried(lambda: os.mknod('made', 0o666 | 0o020000, os.makedev(1, 3)) or 'made'))
print('below', tried(lambda: os.listdir('below')))
"""
            lines = server.stdout(code).splitlines()
        equal(lines[:3], [f"{name} FileNotFoundError" for name in ("link", "up", "above/outside")])
        equal(lines[3], "True")
        equal(lines[4].split()[0], "device")
        assert lines[4] != "device opened", lines
        assert lines[5] != "mknod made", lines
        equal(lines[6], "below []")
    finally:
        if below:
            subprocess.run(["umount", place.at("below")], check=True)


@suite.case("a share with :ask is only in sandboxes that ask for it; an unknown name is an error", engines=ONE)
def asked():
    place, other = Place(), Place()
    place.put("a", "a")
    with started("--share", f"{place.path}=asked:ro:ask", "--share", f"{other.path}=all") as server:
        tools = {tool["name"]: tool for tool in server.request("tools/list")["tools"]}
        contains(tools["create_sandbox"]["inputSchema"]["properties"]["shares"]["description"], "asked (read-only)")
        code = "import os; print(sorted(os.listdir('/shared')))"
        equal(server.stdout(code, sandbox_id=server.call("create_sandbox")["sandbox_id"]), "['all']\n")
        box = server.call("create_sandbox", shares=["asked"])
        equal(box["shares"], ["/shared/asked (read-only)", "/shared/all (read-only)"])
        equal(server.stdout(code, sandbox_id=box["sandbox_id"]), "['all', 'asked']\n")
        error = server.call_failing("create_sandbox", shares=["etc"])["error"]
        contains(error["message"], "no directory named etc")


@suite.case("the next server takes over sandboxes with their shares", engines=ONE)
def adopted():
    place, directory = Place(), mcp.temporary_directory()
    place.put("a", "a")
    server = started("--instance", "main", "--share", f"{place.path}:rw", runtime_dir=directory)
    sandbox = server.call("create_sandbox")["sandbox_id"]
    server.stdout("x = 7", sandbox_id=sandbox)
    server.kill()
    server = started("--instance", "main", runtime_dir=directory)  # without the option, for new ones
    equal(server.call("get_sandbox_status", sandbox_id=sandbox)["shares"], ["/shared/data (writable)"])
    equal(server.stdout("print(x, open('/shared/data/a').read())", sandbox_id=sandbox), "7 a\n")
    server.stdout("open('/shared/data/b', 'w').write('b')", sandbox_id=sandbox)
    equal(place.get("b"), "b")
    server.call("close_sandbox", sandbox_id=sandbox)
    equal(sorted(os.listdir(place.path)), ["a", "b"])
    server.process.send_signal(2)
    equal(server.wait_exit(), 0, server.log_tail())


@suite.case("a share that goes while the server runs fails creations, and a link in its place is not followed")
def gone():
    place = Place()
    with started("--share", place.path) as server:
        os.rmdir(place.path)
        error = server.call_failing("create_sandbox")["error"]
        contains(error["message"], "share data: ")
        contains(error["message"], "No such file")
        contains(error["hint"], "--share")
        os.symlink("/etc", place.path)
        contains(server.call_failing("create_sandbox")["error"]["message"], "symbolic link")
        os.unlink(place.path)
        os.mkdir(place.path)
        server.call("create_sandbox")


@suite.case("a file of the sandbox is saved on the host, whole and once")
def saved():
    place = Place()
    place.put("old", "old")
    data = bytes(range(256)) * 12000  # three pieces
    with started("--local-files", f"{place.path}:rw") as server:
        server.stdout("open('big', 'wb').write(bytes(range(256)) * 12000); open('empty', 'w').close()")
        done = server.call("save_file", path="big", local_path="big.bin")
        equal((done["size"], done["sha256"]), (len(data), hashlib.sha256(data).hexdigest()))
        with open(place.at("big.bin"), "rb") as file:
            equal(file.read(), data)
        st = os.lstat(place.at("big.bin"))
        equal((st.st_uid, stat.S_IMODE(st.st_mode) & 0o133), (OWNER if AS_ROOT else os.geteuid(), 0))
        equal(server.call("save_file", path="empty", local_path=place.at("empty"))["size"], 0)
        error = server.call_failing("save_file", path="big", local_path="old")["error"]
        contains(error["message"], "overwrite: true")
        contains(error["hint"], "another local_path")
        equal(place.get("old"), "old")
        server.call("save_file", path="empty", local_path="old", overwrite=True)
        equal(place.get("old"), "")
        # and back
        server.call("upload_file", path="again", local_path="big.bin")
        equal(server.stdout("print(open('again', 'rb').read() == open('big', 'rb').read())"), "True\n")
        equal(sorted(os.listdir(place.path)), ["big.bin", "empty", "old"])


@suite.case("what cannot be saved leaves nothing", engines=NONE)
def unsaved():
    place, closed = Place(), Place()
    os.symlink(closed.path, place.at("link"))
    with started("--local-files", f"{place.path}:rw,{closed.path}") as server:
        server.stdout("open('f', 'w').write('f'); f = open('huge', 'w'); f.truncate(1 << 31); f.close()")
        rows = (
            ("f", closed.at("f"), "path_invalid", "none of the directories"),
            ("f", "/etc/cloister-test", "path_invalid", "none of the directories"),
            ("f", "link/f", "path_invalid", "symbolic link"),
            ("f", "../f", "path_invalid", "names no file"),
            ("f", "none/f", "file_not_found", "there is no directory none"),
            ("gone", "f", "file_not_found", "gone"),
            ("/workspace", "f", "path_invalid", "directory"),
            ("huge", "f", "too_large", "1073741824"),
        )
        for path, local, code, words in rows:
            error = server.call_failing("save_file", path=path, local_path=local)["error"]
            equal(error["code"], code, f"{path} {local} {error}")
            equal("--local-files" in error["hint"], path == "f", f"{path} {local} {error}")
            contains(error["message"], words)
        equal(os.listdir(place.path), ["link"])
        equal(os.listdir(closed.path), [])
    with started("--local-files", closed.path) as server:
        names = [tool["name"] for tool in server.request("tools/list")["tools"]]
        assert "save_file" not in names and "upload_file" in names, names
    contains(refusal("--local-files", "data:rw"), "--local-files")
    contains(refusal("--local-files", "/:rw"), "not /")


@suite.case("a file that finds no room on the host leaves nothing, and the answer says so", when=AS_ROOT, engines=NONE)
def no_room():
    place = Place()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place.path], check=False).returncode != 0:
        raise Skip("no file system can be mounted here")
    try:
        with started("--local-files", f"{place.path}:rw") as server:
            server.stdout("f = open('large', 'w'); f.truncate(3 << 20); f.close()")
            error = server.call_failing("save_file", path="large", local_path="large")["error"]
            equal(error["code"], "too_large")
            contains(error["message"], "No space left")
            contains(error["hint"], "room")
            equal(os.listdir(place.path), [])
    finally:
        subprocess.run(["umount", place.path], check=True)


@suite.case("a save that is cancelled leaves nothing", engines=NONE)
def cancelled():
    place = Place()
    with started("--local-files", f"{place.path}:rw") as server:
        server.stdout("f = open('large', 'w'); f.truncate(1 << 30); f.close()")
        saving = server.start_call("save_file", path="large", local_path="large")
        poll("it is under way", lambda: os.listdir(place.path))
        server.notify("notifications/cancelled", {"requestId": saving.ident})
        poll("nothing is left", lambda: not os.listdir(place.path))
        assert not saving.answered()
        equal(server.request("ping"), {})


@suite.case("what cannot be shared is refused at the start, with what to do", engines=NONE)
def refused():
    top = mcp.temporary_directory()
    for name in ("a", "b", "a/in"):
        os.mkdir(os.path.join(top, name))
    with open(os.path.join(top, "file"), "w", encoding="utf-8"):
        pass
    os.symlink("a", os.path.join(top, "link"))
    rows = (
        (("--share", "/"), "all of this host"),
        (("--share", f"{top}/..//../"), "cannot be a name"),
        (("--share", f"{top}/file"), "not a directory"),
        (("--share", f"{top}/link"), "is a symbolic link: name the directory"),
        (("--share", f"{top}/gone"), "No such file"),
        (("--share", "a"), "absolute path"),
        (("--share", f"{top}/a=x/y"), "No such file"),
        (("--share", f"{top}/a=.x"), "cannot be a name"),
        (("--share", f"{top}/a:rw:ro"), "both ro and rw"),
        (("--share", f"{top}/a", "--share", f"{top}/b=a"), "two directories have the name a"),
        (("--share", f"{top}/a:rw", "--share", f"{top}/a/in"), "could replace it"),
    )
    for options, words in rows:
        text = refusal(*options)
        contains(text, "--share")
        contains(text, words)


@suite.case("a home with keys in it is shared with a warning", engines=NONE)
def warned():
    place = Place()
    os.mkdir(place.at(".ssh"))
    server = started("--share", "~=home", env={"HOME": place.path})
    server.request("ping")
    server.close()
    contains(server.log_tail(), ".ssh is in")
    server = started("--share", "~=home", "--log-level", "error", env={"HOME": place.path})
    server.request("ping")
    server.close()
    assert ".ssh" not in server.log_tail(), server.log_tail()


@suite.case("an engine of another host is told from this one", when=not ON_OCI, engines=ONE)
def elsewhere():
    place = Place()
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    text = refusal("--backend", "docker", "--engine", address, "--share", place.path)
    contains(text, "--share")
    contains(text, "another host")
    listener.close()


suite.run()
