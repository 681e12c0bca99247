#!/usr/bin/env python3
"""Packs the root of a container as an image of one layer, in an archive that is an OCI image layout and what `docker save` writes at
once: engines of all ages load it. It depends on the root, the tag and SOURCE_DATE_EPOCH only.

  oci.py ROOT.tar IMAGE.tar NAME:TAG"""

import datetime
import hashlib
import io
import json
import os
import sys
import tarfile

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
CREATED = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def packed(value):
    return json.dumps(value, separators=(",", ":")).encode()


class Archive:
    def __init__(self, path):
        self.tar = tarfile.open(path, "w", format=tarfile.USTAR_FORMAT)  # pylint: disable=consider-using-with
        for directory in ("blobs", "blobs/sha256"):
            info = self.entry(directory, 0o755)
            info.type = tarfile.DIRTYPE
            self.tar.addfile(info)

    @staticmethod
    def entry(name, mode=0o644):
        info = tarfile.TarInfo(name)
        info.mtime, info.mode = EPOCH, mode
        return info

    def add(self, name, data):
        info = self.entry(name)
        info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data))

    def blob(self, kind, data):
        """Adds a blob and returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        self.add(f"blobs/sha256/{digest}", data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def main():
    root, image, tag = sys.argv[1:4]
    name, version = tag.split(":")
    with open(root, "rb") as f:
        data = f.read()
    archive = Archive(image + ".new")
    layer = archive.blob("application/vnd.oci.image.layer.v1.tar", data)
    config = {
        "created": CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
            "Entrypoint": ["/usr/libexec/cloister/image-start"],
            "WorkingDir": "/",
            "Labels": {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "MIT"},
        },
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "history": [{"created": CREATED, "created_by": "contrib/package/image"}],
    }
    described = archive.blob("application/vnd.oci.image.config.v1+json", packed(config))
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [layer]}
    listed = {**archive.blob(MANIFEST, packed(manifest)), "annotations": {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/{tag}"}}
    archive.add("index.json", packed({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed]}))
    archive.add("oci-layout", packed({"imageLayoutVersion": "1.0.0"}))
    blob = "blobs/sha256/" + described["digest"].partition(":")[2]
    archive.add("manifest.json", packed([{"Config": blob, "RepoTags": [tag], "Layers": ["blobs/sha256/" + layer["digest"].partition(":")[2]]}]))
    archive.tar.close()
    os.replace(image + ".new", image)


main()
