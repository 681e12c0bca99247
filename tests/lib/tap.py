"""Test cases in Python, reported as TAP so that meson counts each of them.

A test file declares its cases with @suite.case("what a user would notice") and ends with suite.run(). A case
fails by raising an exception; raising Skip skips it. Cases named on the command line (any part of the name)
are run alone. A remark after each case gives its duration.
"""

import concurrent.futures
import os
import signal
import sys
import time
import traceback


SIDE_BY_SIDE = 4  # cases that wait in parallel


class Skip(Exception):
    """The reason why a case cannot run on this machine."""


def poll(what, probe, seconds=120.0, interval=0.02, found=None):
    """Waits until probe() is true and returns its result; fails after `seconds` with the text of found(). The default is long
    enough for any machine: a shorter time is named only where it is what the case is about."""
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


class Case:
    def __init__(self, name, function, beside=False):
        self.name = name
        self.function = function
        self.beside = beside

    def run(self):
        """Returns the lines of TAP for the result, without their number, and whether the case failed."""
        begun = time.monotonic()
        result, note, diagnosis = "ok", "", ""
        try:
            self.function()
        except Skip as reason:
            note = f" # SKIP {reason}"
        except Exception:  # a broken case must not hide later ones
            result, diagnosis = "not ok", traceback.format_exc()
        remarks = [*diagnosis.splitlines(), f"took {time.monotonic() - begun:.2f} s"]
        return result, f"{self.name.replace('#', '')}{note}", remarks


class Suite:
    def __init__(self):
        self.cases = []
        self.unusual = []
        self.finishers = []

    def case(self, name, when=True, usual=True, beside=False):
        """Registers a case. One whose `when` is false does not apply here and is not counted. One that is not
        `usual` runs only if it is named. Consecutive `beside` cases run in parallel threads, because they
        mostly wait and share nothing."""

        def register(function):
            if when:
                self.cases.append(Case(name, function, beside))
                if not usual:
                    self.unusual.append(self.cases[-1])
            return function

        return register

    def finish(self, function):
        """Registers a function that runs after the last case and counts as a case of its own."""
        self.finishers.append(Case(function.__doc__.strip(), function))
        return function

    def chosen(self, words):
        if words:
            return [c for c in self.cases if any(w in c.name for w in words)]
        return [c for c in self.cases if c not in self.unusual]

    def run(self):
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that exit handlers run
        cases = self.chosen(sys.argv[1:]) + self.finishers
        print(f"1..{len(cases)}", flush=True)
        failed, number = 0, 0
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            while number < len(cases):
                count = 1
                while cases[number].beside and number + count < len(cases) and cases[number + count].beside:
                    count += 1
                group = cases[number : number + count]
                for result, title, remarks in pool.map(Case.run, group) if count > 1 else map(Case.run, group):
                    number += 1
                    failed += result != "ok"
                    print(f"{result} {number} - {title}")
                    for line in remarks:
                        print(f"# {line}")
                    sys.stdout.flush()
        sys.exit(1 if failed else 0)
