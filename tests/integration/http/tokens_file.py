"""A file of tokens for a server."""

import hashlib
import os
import secrets

import mcp


def new_token():
    return secrets.token_urlsafe(24)


def bearer(text):
    return ("Authorization", f"Bearer {text}")


class Tokens:
    def __init__(self):
        self.path = os.path.join(mcp.temporary_directory(), "tokens")
        self.lines = []

    def add(self, name, more="", hashed=False):
        made = new_token()
        shown = "sha256:" + hashlib.sha256(made.encode()).hexdigest() if hashed else made
        self.lines.append(f"{name} {shown} {more}".rstrip())
        self.write()
        return made

    def write(self, *more):
        with open(self.path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("# who may come in\n\n" + "\n".join([*self.lines, *more]) + "\n")
