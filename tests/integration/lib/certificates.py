"""Self-signed certificates, made by openssl for one test."""

import os
import shutil
import subprocess

from tap import Skip


def certificate(directory, name, names="DNS:localhost,IP:127.0.0.1"):
    """Makes a certificate for these names; returns the paths of it and of its key. Skips the case without openssl."""
    if shutil.which("openssl") is None:
        raise Skip("no openssl here to make a certificate")
    made = [os.path.join(directory, f"{name}.{part}") for part in ("crt", "key")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName={names}", "-keyout", made[1], "-out", made[0]],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return made
