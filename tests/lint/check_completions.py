#!/usr/bin/env python3
"""Completions of shells and the manual page offer what the program takes, all of it and nothing else. Those of bash are asked as bash asks them; those of
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
COMMANDS = json.loads(subprocess.run([os.path.join(HERE, "commands-json")], stdout=subprocess.PIPE, check=True).stdout)
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
    equal(sorted(set(re.findall(r"--([a-z][a-z0-9-]*)[=\[}]", completions("_cloister").partition("case $line")[0]))), NAMES, "zsh")
    equal(sorted(set(re.findall(r"^complete -c cloister -l ([a-z][a-z0-9-]*)", completions("cloister.fish"), re.M))), NAMES, "fish")


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
    found = sorted(set(re.findall(r"^  ([a-z]+) {2,}", usage.partition("\nCommands:")[2], re.M)))
    equal(found, sorted(c["name"] for c in COMMANDS))
    equal(sorted(bash("")), found, "bash")
    equal(sorted(bash("help", "")), found, "bash: help")
    equal(sorted(re.findall(r"^    '([a-z]+):", completions("_cloister"), re.M)), found, "zsh")
    equal(sorted(re.findall(r"__fish_use_subcommand -a ([a-z]+)", completions("cloister.fish"))), found, "fish")


@suite.case("the shells know the options of each command that its --help names, and their values")
def own_options():
    for c in COMMANDS:
        name = c["name"]
        told = subprocess.run([PROGRAM, name, "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout
        wanted = sorted(re.findall(r"^  (?:-\w, |    )--([a-z-]+)", told, re.M))
        equal(wanted, sorted(f["name"] for f in c["flags"]), name)
        offered = [word[2:] for word in bash(name, "--")]
        equal(sorted(set(wanted) - set(offered)), [], f"bash: {name}")
        equal(offered.count("memory-mb"), 0 if c["steers"] and not c["starts_server"] else 1, f"bash: {name}")
        equal(sorted(re.findall(rf"_from {name}' -l ([a-z-]+)", completions("cloister.fish"))), wanted, f"fish: {name}")
        mine = completions("_cloister").partition(f"\n    {name})\n")[2].partition(";;")[0]
        equal([f for f in wanted if not re.search(rf"--{f}[=\[}}]", mine)], [], f"zsh: {name}")
        for f in c["flags"]:
            if f["choices"]:
                equal(bash(name, "--" + f["name"], ""), f["choices"].split(), f"bash: {name} --{f['name']}")


@suite.case("the manual page has all commands with their options and examples")
def manual():
    with open(os.path.join(HERE, "cloister.1"), encoding="utf-8") as f:
        page = f.read().replace("\\-", "-")
    for c in COMMANDS:
        mine = page.partition(f"\n.TP\n\\fB{c['name']}\\fR")[2].partition("\n.RE\n")[0]
        for part in [f"\\fB--{f['name']}\\fR" for f in c["flags"] if f["name"] != "help"] + c["examples"]:
            assert part in mine, f"{c['name']}: nothing about {part}: {mine}"


@suite.case("no text of --help is wider than a terminal of 80 columns, and each command has an example")
def widths():
    problems = []
    for words in [["--help"]] + [[c["name"], "--help"] for c in COMMANDS]:
        told = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, check=True, text=True).stdout
        problems += [f"{words}: {line!r}" for line in told.splitlines() if len(line) > 80]
        problems += [f"{words}: no example"] if "example" not in told else []
    report(problems)


@suite.case("values of a list are completed behind its last comma")
def lists():
    equal(bash("--compat", "=", "python-env,docker"), ["python-env,docker-interpreter"], "list")


suite.run()
