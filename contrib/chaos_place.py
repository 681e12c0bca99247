"""The surroundings of chaos and soak: a backend, a directory of their own, and the program under test.

The environment selects the backend of cloister and of the tests' modules, so a Place is made before those are
imported. For docker it contains an engine of the tests' kind: the one that with_engine.py has started, or one
that is started for this run and ended afterwards.
"""

import os
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(os.path.dirname(HERE), "tests")
sys.path[:0] = [HERE, os.path.join(TESTS, "integration", "lib"), os.path.join(TESTS, "lib")]
AGENT_VOLUMES = "cloister-agent"  # may stay in an engine


def add_options(parser):
    parser.add_argument("--backend", choices=["oci", "docker"], default="oci")
    parser.add_argument("--pool", default="0", help="sandboxes made in advance, as the server's option has it (0)")
    parser.add_argument("--program", default=os.path.join(os.path.dirname(HERE), "build", "supervisor", "cloister"))


class Place:
    def __init__(self, options):
        if not os.access(options.program, os.X_OK):
            sys.exit("no release build: run contrib/run first, or name a program with --program")
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # runs all `finally` blocks
        self.engine = None
        os.environ["CLOISTER_BACKEND"] = options.backend
        os.environ["CLOISTER_POOL"] = options.pool
        if options.backend == "docker" and "CLOISTER_TEST_ENGINE" not in os.environ:
            os.environ.pop("DOCKER_HOST", None)
            from bench_engine import EngineSide  # this import needs what the tests need

            self.engine = EngineSide("")
            os.environ.update(self.engine.environment, CLOISTER_TEST_ENGINE=self.engine.own.save())
        self.work = tempfile.mkdtemp(prefix="cloend", dir="/tmp")  # short, for the names of sockets
        os.chmod(self.work, 0o755)
        self.runtime_dir = os.path.join(self.work, "run")
        os.mkdir(self.runtime_dir)
        self.log_path = os.path.join(self.work, "log")

    def left_in_engine(self):
        """Contents of the engine at the end that should not be there."""
        import mcp

        return mcp.ENGINE.left(volumes=[AGENT_VOLUMES]) if mcp.ENGINE else []

    def close(self, keep_log):
        if self.engine:
            self.engine.close()
        if keep_log:
            print(f"the server's log: {self.log_path}")
            shutil.rmtree(self.runtime_dir, ignore_errors=True)
        else:
            shutil.rmtree(self.work, ignore_errors=True)
