#!/usr/bin/env python3
"""Prints what package managers want to know of cloister, so that its version and description are written down once.

  manifests.py npm                          package.json of the launcher
  manifests.py npm-binaries                 package.json of the binaries for Linux on x86-64
  manifests.py mcpb                         manifest.json of the MCPB bundle
  manifests.py server-json [FILE.mcpb]      server.json of the MCP registry; with the bundle if CLOISTER_RELEASE_URL says where it is
  manifests.py sbom LIBRARIES FILE…         software bill of materials (CycloneDX) of these files; LIBRARIES is that of the tree

CLOISTER_NAMESPACE    namespace in the MCP registry of whoever publishes (io.github.NAME, or a domain turned round)
CLOISTER_RELEASE_URL  directory of the release, from which files can be downloaded
SOURCE_DATE_EPOCH     time of the release"""

import datetime
import hashlib
import json
import os
import re
import sys
import uuid

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(TOP, "meson.build"), encoding="utf-8") as build:
    VERSION = re.search(r"^  version: '([^']+)'", build.read(), re.M).group(1)
ABOUT = "Runs code for language models in isolated sandboxes"
LONG = (
    "Python, JavaScript, bash and other languages, with variables that live from call to call, in sandboxes without network that are "
    "made by Docker, Podman or runc. A worker that dies is replaced while its calls go on."
)
LICENSE = "MIT"
AUTHOR = "the cloister authors"
KEYWORDS = ["mcp", "mcp-server", "sandbox", "code-interpreter", "docker", "runc"]
SERVER_NAME = os.environ.get("CLOISTER_NAMESPACE", "io.github.cloister") + "/cloister"
BINARIES = "cloister-linux-x64"
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json"


def npm():
    return {
        "name": "cloister",
        "version": VERSION,
        "description": f"MCP server: {ABOUT[0].lower()}{ABOUT[1:]}",
        "mcpName": SERVER_NAME,  # by which the MCP registry knows that both have one owner
        "keywords": KEYWORDS,
        "license": LICENSE,
        "author": AUTHOR,
        "bin": {"cloister": "cloister.js"},
        "files": ["cloister.js"],
        "engines": {"node": ">=18"},
        "optionalDependencies": {BINARIES: VERSION},
    }


def npm_binaries():
    return {
        "name": BINARIES,
        "version": VERSION,
        "description": "Programs of cloister for Linux on x86-64 with glibc 2.36 or newer; install the package cloister",
        "license": LICENSE,
        "author": AUTHOR,
        "files": ["bin", "libexec", "lib", "share"],
        "os": ["linux"],
        "cpu": ["x64"],
        "libc": ["glibc"],
        "preferUnplugged": True,
    }


def mcpb():
    def setting(title, description, default=""):
        return {"type": "string", "title": title, "description": description, "required": False, "default": default}

    return {
        "manifest_version": "0.3",
        "name": "cloister",
        "display_name": "cloister",
        "version": VERSION,
        "description": ABOUT,
        "long_description": LONG,
        "author": {"name": AUTHOR},
        "license": LICENSE,
        "keywords": KEYWORDS,
        "server": {
            "type": "binary",
            "entry_point": "server/bin/cloister",
            "mcp_config": {
                "command": "${__dirname}/server/bin/cloister",
                "args": [],
                "env": {
                    "CLOISTER_BACKEND": "${user_config.backend}",
                    "CLOISTER_IMAGE": "${user_config.image}",
                    "CLOISTER_SHARE": "${user_config.share}",
                },
            },
        },
        "tools_generated": True,
        "compatibility": {"platforms": ["linux"]},
        "user_config": {
            "backend": setting("What isolates sandboxes", "auto, docker or oci; auto takes the first that works", "auto"),
            "image": setting("Image", "Image of the sandboxes for a container engine; empty: the server's own choice"),
            "share": setting("Directories", "Directories that code may read, with :rw behind them also write, separated by commas; empty: none"),
        },
    }


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def server_json(bundle=None):
    packages = [
        {
            "registryType": "npm",
            "registryBaseUrl": "https://registry.npmjs.org",
            "identifier": "cloister",
            "version": VERSION,
            "runtimeHint": "npx",
            "runtimeArguments": [{"type": "positional", "value": "-y"}],
            "transport": {"type": "stdio"},
            "environmentVariables": [
                {"name": "CLOISTER_BACKEND", "description": "What isolates sandboxes", "choices": ["auto", "docker", "oci"], "default": "auto"},
                {"name": "CLOISTER_IMAGE", "description": "Image of the sandboxes for a container engine"},
                {"name": "CLOISTER_SHARE", "description": "Directories that code may read, or write with :rw behind them"},
            ],
        }
    ]
    place = os.environ.get("CLOISTER_RELEASE_URL", "").rstrip("/")
    if bundle and place:
        packages.append(
            {
                "registryType": "mcpb",
                "identifier": f"{place}/{os.path.basename(bundle)}",
                "version": VERSION,
                "fileSha256": digest(bundle),
                "transport": {"type": "stdio"},
            }
        )
    return {"$schema": SERVER_SCHEMA, "name": SERVER_NAME, "description": ABOUT, "version": VERSION, "packages": packages}


def sbom(libraries, *files):
    """The files of a release, and what of Debian is inside of them."""
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    product = {"type": "application", "name": "cloister", "version": VERSION, "bom-ref": "cloister", "licenses": [{"license": {"id": LICENSE}}]}
    parts = []
    with open(libraries, encoding="utf-8") as f:
        for line in f:
            name, version, source, source_version = line.rstrip("\n").split("\t")
            url = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace('~', '%7E').replace(':', '%3A')}?arch=amd64&distro=debian-12"
            origin = [{"name": "debian:source", "value": f"{source} {source_version}"}]
            parts.append({"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url, "properties": origin})
    made = [
        {"type": "file", "name": os.path.basename(path), "bom-ref": os.path.basename(path), "hashes": [{"alg": "SHA-256", "content": digest(path)}]}
        for path in files
    ]
    content = "\n".join(each["hashes"][0]["content"] for each in made)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": product},
        "components": made + parts,
        "dependencies": [{"ref": "cloister", "dependsOn": [each["bom-ref"] for each in parts]}],
    }


def main():
    makers = {"npm": npm, "npm-binaries": npm_binaries, "mcpb": mcpb, "server-json": server_json, "sbom": sbom}
    if len(sys.argv) < 2 or sys.argv[1] not in makers:
        raise SystemExit(__doc__)
    print(json.dumps(makers[sys.argv[1]](*sys.argv[2:]), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
