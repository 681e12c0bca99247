"""The surroundings of chaos and soak: a backend, a directory of their own, and the program under test.

The environment selects the backend of cloister and of the tests' modules, so a Place is made before those are
imported. For docker it contains an engine of the tests' kind: the one that with_engine.py has started, or one
that is started for this run and ended afterwards; for kubernetes and e2b a cluster or a cloud (chaos_remote.py).
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


HERE_BACKENDS = ["oci", "docker"]
REMOTE_BACKENDS = ["kubernetes", "e2b"]


def add_options(parser, backends):
    parser.add_argument("--backend", choices=backends, default="oci")
    parser.add_argument("--pool", default="0", help="sandboxes made in advance, as the server's option has it (0)")
    parser.add_argument("--program", default=os.path.join(os.path.dirname(HERE), "build", "supervisor", "cloister"))


class Place:
    def __init__(self, options):
        if not os.access(options.program, os.X_OK):
            sys.exit("no release build: run contrib/run first, or name a program with --program")
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # runs all `finally` blocks
        self.engine = self.remote = None
        os.environ["CLOISTER_BACKEND"] = options.backend
        os.environ["CLOISTER_POOL"] = options.pool
        if options.backend == "docker" and "CLOISTER_TEST_ENGINE" not in os.environ:
            os.environ.pop("DOCKER_HOST", None)
            from bench_engine import EngineSide  # this import needs what the tests need

            self.engine = EngineSide("")
            os.environ.update(self.engine.environment, CLOISTER_TEST_ENGINE=self.engine.own.save())
        if options.backend in REMOTE_BACKENDS:
            from chaos_remote import place_of

            self.remote = place_of(options.backend)
            os.environ.update(self.remote.environment)
        self.work = tempfile.mkdtemp(prefix="cloend", dir="/tmp")  # short, for the names of sockets
        os.chmod(self.work, 0o755)
        self.runtime_dir = os.path.join(self.work, "run")
        os.mkdir(self.runtime_dir)
        self.log_path = os.path.join(self.work, "log")

    def left_elsewhere(self):
        """Contents of the engine, the cluster or the cloud at the end that should not be there."""
        import mcp

        if self.remote:
            return self.remote.left(self.runtime_dir)
        return mcp.ENGINE.left(volumes=[AGENT_VOLUMES]) if mcp.ENGINE else []

    def left_seconds(self):
        """For how long it may be there after the end of the server."""
        import chaos_check

        return self.remote.left_seconds if self.remote else chaos_check.GRACE_SECONDS

    def traces_of(self, sandbox):
        """What is left of a sandbox, here or there."""
        import mcp

        return mcp.traces_of(sandbox) + (self.remote.traces_of(sandbox) if self.remote else [])

    def close(self, keep_log):
        if self.engine:
            self.engine.close()
        if self.remote:
            self.remote.close()
        if keep_log:
            print(f"the server's log: {self.log_path}")
            shutil.rmtree(self.runtime_dir, ignore_errors=True)
        else:
            shutil.rmtree(self.work, ignore_errors=True)
