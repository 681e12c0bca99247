#!/usr/bin/env python3
"""Uses the container image, and the archive of binaries, with a Docker Engine that is started for it (tests/integration/lib/engine.py).

  try_engine.py IMAGE.tar NAME:TAG CLOISTER SANDBOX.tar

The server in the container gets the engine's socket and makes its sandboxes beside itself. Behind each use nothing may be left."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests")
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(TESTS, "integration", "lib"), os.path.join(TESTS, "lib")]

# pylint: disable=wrong-import-position
import engine
from tap import poll

USE = os.path.join(HERE, "use.py")
AGENT_VOLUMES = ("cloister-agent",)  # stay for the next server


def step(text):
    print(f"==> {text}", flush=True)


def nothing_left(running):
    poll("nothing is left in the engine", lambda: not running.left(AGENT_VOLUMES), found=lambda: running.left(AGENT_VOLUMES))


def docker(running, *arguments, **options):
    return subprocess.run(["docker", "--host", running.host, *arguments], check=True, **options)


def main():
    archive, tag, cloister, sandbox = sys.argv[1:5]
    running = engine.Engine.create("docker")
    try:
        step("docker load")
        docker(running, "load", "--input", archive)
        running.load(engine.IMAGE, sandbox)
        inside = ["docker", "--host", running.host, "run", "-i", "--rm", "--network", "none", "-v", f"{running.state['socket']}:/var/run/docker.sock"]
        inside += ["-e", f"CLOISTER_IMAGE={engine.IMAGE}", "-e", "CLOISTER_LOG_LEVEL=warn", tag]
        step("the version")
        subprocess.run([*inside, "--version"], check=True)
        step("the demonstration")
        subprocess.run([*inside, "demo"], check=True)
        nothing_left(running)
        step("a client that closes its end")
        subprocess.run([USE, "stdio", *inside], check=True)
        nothing_left(running)
        step("docker stop while a sandbox is there")
        stopped(running, inside)
        nothing_left(running)
        step("the archive of binaries on the same engine")
        environment = {**os.environ, "DOCKER_HOST": running.host, "CLOISTER_BACKEND": "docker", "CLOISTER_IMAGE": engine.IMAGE, "CLOISTER_LOG_LEVEL": "warn"}
        subprocess.run([USE, "stdio", cloister], check=True, env=environment)
        nothing_left(running)
    finally:
        running.destroy()
    step("the image and the archive work with Docker Engine")


def stopped(running, inside):
    """Ends the server in the container by the engine, in the middle of a call."""
    command = [*inside[:3], "run", "--name", "served", *inside[4:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        hello = '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"try","version":"1"}}'
        client.stdin.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + hello + "}\n")
        client.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        client.stdin.write('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"import time; time.sleep(1000)"}}}\n')
        client.stdin.flush()
        poll("a sandbox beside the server", lambda: len(running.containers()) > 1)
        docker(running, "stop", "--time", "60", "served", stdout=subprocess.DEVNULL)
        client.stdin.close()
        client.wait()


main()
