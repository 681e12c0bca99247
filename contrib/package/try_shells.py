#!/usr/bin/env python3
"""Asks bash, zsh and fish, as installed, to complete commands, options and values of cloister; zsh and bash on a terminal, as people do."""

import os
import pty
import re
import select
import subprocess
import time

PATIENCE_SECONDS = 120
ASKED = (
    ("cloister doc", "cloister doctor"),
    ("cloister --max-sand", "cloister --max-sandboxes"),
    ("cloister --pull mis", "cloister --pull missing"),
    ("cloister ps --format js", "cloister ps --format json"),
)
START = {
    "bash": ["bash", "--norc", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
PREPARE = {
    "bash": "source /usr/share/bash-completion/bash_completion; PS1='ready$ '; bind 'set enable-bracketed-paste off'; echo set''up\n",
    "zsh": "autoload -U compinit; compinit -u -D; PS1='ready$ '; unset zle_bracketed_paste; echo set''up\n",
}


class Terminal:
    def __init__(self, command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", HOME="/tmp")
            os.execvp(command[0], command)
        self.seen = ""

    def write(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, text):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {text!r} in {self.seen!r}"
            piece = os.read(self.fd, 4096).decode(errors="replace")
            self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x07", "", piece)


def on_terminal(shell):
    terminal = Terminal(START[shell])
    terminal.write(PREPARE[shell])
    terminal.wait_for("setup\r")
    for typed, wanted in ASKED:
        terminal.seen = ""
        terminal.write(typed + "\t")
        terminal.wait_for(wanted)
        terminal.write("\x15")  # forgets the line
    os.close(terminal.fd)


def in_fish():
    for typed, wanted in ASKED:
        told = subprocess.run(["fish", "-c", f"complete -C '{typed}'"], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert wanted.split()[-1] in [line.split("\t")[0] for line in told.splitlines()], told


for each in START:
    on_terminal(each)
    print(f"    {each} completes")
in_fish()
print("    fish completes")
