# The module pip of a sandbox: `python -m pip install NAMES` goes by the installer (installs/front.c),
# everything else is the image's pip, which is loaded in this module's place.

import os
import sys


def front():
    return os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bin", "pip")


def runs_as_program():
    words = getattr(sys, "orig_argv", None)
    if words is None:  # before Python 3.10
        return sys.argv[0] == "-m"
    return any(words[i : i + 2] == ["-m", "pip"] for i in range(len(words))) or "-mpip" in words


def has_passed_front():
    # an old pip's own script calls main(), as it does when the front has left the work to it
    name = os.path.basename(sys.argv[0]).rstrip("-.0123456789") if sys.argv else ""
    return name == "pip" or os.environ.get("CLOISTER_INSTALLS") == "real"


def wants_installation(words):
    verbs = [word for word in words if not word.startswith("-")]
    return verbs[:1] == ["install"]


def load():
    from importlib.machinery import PathFinder

    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = PathFinder.find_spec("pip", [place for place in sys.path if os.path.abspath(place or ".") != own])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'pip'", name="pip")
    program, module = front(), sys.modules[__name__]
    module.__spec__, module.__file__, module.__path__ = spec, spec.origin, spec.submodule_search_locations
    spec.loader.exec_module(module)
    own_main = getattr(module, "main", None)

    def main(args=None):
        words = list(sys.argv[1:] if args is None else args)
        if has_passed_front() or not wants_installation(words):
            return own_main(args)
        import subprocess

        return subprocess.call([program, *words])

    if own_main is not None:
        module.main = main


if sys.argv and sys.argv[0] == "-m" and runs_as_program() and wants_installation(sys.argv[1:]) and not has_passed_front():
    sys.stdout.flush()
    os.execv(front(), ["pip", *sys.argv[1:]])
load()
