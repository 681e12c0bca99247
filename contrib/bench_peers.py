"""The same steps through this server and through others, by one client, so that anybody repeats the comparison.

A peer is a file DIR/*.json; contrib/peers has one to copy, and contrib/docs/benchmarks.md says what its fields mean.
The steps take turns over all peers, so a machine that becomes slower meanwhile affects all of them. Where a peer has no
tool that creates, runs and closes in one call, its three are added up.
"""

import glob
import json
import os
import shutil
import subprocess
import sys

STEPS = ("create", "run", "close")
NEEDED = ("name", "command", "code", "expects", *STEPS)
FIGURES = {"create": "creation", "first": "first code", "warm": "warm call", "whole": "create, run and close"}
WARM_UP = 3
PYTHON = {"language": "python", "code": "print(40404+1)"}
NODE = {"language": "javascript", "code": "console.log(40404+1)"}


def own(program, name, environment, how, image=""):
    """This server as a peer."""
    language = {"language": how["language"], "code": "{code}"}
    return {
        "name": name,
        "command": program,
        "arguments": ["--runtime-dir", "{work}", "--log-level", "error"],
        "environment": {"CLOISTER_RESULTS": "structured", "CLOISTER_POOL": "0", **environment, **({"CLOISTER_IMAGE": image} if image else {})},
        "code": how["code"],
        "expects": "40405",
        "create": {"tool": "create_sandbox", "arguments": {}, "id": "sandbox_id"},
        "run": {"tool": "execute_code", "arguments": {"sandbox_id": "{id}", **language}},
        "close": {"tool": "close_sandbox", "arguments": {"sandbox_id": "{id}"}},
        "whole": {"tool": "create_run_close", "arguments": language},
    }


def described(directory):
    """The peers of a directory, in the order of their files' names."""
    found = []
    for path in sorted(glob.glob(os.path.join(directory, "*.json"))):
        try:
            with open(path, encoding="utf-8") as file:
                peer = json.load(file)
        except ValueError as reason:
            sys.exit(f"{path} is no JSON: {reason}")
        if not isinstance(peer, dict):
            sys.exit(f"{path} is no object: contrib/docs/benchmarks.md says what a peer looks like")
        missing = [name for name in NEEDED if name not in peer]
        missing += [f"{step}.tool" for step in STEPS if step in peer and "tool" not in peer[step]]
        if missing:
            sys.exit(f"{path} has no {', '.join(missing)}: contrib/docs/benchmarks.md says what a peer needs")
        found.append(peer)
    return found


def filled(value, words):
    """A template with {words} filled in, in all of its texts."""
    if isinstance(value, dict):
        return {name: filled(part, words) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, words) for part in value]
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace("{" + word + "}", text)
    return value


class Peer:
    """A running server, and what its tools are called."""

    def __init__(self, about, words, environment, lines):
        self.about = about
        self.words = {**words, "code": about["code"], "image": about.get("image", "")}
        self.command = [filled(about["command"], self.words), *filled(about.get("arguments", []), self.words)]
        env = {**os.environ, **environment, **filled(about.get("environment", {}), self.words)}
        try:
            self.lines = lines(self.command, env=env, cwd=filled(about.get("directory"), self.words))
        except OSError as reason:
            sys.exit(f"{about['name']} cannot be started: {reason}")
        self.number = 0
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}})
        self.lines.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method, params):
        self.number += 1
        asked = json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode() + b"\n"
        while True:
            try:
                self.lines.write(asked)
                asked = b""
                answer = json.loads(self.lines.read())
            except (BrokenPipeError, SystemExit):
                sys.exit(f"{self.about['name']} has ended during {method}: run its command by hand to see why: {' '.join(self.command)}")
            if answer.get("id") == self.number and "method" not in answer:
                break  # anything else is a notification
        if "error" in answer or answer["result"].get("isError"):
            sys.exit(f"{self.about['name']}: {method} failed: {json.dumps(answer)[:500]}")
        return answer["result"]

    def step(self, name, ident=""):
        words = {**self.words, "id": ident}
        return self.ask("tools/call", {"name": self.about[name]["tool"], "arguments": filled(self.about[name].get("arguments", {}), words)})

    def create(self):
        """The id of a new sandbox: a field of the structured result, or the first text."""
        result, field = self.step("create"), self.about["create"].get("id", "text")
        ident = result["content"][0]["text"].strip() if field == "text" else result["structuredContent"][field]
        return ident

    def run(self, ident):
        self.check("run", self.step("run", ident))

    def whole(self):
        self.check("whole", self.step("whole"))

    def end(self):
        """Closes its pipe; not every server ends with that."""
        try:
            self.lines.close()
        except subprocess.TimeoutExpired:
            self.lines.child.kill()
            self.lines.child.wait()

    def check(self, name, result):
        texts = [part.get("text", "") for part in result.get("content", [])] + [json.dumps(result.get("structuredContent", ""))]
        if not any(self.about["expects"] in text for text in texts):
            sys.exit(f"{self.about['name']}: {name} did not answer {self.about['expects']!r}: {json.dumps(result)[:500]}")


