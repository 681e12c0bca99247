"""Several principals of one server over HTTP, each with a token of its own."""

import os
import secrets

from mcp import LATEST_LEGACY, temporary_directory
from mcp_http import HttpServer


class Tenants:
    """A server for them; it ends with all their sandboxes."""

    def __init__(self, names, *options):
        self.tokens = {name: secrets.token_urlsafe(24) for name in names}
        self.file = os.path.join(temporary_directory(), "tokens")
        self.write()
        self.server = HttpServer("--tokens", self.file, *options)

    def write(self):
        with open(self.file, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.writelines(f"{name} {token}\n" for name, token in self.tokens.items())

    def client(self, name, version=LATEST_LEGACY):
        return self.server.client(version, token=self.tokens[name])

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        if kind is None:
            for token in self.tokens.values():
                self.server.close_sandboxes(token=token)
        self.server.__exit__(kind, problem, trace)
