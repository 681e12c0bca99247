"""Says which Python packages a sandbox has: `python3 -I - ROOT [NAME]`. A line "+ NAME VERSION" for each, of the
package directory first, then of the image; with NAME only for that one."""

import os
import re
import sys


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def found(root):
    try:
        from importlib import metadata
    except ImportError:  # before 3.8
        for place in [root] + sys.path:
            for entry in sorted(os.listdir(place)) if os.path.isdir(place) else []:
                if entry.endswith((".dist-info", ".egg-info")):
                    name, _, version = entry.rsplit(".", 1)[0].partition("-")
                    yield name, version.partition("-")[0]
        return
    for dist in metadata.distributions(path=[root] + sys.path):
        yield dist.metadata["Name"], dist.version


seen = set()
wanted = normal(sys.argv[2]) if len(sys.argv) > 2 else None
for name, version in found(sys.argv[1]):
    if name and version and normal(name) not in seen and wanted in (None, normal(name)):
        seen.add(normal(name))
        print("+", name, version)