def bench_peers(peers, words, environment, options, tools):
    """`peers` are descriptions; the first is what others are compared with."""
    running = [Peer(about, words(number), environment, tools["Lines"]) for number, about in enumerate(peers)]
    spent = [{name: [] for name in FIGURES} for _ in running]
    timed = tools["timed"]
    for number in range(1 + options.creates):
        for peer, figures in zip(running, spent):
            ids = []
            create = timed(lambda p=peer, i=ids: i.append(p.create()))
            first = timed(lambda p=peer, i=ids: p.run(i[0]))
            close = timed(lambda p=peer, i=ids: p.step("close", i[0]))
            whole = timed(peer.whole) if "whole" in peer.about else create + first + close
            if number > 0:  # the first of a server may pay for more
                for name, took in (("create", create), ("first", first), ("whole", whole)):
                    figures[name].append(took)
    ids = [peer.create() for peer in running]
    for number in range(WARM_UP + options.calls):
        for peer, figures, ident in zip(running, spent, ids):
            took = timed(lambda p=peer, i=ident: p.run(i))
            if number >= WARM_UP:
                figures["warm"].append(took)
    for peer, ident in zip(running, ids):
        peer.step("close", ident)
        peer.end()
    summary = tools["summary"]
    rows = [{"name": peer.about["name"], "code": peer.about["code"], **{name: summary(values) for name, values in figures.items()}} for peer, figures in zip(running, spent)]
    for row in rows:
        row["times"] = {name: row[name]["p50"] / rows[0][name]["p50"] for name in FIGURES}
    return {"calls": options.calls, "creates": options.creates, "peers": rows}


def has_node():
    """Whether sandboxes of this host have it."""
    return shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is not None


def compare(options, work, engine, tools):
    """Starts an engine if a peer wants an image and there is none yet, and measures this server beside all peers."""
    found = described(options.peers)
    images = {peer["image"]: peer.get("image_tar", "") for peer in found if peer.get("image")}
    started = None
    if images and not engine:
        from bench_engine import EngineSide  # this import needs what the tests need

        engine = started = EngineSide(options.image)
    try:
        environment = {"DOCKER_HOST": engine.host} if engine else {}
        for image, tar in images.items():
            engine.offer(image, os.path.join(options.peers, tar) if tar else "")
        docker = {"CLOISTER_BACKEND": "docker", **environment}
        ours = [own(options.program, f"cloister, docker, {image}", docker, NODE, image) for image in images]
        if engine and not images:
            ours.append(own(options.program, "cloister, docker", engine.environment, PYTHON))
        ours.append(own(options.program, "cloister, oci", {"CLOISTER_BACKEND": "oci"}, NODE if has_node() else PYTHON))

        def words(number):
            place = os.path.join(work, f"peer{number}")
            os.makedirs(place)
            return {"dir": os.path.abspath(options.peers), "work": place}

        return bench_peers([*ours, *found], words, environment, options, tools)
    finally:
        if started:
            started.close()


def print_peers(report):
    print(f"| ms, p50 of {report['creates']} and {report['calls']} (times the first row) | code | " + " | ".join(FIGURES.values()) + " |")
    print("|---" * (2 + len(FIGURES)) + "|")
    for peer in report["peers"]:
        cells = [f"{peer[name]['p50']:.3g} ({peer['times'][name]:.2g})" for name in FIGURES]
        print(f"| {peer['name']} | `{peer['code']}` | " + " | ".join(cells) + " |")
