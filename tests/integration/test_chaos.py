"""Parts are killed at random for minutes, and nothing is lost: contrib/chaos as a test, on the backend that CLOISTER_BACKEND names. For `e2b` and
`kubernetes` contrib/chaos starts a cloud or a cluster of the tests' own.

The seed is new each time and is printed with each violation; contrib/chaos --seed makes the same plan again.

CLOISTER_CHAOS_MINUTES  duration (1)
"""

import os
import subprocess
import sys

from common import ALL_CASES, HERE, Suite, needs_backend, needs_runtime, skip_all
from node_standin import missing
import e2b

CHAOS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "contrib", "chaos")
MINUTES = os.environ.get("CLOISTER_CHAOS_MINUTES") or "1"
END_SECONDS = 300  # for start and end on a busy machine
BACKEND = os.environ["CLOISTER_BACKEND"]
SANDBOXES = {"e2b": "4", "kubernetes": "4"}.get(BACKEND, "8")  # one process of Node carries all that is said in those
PACKAGES = {"e2b": e2b.MODULES, "kubernetes": ("ws",)}  # of npm, for what stands in for the service

if os.geteuid() != 0:
    skip_all("what happens in a sandbox is looked at from outside, which takes root")
if BACKEND in PACKAGES:
    if not ALL_CASES:
        skip_all("a part of contrib/test --full, as cases on each engine are")
    needs_backend(BACKEND)
    lacking = missing(*PACKAGES[BACKEND])
    if lacking:
        skip_all(f"nothing stands in for the service: {lacking}")
else:
    needs_runtime()
suite = Suite()


@suite.case(f"{MINUTES} minutes of random kills: each call answered once, each run once, nothing left")
def chaos():
    done = subprocess.run(
        [sys.executable, CHAOS, "--minutes", MINUTES, "--backend", BACKEND, "--sandboxes", SANDBOXES, "--program", os.environ["CLOISTER"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=float(MINUTES) * 60 + END_SECONDS,
        check=False,
    )
    for line in done.stdout.splitlines():
        print(f"# {line}")
    assert done.returncode == 0, f"contrib/chaos ended with {done.returncode}"


suite.run()
