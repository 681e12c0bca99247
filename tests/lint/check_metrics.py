#!/usr/bin/env python3
"""Dashboards and alerts must name metrics that exist, with labels and values that they have; each metric must be documented. Where Prometheus's
promtool is installed (package prometheus, or PROMTOOL), the alerts and their tests are run."""

import json
import os
import re
import shutil
import subprocess
import sys

from source import ROOT, read, report
from tap import Skip, Suite

suite = Suite()

PROGRAM = os.environ.get("CLOISTER", "")
DASHBOARD, ALERTS, TESTS = "contrib/grafana/cloister.json", "contrib/prometheus/alerts.yml", "contrib/prometheus/alerts_test.yml"
NAME = re.compile(r"\b((?:cloister|process)_[a-z_]+)\b(?:\s*\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
OF_PROMETHEUS = {"job", "instance", "le"}
SUFFIXES = ("_bucket", "_sum", "_count")


def table():
    path = os.path.join(os.path.dirname(PROGRAM), "metrics-json")
    if not (PROGRAM and os.path.exists(path)):
        raise Skip("no built program (CLOISTER is not set)")
    rows = json.loads(subprocess.run([path], stdout=subprocess.PIPE, check=True).stdout)
    return {row["name"]: row for row in rows}


def expressions(path):
    """The texts in which metrics are named."""
    if not path.endswith(".json"):
        return [re.sub(r"^\s*#.*$", "", read(path), flags=re.MULTILINE)]
    found = []

    def walk(value):
        if isinstance(value, dict):
            found.extend(v for k, v in value.items() if k in ("expr", "query", "definition") and isinstance(v, str))
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads(read(path)))
    return found


def row_of(metrics, name):
    for suffix in SUFFIXES:
        base = metrics.get(name[: -len(suffix)]) if name.endswith(suffix) else None
        if base is not None and base["type"] == "histogram":
            return base
    row = metrics.get(name)
    return None if row is None or row["type"] == "histogram" else row


def problems_of(metrics, path, text):
    for name, matchers in NAME.findall(text):
        row = row_of(metrics, name)
        if row is None:
            yield f"{path}: there is no metric {name}"
            continue
        labels = {label["name"]: label["values"] for label in row["labels"]}
        for label, operator, value in MATCHER.findall(matchers):
            if label in OF_PROMETHEUS:
                continue
            if label not in labels:
                yield f"{path}: {name} has no label {label}"
                continue
            for word in value.split("|") if "~" in operator else [value]:
                if word not in labels[label]:
                    yield f"{path}: {label} of {name} is never {word}"


@suite.case("dashboard, alerts and their tests name metrics, labels and values of the table only")
def names():
    metrics = table()
    report([problem for path in (DASHBOARD, ALERTS, TESTS) for text in expressions(path) for problem in problems_of(metrics, path, text)])


@suite.case("the dashboard shows each metric")
def shown():
    metrics = table()
    texts = "\n".join(expressions(DASHBOARD))
    seen = {row["name"] for row in (row_of(metrics, name) for name, _ in NAME.findall(texts)) if row is not None}
    report([f"{DASHBOARD}: no panel has {name}" for name in metrics if name not in seen])


@suite.case("the documents have each metric once")
def documented():
    page = read("contrib/docs/metrics.md")
    report([f"contrib/docs/metrics.md: {name} has {page.count(f'| `{name}` |')} rows" for name in table() if page.count(f"| `{name}` |") != 1])


@suite.case("each alert has a summary, says what to do, and is tried")
def alerts():
    text = read(ALERTS)
    tests = read(TESTS)
    parts = re.split(r"^\s*- alert: ", text, flags=re.MULTILINE)[1:]
    assert len(parts) > 5, "could not read the alerts"
    bad = []
    for part in parts:
        name = part.split()[0]
        bad += [f"{ALERTS}: {name} has no {what}" for what in ("summary:", "description:", "severity:") if what not in part]
        if name not in tests:
            bad.append(f"{TESTS}: nothing about {name}")
    report(bad)


@suite.case("promtool takes the alerts, and their tests pass")
def promtool():
    tool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if tool is None:
        raise Skip("promtool is not installed (package prometheus)")
    for command in (("check", "rules", ALERTS), ("test", "rules", TESTS)):
        done = subprocess.run([tool, *command[:2], os.path.join(ROOT, command[2])], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        report([done.stdout] if done.returncode else [])


if __name__ == "__main__":
    sys.exit(suite.run())
