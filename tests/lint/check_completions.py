#!/usr/bin/env python3
"""Completions of shells offer what the program takes, all of it and nothing else. Those of bash are asked as bash asks them; those of
zsh and fish, whose shells are on few machines, are read, and contrib/package/try asks them in these shells. Prints TAP."""

import json
import os
import re
import subprocess

from source import report
from tap import Suite, equal, skip_all

PROGRAM = os.environ.get("CLOISTER", "")
HERE = os.path.dirname(PROGRAM)
if not (PROGRAM and os.path.exists(os.path.join(HERE, "cloister.bash"))):
    skip_all("no built program (CLOISTER is not set), or no completions beside it")

suite = Suite()
OPTIONS = json.loads(subprocess.run([os.path.join(HERE, "options-json")], stdout=subprocess.PIPE, check=True).stdout)["options"]
NAMES = sorted(["help", "version"] + [o["name"] for o in OPTIONS])


def completions(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read()


def bash(*words):
    """What bash offers for the last word."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cloister; printf "%s\\n" "${COMPREPLY[@]}"'
    command = ["bash", "-c", script, "complete", os.path.join(HERE, "cloister.bash"), "cloister", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.split()


@suite.case("the shells know the options of the program and no others")
def names():
    equal(sorted(word[2:] for word in bash("--")), NAMES, "bash")
    equal(sorted(set(re.findall(r"--([a-z][a-z0-9-]*)[=\[}]", completions("_cloister")))), NAMES, "zsh")
    equal(sorted(set(re.findall(r" -l ([a-z][a-z0-9-]*)", completions("cloister.fish")))), NAMES, "fish")


@suite.case("the shells know the values of options that have a choice, and the program takes each")
def values():
    problems = []
    for o in OPTIONS:
        choices = o["choices"].split()
        if not choices:
            continue
        name = "--" + o["name"]
        equal(sorted(bash(name, "")), sorted(choices), f"bash: {name}")
        equal(sorted(bash(name, "=")), sorted(choices), f"bash: {name}=")
        words = " ".join(choices)
        problems += [f"zsh: {name}"] if not re.search(rf"{name}=\[.*{re.escape(words)}[)}}]'", completions("_cloister")) else []
        problems += [f"fish: {name}"] if f"-l {o['name']} -x -a '{words}'" not in completions("cloister.fish") else []
        for choice in choices:
            # `token` without a name is refused, but only after the options have been read
            done = subprocess.run([PROGRAM, name, choice, "token"], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, text=True)
            problems += [f"{name} {choice}: {done.stderr.strip()}"] if "expected one of" in done.stderr or "expected error" in done.stderr else []
    report(problems)


@suite.case("flags take yes and no behind an equals sign only")
def flags():
    for o in OPTIONS:
        if o["kind"] == "flag":
            equal(bash("--" + o["name"], "="), ["yes", "no"], o["name"])
    assert "doctor" in bash("--strict", ""), "a flag takes the next word"


@suite.case("the shells know the commands that --help names")
def commands():
    usage = subprocess.run([PROGRAM, "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout.partition("\n\nOptions")[0]
    found = sorted(set(re.findall(r"^  cloister ([a-z]+)", usage, re.M)))
    equal(sorted(bash("")), found, "bash")
    equal(sorted(re.findall(r"^    '([a-z]+):", completions("_cloister"), re.M)), found, "zsh")
    equal(sorted(re.findall(r"__fish_use_subcommand -a ([a-z]+)", completions("cloister.fish"))), found, "fish")


@suite.case("values of a list are completed behind its last comma")
def lists():
    equal(bash("--compat", "=", "python-env,docker"), ["python-env,docker-interpreter"], "list")


suite.run()
