#!/usr/bin/env python3
"""Counts test cases in meson's testlog.json files and shows the failures.

Each line of TAP that a test printed is a case; a test without TAP is one case. A test that failed although
all its cases succeeded (a crash, a leak found at exit, a timeout) is one more failure. The last
line is "N passed, N failed" with ", N skipped" if there were any.

usage: summary.py <testlog.json>…
       summary.py --record <name> <log>     prints the record of a step that failed
       summary.py --failed <testlog.json>…  shows only the failures
       summary.py --again <testlog.json>    takes the tests out that have skipped something, and prints their names
"""

import json
import re
import sys

CASE = re.compile(r"^(not )?ok\b[ \t]*(\d*)[ \t-]*([^#\n]*)(#[ \t]*skip\b[ \t]*(.*))?", re.I)
SKIP_ALL = re.compile(r"^1\.\.0\b[ \t]*(?:#[ \t]*skip[ \t]*(.*))?", re.I | re.M)
TAIL_LINES = 40
GOOD = ("OK", "EXPECTEDFAIL", "SKIP")


def tail(record):
    text = (record.get("stdout") or "") + "\n" + (record.get("stderr") or "")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("ok ")]
    return lines[-TAIL_LINES:]


def explain(record, case):
    """The lines of diagnosis that follow a failed case."""
    lines = (record.get("stdout") or "").splitlines()
    begin = lines.index(case) + 1
    end = begin
    while end < len(lines) and lines[end].startswith("#"):
        end += 1
    return lines[begin:end][-TAIL_LINES:]


def judge(record):
    """(passed, failures, skips) of one test; failures and skips as (name, lines)."""
    name = record["name"]
    output = record.get("stdout") or ""
    passed, failures, skips = 0, [], []
    for line in output.splitlines():
        match = CASE.match(line)
        if not match:
            continue
        title = f"{name}: {match.group(3).strip() or match.group(2)}"
        if match.group(4):
            skips.append((title, match.group(5)))
        elif match.group(1):
            failures.append((title, explain(record, line)))
        else:
            passed += 1
    nothing = SKIP_ALL.search(output)
    if nothing and not (passed or failures or skips):
        skips.append((name, nothing.group(1) or ""))
    good = record.get("result") in GOOD
    if good and not (passed or failures or skips):
        if record["result"] == "SKIP":
            skips.append((name, " ".join(tail(record))[-200:]))
        else:
            passed = 1
    died = record.get("result") == "TIMEOUT" or record.get("returncode", 0) < 0
    if not good and (died or not failures):
        failures.append((f"{name}: ended with {record.get('result')}", tail(record)))
    return passed, failures, skips


def failed_step(name, log):
    """The record of a failed step that is no test, in the form of testlog.json."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return {"name": name, "result": "FAIL", "stderr": file.read()[-8000:]}


def take_skipped(path):
    """Takes records out of a file, for tests that may find more when they run once more; returns their names."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    judged = [(line, judge(json.loads(line))) for line in lines]
    skipped = [line for line, (_, failures, skips) in judged if skips and not failures]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line for line in lines if line not in skipped)
    return [json.loads(line)["name"].split(" / ")[-1] for line in skipped]


def main():
    if sys.argv[1] == "--again":
        print("\n".join(take_skipped(sys.argv[2])))
        return
    if sys.argv[1] == "--record":
        print(json.dumps(failed_step(*sys.argv[2:])))
        return
    failed_only = sys.argv[1] == "--failed"
    passed, failures, skips = 0, [], []
    for path in sys.argv[2 if failed_only else 1 :]:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    good, bad, left_out = judge(json.loads(line))
                    passed += good
                    failures += bad
                    skips += left_out
    if not failed_only:
        for name, why in skips:
            print(f"SKIPPED {name}: {why}")
    for name, lines in failures:
        print(f"\nFAILED {name}")
        for text in lines:
            print(f"    {text}")
    if failed_only:
        return
    print()
    print(f"{passed} passed, {len(failures)} failed" + (f", {len(skips)} skipped" if skips else ""))
    sys.exit(1 if failures or not passed else 0)


if __name__ == "__main__":
    main()
