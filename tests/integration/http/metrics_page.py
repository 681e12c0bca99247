"""The page /metrics as a dictionary, and Prometheus's own tool to check it with."""

import os
import re
import shutil

LINE = re.compile(r'([a-z_]+)(?:\{([^}]*)\})? ([0-9.]+)')
LABEL = re.compile(r'([a-z]+)="([^"]*)"')


def promtool():
    """Its path, or None if it is not installed (package prometheus)."""
    return os.environ.get("PROMTOOL") or shutil.which("promtool")


def page(server, *headers):
    """{(name, (label, value), …): number}; every line of the page must be understood."""
    answer = server.ask("GET", "/metrics", headers)
    assert answer.head.status == 200, f"{answer.head.status}: {answer.body[:300]}"
    found = {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# "):
            continue
        match = LINE.fullmatch(line)
        assert match, f"not a line of the text format: {line!r}"
        key = (match[1], *LABEL.findall(match[2] or ""))
        assert key not in found, f"twice: {line}"
        found[key] = float(match[3])
    return found


def number(figures, name, **labels):
    return figures[(name, *labels.items())]
