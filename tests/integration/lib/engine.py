"""A container engine that belongs to the tests: dockerd, or Podman's service, in directories of its own.

It has its own socket, storage, containerd and control groups, so it disturbs neither an engine that the
machine already runs nor its network, and everything that it may leave is found by the name of its directory.
Either it has no bridge and no packet filter rules, or it is in a network namespace of its own. Several
processes may use the same engine: the driver starts it and writes a file about it; a test file attaches to it
and may stop, kill and restart it. Both engines need root.

This file is also the program of two helper processes. A keeper is the parent of the engine and reaps the
processes that the engine orphans: on a machine whose first process reaps slowly, a dead containerd would stay
in the process table, and dockerd would wait for it. A guard ends the engine if the process that created it
dies first.
"""

import ctypes
import glob
import http.client
import io
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

VARIABLE = "CLOISTER_TEST_ENGINE"  # names the file about the engine
IMAGE = "localhost/cloister-test:python"  # with bash and Python, as make-test-image makes it
PLAIN = "localhost/cloister-test:plain"  # without Python; only loaded by files that need it
LANGUAGES = "localhost/cloister-test:languages"  # with libraries and other languages; only loaded on request
FOREIGN = "localhost/cloister-test:foreign"  # labelled for another architecture; as the one before
BRIDGE, CONTAINERS = "10.213.0.1/24", "10.213.0.0/24"  # in the engine's own network
UPLINK, GATEWAY = "10.214.0.1", "10.214.0.2"  # from there to the network of a test, lib/net.py
NAME_SERVER = "10.99.0.2"  # name server of that network
START_SECONDS = 40.0
STOP_SECONDS = 20.0
PODMAN_TASKS = 32768  # Podman lowers its own limit to this


class Unusable(Exception):
    """The reason why there can be no engine here."""


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, seconds):
        super().__init__("localhost", timeout=seconds)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer(Exception):
    """An error response of the engine."""

    def __init__(self, what, status, body):
        super().__init__(f"{what}: {status} {body[:400].decode('utf-8', 'replace')}")
        self.status = status
        # Podman has several texts for a container that has gone meanwhile
        self.gone = status == 404 or b"no such container" in body


class Api:
    """Docker's HTTP API on a unix socket, of our engine or of any other."""

    def __init__(self, path):
        self.path = path

    def send(self, method, path, body=None, seconds=60.0, **query):
        """Status and body; `body` is JSON, or an open file or bytes of a tar."""
        if query:
            text = {k: v if isinstance(v, str) else json.dumps(v) for k, v in query.items()}
            path += "?" + urllib.parse.urlencode(text)
        headers = {}
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json"}
        elif body is not None:
            headers = {"Content-Type": "application/x-tar"}
        headers["X-Registry-Auth"] = "e30="  # {}: a push without the header is refused
        connection = Connection(self.path, seconds)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, method, path, body=None, seconds=60.0, **query):
        """The JSON of a successful response; None if it is empty."""
        status, data = self.send(method, path, body, seconds, **query)
        if status >= 400:
            raise Answer(f"{method} {path}", status, data)
        return json.loads(data) if data.strip() else None

    def answers(self):
        try:
            return self.send("GET", "/_ping", seconds=5.0)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def pause(self, container, seconds=60.0):
        """Pauses a container. On a busy machine the runtime often cannot freeze it, and is asked again."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.ask("POST", f"/containers/{container}/pause")
                return
            except Answer as refusal:
                if self.ask("GET", f"/containers/{container}/json")["State"]["Paused"]:
                    return
                if refusal.status < 500 or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    # ---- images ----

    def load(self, reference, layer, architecture=None):
        """Loads an image of one layer, from the path of a tar or its bytes; the architecture is only a label."""
        if architecture is None:
            with open(layer, "rb") as tar:  # Podman takes the tag from `repo` only
                status, data = self.send("POST", "/images/create", tar, 300.0, fromSrc="-", repo=reference)
            if status >= 400 or b'"error"' in data:
                raise Answer(f"import of {reference}", status, data)
            return
        status, data = self.send("POST", "/images/load", image_archive(reference, layer, architecture), 300.0)
        if status >= 400 or b'"error"' in data:
            raise Answer("load of an image", status, data)

    def derive(self, base, reference, *changes):
        """Makes an image with other settings and the same files; `changes` are lines of a Dockerfile."""
        made = self.ask("POST", "/containers/create", {"Image": base, "Cmd": ["true"]})["Id"]
        try:
            repository, tag = reference.rsplit(":", 1)
            query = urllib.parse.urlencode(
                [("container", made), ("repo", repository), ("tag", tag), *(("changes", line) for line in changes)]
            )
            self.ask("POST", "/commit?" + query, {})
        finally:
            self.ask("DELETE", f"/containers/{made}", force="1", v="1")

    # ---- containers ----

    def containers(self, text=""):
        """The inspections of all containers, running or not, whose name or labels contain `text`."""
        found = []
        for listed in self.ask("GET", "/containers/json", all="1"):
            words = [*(listed.get("Names") or []), *(listed.get("Labels") or {}).values()]
            if any(text in word for word in words):
                try:
                    found.append(self.ask("GET", f"/containers/{listed['Id']}/json"))
                except Answer as problem:
                    if not problem.gone:
                        raise
        return found

    def volumes(self, text=""):
        """The volumes whose name or labels contain `text`."""
        listed = (self.ask("GET", "/volumes") or {}).get("Volumes") or []
        return [v for v in listed if any(text in word for word in [v["Name"], *(v.get("Labels") or {}).values()])]

    def networks(self):
        return [n["Name"] for n in self.ask("GET", "/networks")]

    def run(self, image, *command, seconds=60.0):
        """Runs a container until it ends by itself, with minimal options; returns its exit status."""
        body = {
            "Image": image,
            "Entrypoint": [command[0]],
            "Cmd": list(command[1:]),
            "HostConfig": {"NetworkMode": "none", "Memory": 256 << 20, "PidsLimit": 64},
        }
        made = self.ask("POST", "/containers/create", body, seconds)["Id"]
        try:
            self.ask("POST", f"/containers/{made}/start", seconds=seconds)
            return self.ask("POST", f"/containers/{made}/wait", seconds=seconds)["StatusCode"]
        finally:
            self.ask("DELETE", f"/containers/{made}", seconds=seconds, force="1", v="1")


def image_archive(reference, layer, architecture):
    """The output of `docker save` for an image of one layer."""
    from hashlib import sha256

    digest = sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
            "history": [{"created": "2024-01-01T00:00:00Z", "created_by": "test"}],
        }
    ).encode()
    name = sha256(config).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": [reference], "Layers": [digest + "/layer.tar"]}]
    files = {name: config, digest + "/layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    return tar_of(files)


def tar_of(files):
    """A tar in memory from {path: bytes}."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            member.mode = 0o755
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


