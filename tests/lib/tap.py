"""Test cases in Python, reported as TAP so that meson counts each of them.

A test file declares its cases with @suite.case("what a user would notice") and ends with
suite.run(). A case fails by raising; raising Skip skips it. Cases named on the command line (any
part of the name) are run alone.
"""

import os
import signal
import sys
import time
import traceback


SLOW_SECONDS = 5  # worth a remark


class Skip(Exception):
    """The reason why a case cannot be tried on this machine."""


def poll(what, probe, seconds=60.0, interval=0.02, found=None):
    """Waits until probe() is true and returns what it returned; fails after `seconds`, with what found() says then."""
    deadline = time.monotonic() + seconds
    while True:
        good = probe()
        if good:
            return good
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}" + (f"; found {short(found())}" if found else ""))
        time.sleep(interval)


def equal(got, wanted, what="value"):
    if got != wanted:
        raise AssertionError(f"{what}: got {short(got)}, wanted {short(wanted)}")


def contains(text, part, what="text"):
    if part not in text:
        raise AssertionError(f"{what}: {short(part)} is not in {short(text)}")


def short(value, limit=1500):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


class Suite:
    def __init__(self):
        self.cases = []
        self.finishers = []

    def case(self, name, when=True):
        """Registers a case; one for which `when` is false does not apply here, and does not count."""

        def register(function):
            if when:
                self.cases.append((name, function))
            return function

        return register

    def finish(self, function):
        """Registers what runs after the last case; it counts as a case of its own."""
        self.finishers.append((function.__doc__.strip(), function))
        return function

    def run(self):
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # with what is to be done at exit
        wanted = sys.argv[1:]
        cases = [c for c in self.cases if not wanted or any(w in c[0] for w in wanted)]
        cases += self.finishers
        print(f"1..{len(cases)}", flush=True)
        failed = 0
        for number, (name, function) in enumerate(cases, 1):
            begun = time.monotonic()
            result, note, diagnosis = "ok", "", ""
            try:
                function()
            except Skip as reason:
                note = f" # SKIP {reason}"
            except Exception:  # a broken case must not hide the ones after it
                failed += 1
                result, diagnosis = "not ok", traceback.format_exc()
            print(f"{result} {number} - {name.replace('#', '')}{note}")
            for line in diagnosis.splitlines():
                print(f"# {line}")
            seconds = time.monotonic() - begun
            if seconds > SLOW_SECONDS:
                print(f"# took {seconds:.1f} s")
            sys.stdout.flush()
        sys.exit(1 if failed else 0)
