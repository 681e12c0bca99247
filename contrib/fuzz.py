#!/usr/bin/env python3
"""Runs every fuzz target for a while, one per processor at a time.

usage: fuzz.py <built targets> <corpus> <work directory> <seconds each> <result file>

The corpus in the tree is only read: new inputs stay in the work directory, where the next run begins. The
result file has the form of meson's testlog.json.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

RSS_LIMIT_MB = 2048
SLOW_SECONDS = 10  # for one input
PROGRESS = re.compile(r"^(#\d+\s|\s*NEW_FUNC|[\d-]{10}T\S+ info )")
VERDICT = re.compile(r"not so: |^SUMMARY: |did not end in time")
FINDING_LINES = 40


def finding(output):
    """The finding, without libFuzzer's progress before it."""
    return [line for line in output.splitlines() if not PROGRESS.match(line)][-FINDING_LINES:]


def fuzz(name, program, corpus, work, seconds):
    grown = os.path.join(work, name)
    findings = os.path.join(work, "findings")
    os.makedirs(grown, exist_ok=True)
    os.makedirs(findings, exist_ok=True)
    command = [
        program,
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={RSS_LIMIT_MB}",
        f"-timeout={SLOW_SECONDS}",
        f"-artifact_prefix={findings}/{name}-",
        "-print_final_stats=1",
        "-verbosity=1",
        grown,
        os.path.join(corpus, name),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + 120,
            check=False,
            env={**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"},
        )
        output, good = done.stdout.decode("utf-8", "replace"), done.returncode == 0
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode("utf-8", "replace") + "\ndid not end in time"
        good = False
    runs = [line for line in output.splitlines() if line.startswith("stat::number_of_executed_units")]
    count = runs[-1].split()[-1] if runs else "?"
    found = "" if good else "\n".join(finding(output))
    what = next((f" ({line})" for line in found.splitlines() if VERDICT.search(line)), "")
    print(f"{'ok  ' if good else 'FAIL'} fuzz {name}: {count} runs in {seconds} s{what}", flush=True)
    return {
        "name": f"fuzzing {name} for {seconds} s",
        "result": "OK" if good else "FAIL",
        "stdout": found,
    }


def main():
    targets, corpus, work, seconds, result = sys.argv[1:]
    names = sorted(
        entry[len("fuzz_") :]
        for entry in os.listdir(targets)
        if entry.startswith("fuzz_") and os.access(os.path.join(targets, entry), os.X_OK)
        and os.path.isfile(os.path.join(targets, entry))
    )
    if not names:
        sys.exit(f"no fuzz targets in {targets}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [
            pool.submit(fuzz, n, os.path.join(targets, "fuzz_" + n), corpus, work, int(seconds))
            for n in names
        ]
        records = [future.result() for future in futures]
    with open(result, "w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


main()