class Engine(Api):
    """One engine in one directory. `state` is everything that other processes need to use it, and is saved as
    a file."""

    def __init__(self, state):
        super().__init__(state["socket"])
        self.state = state
        self.place = state["place"]
        self.host = "unix://" + state["socket"]
        self.keepers = []  # keepers that this process has started
        self.guard = None  # only in the process that created the engine

    # ---- beginning ----

    @classmethod
    def create(cls, kind, network=False):
        """Starts a new engine of kind "docker" or "podman", on request with a network of its own; raises
        Unusable with the reason if that is impossible."""
        if os.geteuid() != 0:
            raise Unusable(f"starting {kind} for tests needs root")
        program = {"docker": "dockerd", "podman": "podman"}[kind]
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
        found = shutil.which(program, path=path)
        if found is None:
            raise Unusable(f"there is no {program} here")
        place = tempfile.mkdtemp(prefix="cloeng", dir="/tmp")  # short, because sockets are below it
        state = {
            "kind": kind,
            "program": found,
            "place": place,
            "socket": f"{place}/s",
            "cgroup": os.path.basename(place),
            "storage": "",
            "live_restore": False,
            "network": "",
            "not_before": [path for path in ("/var/lib/cni",) if not os.path.exists(path)],
            "cgroups_before": sorted(parent_cgroups()),
            "pid": 0,
            "keepers": [],
        }
        engine = cls(state)
        if network:
            engine.make_network()
        reasons = []
        for storage in {"docker": ("overlay2", "vfs"), "podman": ("overlay", "vfs")}[kind]:
            state["storage"] = storage
            try:
                engine.start()
                engine.guard = subprocess.Popen(
                    [sys.executable, __file__, "guard", place], stdin=subprocess.PIPE, start_new_session=True
                )
                return engine
            except Unusable as problem:
                reasons.append(f"{storage}: {problem}")
                engine.kill()
        engine.destroy()
        raise Unusable("; ".join(reasons))

    @classmethod
    def attached(cls):
        """The engine that the driver started; None without one."""
        path = os.environ.get(VARIABLE)
        if not path:
            return None
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    def save(self):
        """Saves the state; returns the path, the value of VARIABLE."""
        path = f"{self.place}/state.json"
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.state, file)
        os.rename(path + ".new", path)
        return path

    def reload(self):
        """Reads the state again after another process has changed the engine."""
        with open(f"{self.place}/state.json", encoding="utf-8") as file:
            self.state = json.load(file)

    def docker_command(self):
        with open(f"{self.place}/daemon.json", "w", encoding="utf-8") as file:
            file.write("{}\n")  # overrides the configuration of the machine's own engine
        return [
            self.state["program"],
            *("--config-file", f"{self.place}/daemon.json"),
            *("--data-root", f"{self.place}/data"),
            *("--exec-root", f"{self.place}/exec"),
            *("--pidfile", f"{self.place}/pid"),
            *("--host", self.host),
            *("--storage-driver", self.state["storage"]),
            *(["--bip", BRIDGE, "--dns", NAME_SERVER] if self.state["network"] else ["--bridge", "none"]),
            *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
            *("--userland-proxy=false", "--shutdown-timeout", "2"),
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/" + self.state["cgroup"]),
            *(["--live-restore"] if self.state["live_restore"] else []),
            *("--log-level", "warn"),
        ]

    def podman_command(self):
        # Podman's default may exceed the limit of a container in which it runs
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        tasks = min(resource.getrlimit(resource.RLIMIT_NPROC)[1], PODMAN_TASKS)
        ulimits = f'"nofile={files}:{files}", "nproc={tasks}:{tasks}"'
        network = f'[network]\nnetwork_backend = "cni"\nnetwork_config_dir = "{self.place}/cni"\n'
        files = {
            # crun refuses hosts with control groups in hybrid mode; file locks are private, while those in
            # shared memory would be shared with the machine's own Podman
            "containers.conf": '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
            f'lock_type = "file"\n[containers]\nlog_driver = "k8s-file"\ndefault_ulimits = [{ulimits}]\n'
            + (f'dns_servers = ["{NAME_SERVER}"]\n{network}' if self.state["network"] else ""),
            "storage.conf": f'[storage]\ndriver = "{self.state["storage"]}"\n'
            f'graphroot = "{self.place}/data"\nrunroot = "{self.place}/run"\n',
            "registries.conf": "unqualified-search-registries = []\n",
        }
        if self.state["network"]:
            os.makedirs(f"{self.place}/cni", exist_ok=True)
            files["cni/podman.conflist"] = json.dumps(self.podman_bridge())
        for name, text in files.items():
            with open(f"{self.place}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        return [
            self.state["program"],
            *("--root", f"{self.place}/data", "--runroot", f"{self.place}/run", "--tmpdir", f"{self.place}/tmp"),
            *("--storage-driver", self.state["storage"], "--runtime", shutil.which("runc") or "/usr/sbin/runc"),
            *("--cgroup-manager", "cgroupfs", "--events-backend", "none", "--log-level", "warn"),
            *("system", "service", "--time=0", self.host),
        ]

    def make_network(self):
        """Makes a network namespace for the engine, kept by a file. Packets of containers leave through it
        without address translation, so the other side needs a route back."""
        path = f"{self.place}/net"
        with open(path, "wb"):
            pass
        done = subprocess.run(
            ["unshare", f"--net={path}", "sh", "-c", "ip link set lo up && echo 1 >/proc/sys/net/ipv4/ip_forward"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.save()
            self.destroy()
            raise Unusable(f"no network namespace: {done.stderr.strip()}")
        self.state["network"] = path

    def podman_bridge(self):
        """Podman's default network, with its files in our directory."""
        ipam = {"type": "host-local", "dataDir": f"{self.place}/addresses", "routes": [{"dst": "0.0.0.0/0"}]}
        ipam["ranges"] = [[{"subnet": CONTAINERS, "gateway": BRIDGE.split("/", maxsplit=1)[0]}]]
        bridge = {"type": "bridge", "bridge": "cni-podman0", "isGateway": True, "ipam": ipam}
        return {"cniVersion": "0.4.0", "name": "podman", "plugins": [bridge]}

    def connect(self, net):
        """Connects the engine's network with the outside of a test's network by a veth pair, until the latter ends."""
        path = f"/proc/{os.getpid()}/fd/{net.outside}"
        outside = ("nsenter", f"--net={path}")
        # the previous one ends with the namespace of the previous file, which the kernel removes
        # asynchronously
        subprocess.run(self.in_network("ip", "link", "del", "uplink"), capture_output=True, check=False)
        for command in (
            self.in_network("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "engine", "netns", path),
            self.in_network("ip", "addr", "add", f"{UPLINK}/24", "dev", "uplink"),
            self.in_network("ip", "link", "set", "uplink", "up"),
            self.in_network("ip", "route", "add", "default", "via", GATEWAY),
            [*outside, "ip", "addr", "add", f"{GATEWAY}/24", "dev", "engine"],
            [*outside, "ip", "link", "set", "engine", "up"],
            # so that answers to datagrams come from the address that was asked
            [*outside, "ip", "route", "add", CONTAINERS, "via", UPLINK, "src", NAME_SERVER],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")

    def in_network(self, *command):
        """Prefixes a command so that it runs in the engine's network."""
        return ["nsenter", f"--net={self.state['network']}", *command] if self.state["network"] else list(command)

    def start(self):
        """Starts the engine and waits until it answers."""
        command = self.docker_command() if self.state["kind"] == "docker" else self.podman_command()
        command = self.in_network(*command)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DOCKER_", "CONTAINER_"))}
        environment.update(
            CONTAINERS_CONF=f"{self.place}/containers.conf",
            CONTAINERS_STORAGE_CONF=f"{self.place}/storage.conf",
            CONTAINERS_REGISTRIES_CONF=f"{self.place}/registries.conf",
        )
        with open(f"{self.place}/log", "ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, __file__, "keep", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.place,  # conmon leaves a file where it is started
                env=environment,
                start_new_session=True,
            )
        self.state["pid"] = int(keeper.stdout.readline())
        self.state["keepers"].append(keeper.pid)
        keeper.stdout.close()
        self.keepers.append(keeper)
        self.save()
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if not self.running():
                raise Unusable(f"{self.state['kind']} ended at once: {self.last_words()}")
            if time.monotonic() > deadline:
                raise Unusable(f"no answer within {START_SECONDS:.0f} s: {self.last_words()}")
            time.sleep(0.02)

    def last_words(self):
        with open(f"{self.place}/log", encoding="utf-8", errors="replace") as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
        return " ".join(lines[-1:])[-400:]

    def log_tail(self, lines=40):
        with open(f"{self.place}/log", encoding="utf-8", errors="replace") as file:
            return "\n".join(file.read().splitlines()[-lines:])

    # ---- ending ----

    def signal(self, number):
        if self.running():
            send_signal(self.state["pid"], number)

    def running(self):
        return bool(self.state["pid"]) and alive(self.state["pid"])

    def wait_gone(self):
        """Waits until the engine and its containerd have ended."""
        deadline = time.monotonic() + STOP_SECONDS
        while self.running() or [line for _, line in self.helpers() if "shim" not in line and "conmon" not in line]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        self.state["pid"] = 0
        self.save()
        return True

    def stop(self):
        """Ends the engine as a service manager does; containers end with it, unless they are to be restored."""
        self.signal(signal.SIGTERM)
        if not self.wait_gone():
            self.kill()
            raise AssertionError(f"the engine did not end within {STOP_SECONDS} s:\n{self.log_tail()}")

    def kill(self):
        """Sends SIGKILL to the engine only; its containers go on."""
        self.signal(signal.SIGKILL)
        self.wait_gone()

    def restart(self, live_restore=None):
        if live_restore is not None:
            self.state["live_restore"] = live_restore
        self.stop()
        self.start()

    # ---- processes and contents ----

    def helpers(self, waiting=False):
        """Pids of the engine's other processes: containerd, shims, monitors; with `waiting` also those that
        only wait."""
        own = {os.getpid(), self.state["pid"]}
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if is_waiting_monitor(line) and not waiting:
                continue
            program = os.path.basename(line.split(" ", 1)[0])
            if self.place + "/" in line and program.startswith(("containerd", "conmon", "runc", "dockerd", "podman")):
                if int(entry) not in own and alive(int(entry)):
                    found.append((int(entry), line.strip()))
        return found

    def mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            points = [line.split()[4] for line in file]
        return sorted((p for p in points if p.startswith(self.place + "/")), key=len, reverse=True)

    def cgroups(self):
        """Control groups of its containers, deepest first."""
        names = [self.state["cgroup"]]
        if self.state["kind"] == "podman":
            names = [f"libpod-{c}" for c in self.known_containers()]
        found = []
        for top, directories, _ in os.walk("/sys/fs/cgroup"):
            for name in directories:
                path = os.path.join(top, name)
                if name in names or any(f"/{n}/" in path for n in names):
                    found.append(path)
        return sorted(found, key=len, reverse=True)

    def known_containers(self):
        """Ids in Podman's own records, which can be read without its service."""
        for storage in ("overlay", "vfs"):
            try:
                with open(f"{self.place}/data/{storage}-containers/containers.json", encoding="utf-8") as file:
                    return [c["id"] for c in json.load(file)]
            except (OSError, ValueError):
                continue
        return []

    def left(self, volumes=()):
        """Remains of a test in a running engine; `volumes`: prefixes of names that may stay."""
        found = [f"container {c['Name']} ({c['State']['Status']})" for c in self.containers()]
        found += [f"volume {v['Name']}" for v in self.volumes() if not v["Name"].startswith(tuple(volumes))]
        usual = {"none", "host", "bridge", "podman"}
        found += [f"network {n}" for n in self.networks() if n not in usual]
        found += [f"process {pid} {line}" for pid, line in self.helpers() if "shim" in line or "conmon" in line]
        busy = ("/merged", "/shm", "/rootfs")
        found += [f"mount {p}" for p in self.mounts() if p.endswith(busy)]
        return found

    def remove_contents(self):
        """Removes all containers and volumes."""
        for container in self.containers():
            self.send("DELETE", f"/containers/{container['Id']}", force="1", v="1")
        for volume in self.volumes():
            self.send("DELETE", f"/volumes/{volume['Name']}", force="1")

    def destroy(self):
        """Ends the engine and everything in it. Returns what had to be ended or removed by force."""
        self.reload()
        forced = []
        if self.running():
            try:
                self.remove_contents()
            except (OSError, Answer, http.client.HTTPException) as problem:
                forced.append(f"contents: {problem}")
        cgroups = self.cgroups()
        self.signal(signal.SIGTERM)
        if not self.wait_gone():
            forced.append("the engine itself")
            self.kill()
        deadline = time.monotonic() + 5
        while self.helpers() and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid, line in [*self.helpers(), *members(cgroups)]:
            forced.append(f"process {pid} {line}")
            kill(pid)
        for pid, _ in self.helpers(waiting=True):
            kill(pid)
        while [p for p in self.state["keepers"] if alive(p)] and time.monotonic() < deadline + 5:
            time.sleep(0.01)
        forced += [f"keeper {p}" for p in self.state["keepers"] if alive(p)]
        for keeper in self.keepers:
            keeper.poll()
        for point in self.mounts():
            if point.endswith(("/merged", "/shm", "/rootfs")):
                forced.append(f"mount {point}")
            subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
        for path in cgroups:
            try:
                os.rmdir(path)
            except FileNotFoundError:
                pass
            except OSError as problem:
                forced.append(f"{path}: {problem.strerror}")
        for path in sorted(parent_cgroups() - set(self.state["cgroups_before"]), key=len, reverse=True):
            try:
                os.rmdir(path)
            except OSError:
                pass  # another Podman has started to use it
        for path in self.state["not_before"]:
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.place, ignore_errors=True)
        if os.path.exists(self.place):
            forced.append(self.place)
        if self.guard is not None:
            self.guard.communicate(b"ended")
        return forced


def parent_cgroups():
    """The control groups below which Podman puts those of its containers."""
    found = set()
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        found |= {os.path.join(top, name) for name in directories if name == "libpod_parent" or top.endswith("/libpod_parent")}
    return found


def members(cgroups):
    """(pid, name) of the processes in our control groups."""
    found = {}
    for path in cgroups:
        try:
            with open(f"{path}/cgroup.procs", encoding="utf-8") as file:
                for pid in map(int, file.read().split()):
                    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
                        found[pid] = name.read().strip()
        except OSError:
            continue
    return list(found.items())


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_waiting_monitor(line):
    """Podman keeps the monitor of an exec for five minutes after its end, even without the container."""
    return "conmon " in line and "--exec-process-spec" in line


def alive(pid):
    """True if the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def send_signal(pid, number):
    """Sends a signal. One that stops a process takes effect when each of its threads has left the kernel, so that is waited for:
    until then it may still answer, or notice who has gone."""
    os.kill(pid, number)
    while number == signal.SIGSTOP and alive(pid) and any(state not in "TtZX" for state in states_of_threads(pid)):
        time.sleep(0.001)


def states_of_threads(pid):
    states = []
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
        except OSError:
            continue  # it has ended
    return states


def keep(command):
    """Runs an engine, prints its pid, and reaps all orphans until none is left."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)
    out = os.dup(1)
    os.dup2(2, 1)
    child = subprocess.Popen(command)
    os.write(out, b"%d\n" % child.pid)
    os.close(out)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def stand_guard(place):
    """Waits until the creator reports that everything has ended, or has died."""
    if not sys.stdin.buffer.read():
        with open(f"{place}/state.json", encoding="utf-8") as file:
            Engine(json.load(file)).destroy()


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        keep(sys.argv[2:])
    else:
        stand_guard(sys.argv[2])
