"""Packages for tests, made by hand: wheels and source distributions for pip, tarballs for npm, and a server that offers
them as a package index does.

    index = Index(net.listen(8080), "http://packages.test:8080")
    index.add(wheel("colours", "1.2", {"colours.py": "RED = 1"}, requires=["shades>=1"]))
    index.add(sdist("broken", "0.1", setup="raise SystemExit('no compiler')"))
    index.add(npm("left", "1.0.0", {"index.js": "module.exports = 1"}))
    ... pip: index.pip_url, npm: index.npm_url
"""

import base64
import hashlib
import http.server
import io
import json
import os
import re
import ssl
import tarfile
import threading
import urllib.parse
import zipfile

from tap import poll


class Package:
    """One file of an index."""

    def __init__(self, name, version, filename, data, **more):
        self.name = name
        self.version = version
        self.filename = filename
        self.data = data
        self.npm = more.get("npm")  # the content of package.json; None: for pip
        self.python = more.get("python", "")  # Requires-Python

    def save(self, directory):
        """Saves the file in a directory, as for --package-dir; returns its path."""
        path = f"{directory}/{self.filename}"
        with open(path, "wb") as file:
            file.write(self.data)
        return path


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def _bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def _metadata(name, version, requires, python):
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {r}" for r in requires]
    lines += [f"Requires-Python: {python}"] if python else []
    return "\n".join(lines) + "\n"


def wheel(name, version, files=None, requires=(), python="", scripts=None):
    """A pure wheel. `files` maps paths to content, by default a module of that name with its version;
    `scripts` maps commands to module:function."""
    plain = name.replace("-", "_").replace(".", "_")
    files = dict(files if files is not None else {f"{plain}.py": f"VERSION = {version!r}\n"})
    info = f"{plain}-{version}.dist-info"
    files[f"{info}/METADATA"] = _metadata(name, version, requires, python)
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        rows = "".join(f"{k} = {v}\n" for k, v in scripts.items())
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{rows}"
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(_bytes(content)).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(_bytes(content))}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, _bytes(content))
    return Package(name, version, f"{plain}-{version}-py3-none-any.whl", data.getvalue(), python=python)


DISTRIBUTION = "/usr/lib/python3/dist-packages"
NOT_PACKED = ("tests", "testing", "__pycache__", "sphinxext")  # not needed at runtime


