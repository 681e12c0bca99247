#!/usr/bin/env python3
"""Packs a directory into a zip archive that depends on its contents only: sorted, with the time of SOURCE_DATE_EPOCH.

  zip.py DIRECTORY ARCHIVE"""

import os
import sys
import time
import zipfile


def main():
    top, archive = sys.argv[1:3]
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    paths = sorted(os.path.join(directory, name) for directory, _, names in os.walk(top) for name in names)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as pack:
        for path in paths:
            entry = zipfile.ZipInfo(os.path.relpath(path, top), when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100000 | os.stat(path).st_mode & 0o777) << 16
            with open(path, "rb") as f:
                pack.writestr(entry, f.read())


main()
