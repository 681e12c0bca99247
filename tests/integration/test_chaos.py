"""Parts are killed at random for minutes, and nothing is lost: contrib/chaos as a test.

The seed is new each time and is printed with each violation; contrib/chaos --seed makes the same plan again.

CLOISTER_CHAOS_MINUTES  duration (1)
"""

import os
import subprocess
import sys

from common import HERE, Suite, needs_runtime, skip_all

CHAOS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "contrib", "chaos")
MINUTES = os.environ.get("CLOISTER_CHAOS_MINUTES") or "1"
END_SECONDS = 300  # for start and end on a busy machine

needs_runtime()
if os.geteuid() != 0:
    skip_all("what happens in a sandbox is looked at from outside, which takes root")
suite = Suite()


@suite.case(f"{MINUTES} minutes of random kills: each call answered once, each run once, nothing left")
def chaos():
    done = subprocess.run(
        [sys.executable, CHAOS, "--minutes", MINUTES, "--backend", os.environ["CLOISTER_BACKEND"], "--program", os.environ["CLOISTER"]],
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