def of_distribution(name, version, directories):
    """A wheel made of the distribution's installed package, including compiled modules, with a version of our
    own; None if it is not installed. It works with the same Python and the same libraries."""
    if not all(os.path.isdir(os.path.join(DISTRIBUTION, d)) for d in directories):
        return None
    info = f"{name}-{version}.dist-info"
    data = io.BytesIO()
    record = ""
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for directory in directories:
            for place, inner, names in os.walk(os.path.join(DISTRIBUTION, directory)):
                inner[:] = [d for d in inner if d not in NOT_PACKED]
                for file in names:
                    path = os.path.join(place, file)
                    record += f"{os.path.relpath(path, DISTRIBUTION)},,\n"
                    archive.write(path, os.path.relpath(path, DISTRIBUTION))
        archive.writestr(f"{info}/METADATA", _metadata(name, version, [], ""))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{record}{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return Package(name, version, f"{name}-{version}-py3-none-any.whl", data.getvalue())


def _tarball(top, files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(_bytes(content))
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(_bytes(content)))
    return data.getvalue()


def sdist(name, version, setup=None, files=None):
    """A source distribution; `setup` is its setup.py, by default one that needs setuptools."""
    plain = name.replace("-", "_")
    setup = setup or f"from setuptools import setup\nsetup(name={name!r}, version={version!r}, py_modules=[{plain!r}])\n"
    files = dict(files or {f"{plain}.py": f"VERSION = {version!r}\n"})
    files["setup.py"] = setup
    files["PKG-INFO"] = _metadata(name, version, [], "")
    return Package(name, version, f"{name}-{version}.tar.gz", _tarball(f"{name}-{version}", files))


def npm(name, version, files=None, requires=None, scripts=None):
    """A package for npm; `requires` are its dependencies, `scripts` those of package.json."""
    about = {"name": name, "version": version, "main": "index.js", "dependencies": dict(requires or {})}
    if scripts:
        about["scripts"] = dict(scripts)
    files = dict(files if files is not None else {"index.js": f"exports.version = {version!r};\n"})
    files["package.json"] = json.dumps(about)
    filename = f"{name.rpartition('/')[2]}-{version}.tgz"
    return Package(name, version, filename, _tarball("package", files), npm=about)


class Held:
    """While it lasts the index sends no files, unless they are released."""

    def __init__(self, index):
        self.index = index

    def __enter__(self):
        self.index.held = threading.Event()
        return self

    def asked(self, name):
        poll(f"the index is asked for {name}", lambda: self.index.asked_for(f"/files/{name}-"))

    def release(self):
        self.index.held.set()

    def __exit__(self, *_):
        self.release()
        self.index.held = None


class Index:
    """A package index on a listening socket. `base` is its URL for clients; with `certificate`, the paths of
    one and of its key, it uses TLS."""

    def __init__(self, listening, base=None, certificate=None):
        self.packages = []
        self.requests = []  # (method, path) of each request
        self.headers = []  # headers of each request
        self.base = base or f"http://packages.test:{listening.getsockname()[1]}"
        self.pip_url = f"{self.base}/simple/"
        self.npm_url = f"{self.base}/npm/"
        self.host = urllib.parse.urlsplit(self.base).hostname
        self.held = None  # an Event: files are only sent when it is set
        self.held_names = ""  # … those with this in their names
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # pylint: disable=invalid-name
                index.requests.append((self.command, self.path))
                index.headers.append(dict(self.headers))
                path = self.path
                if path.startswith("http://"):  # a request to us as a proxy
                    path = urllib.parse.urlsplit(path).path
                status, kind, data = index.answer(urllib.parse.unquote(path))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data)

            do_HEAD = do_GET

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # the client has gone

        self.server = Server(("", 0), Handler, bind_and_activate=False)
        self.server.socket.close()
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # a client that refuses our certificate must not stop the accepting thread
            listening = context.wrap_socket(listening, server_side=True, do_handshake_on_connect=False)
        self.server.socket = listening
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def add(self, *packages):
        self.packages += packages
        return packages[0]

    def asked_for(self, text):
        """Requests whose path contains the text."""
        return [path for _, path in self.requests if text in urllib.parse.unquote(path)]

    def answer(self, path):
        path = path.partition("?")[0]
        missing = (404, "text/plain", b"not found\n")
        if path.startswith("/files/"):
            if self.held is not None and self.held_names in path:
                self.held.wait(60)
            found = [p for p in self.packages if p.filename == path.removeprefix("/files/")]
            return (200, "application/octet-stream", found[0].data) if found else missing
        if path.startswith("/simple/"):
            return self.simple(path.removeprefix("/simple/").strip("/")) or missing
        if path.startswith("/npm/"):
            return self.packument(path.removeprefix("/npm/").strip("/")) or missing
        return missing

    def simple(self, name):
        """The page of a package in the simple index (PEP 503)."""
        mine = [p for p in self.packages if p.npm is None]
        if name == "":
            rows = sorted({f'<a href="/simple/{normal(p.name)}/">{p.name}</a>' for p in mine})
        else:
            rows = []
            for p in mine:
                if normal(p.name) == name:
                    python = f' data-requires-python="{p.python.replace(">", "&gt;").replace("<", "&lt;")}"' if p.python else ""
                    digest = hashlib.sha256(p.data).hexdigest()
                    rows.append(f'<a href="{self.base}/files/{p.filename}#sha256={digest}"{python}>{p.filename}</a>')
            if not rows:
                return None
        return 200, "text/html", f"<!DOCTYPE html><html><body>{'<br>'.join(rows)}</body></html>".encode()

    def packument(self, name):
        """The registry's document about a package."""
        mine = [p for p in self.packages if p.npm is not None and p.name == name]
        if not mine:
            return None
        versions = {}
        for p in mine:
            dist = {
                "tarball": f"{self.base}/files/{p.filename}",
                "shasum": hashlib.sha1(p.data).hexdigest(),
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(p.data).digest()).decode(),
            }
            versions[p.version] = dict(p.npm, _id=f"{name}@{p.version}", dist=dist)
        document = {"_id": name, "name": name, "dist-tags": {"latest": mine[-1].version}, "versions": versions}
        return 200, "application/json", json.dumps(document).encode()


SITE = "/usr/lib/python3/dist-packages"


def distributed(name, version):
    """A wheel of the distribution's installed module, without its tests; None if it is not installed."""
    files = {}
    for directory, below, names in os.walk(os.path.join(SITE, name)):
        below[:] = [d for d in below if d not in ("tests", "__pycache__", "sample_data")]
        for each in names:
            path = os.path.join(directory, each)
            with open(path, "rb") as file:
                files[os.path.relpath(path, SITE)] = file.read()
    return wheel(name, version, files) if files else None
