# A substitute for IPython.display where IPython is not installed: display(), and classes for things
# with one form. It is appended to python_rich.py and uses its names.

import base64
import io
import os


def clear_output(wait=False):
    """Does nothing: output that was sent cannot be cleared."""


class DisplayHandle:
    """Returned by display() with a display_id. An update is shown as another display."""

    def __init__(self, show, display_id):
        self.display_id = display_id
        self.display = self.update = show


class DisplayObject:
    """Something with one form, given as data or as the name of a file."""

    mime = "text/plain"
    binary = False

    def __init__(self, data=None, url=None, filename=None, metadata=None, **options):
        if filename is None and url is None and self.is_name(data):
            data, filename = None, os.fspath(data)
        self.data, self.url, self.filename, self.metadata = data, url, filename, metadata or {}
        if filename is not None:
            self.reload()
        elif url is not None:
            from urllib.request import urlopen

            with urlopen(url) as answer:
                self.data = answer.read()
                self.data = self.data if self.binary else self.data.decode("utf-8", "replace")

    def is_name(self, data):
        return isinstance(data, os.PathLike)

    def reload(self):
        mode = "rb" if self.binary else "r"
        with open(self.filename, mode, encoding=None if self.binary else "utf-8") as file:
            self.data = file.read()

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.mime: self.data}


class HTML(DisplayObject):
    mime = "text/html"


class Markdown(DisplayObject):
    mime = "text/markdown"


class Latex(DisplayObject):
    mime = "text/latex"


class Math(DisplayObject):
    mime = "text/latex"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.mime: "$\\displaystyle %s$" % self.data.strip("$")}


class Pretty(DisplayObject):
    def __repr__(self):
        return str(self.data)


class Code(DisplayObject):
    mime = "text/markdown"

    def __init__(self, data=None, url=None, filename=None, language=None, **options):
        super().__init__(data, url, filename)
        self.language = language

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.mime: "```%s\n%s\n```" % (self.language or "", self.data)}


class JSON(DisplayObject):
    mime = "application/json"

    def __init__(self, data=None, url=None, filename=None, **options):
        super().__init__(data, url, filename)


class SVG(DisplayObject):
    mime = "image/svg+xml"

    def is_name(self, data):
        return super().is_name(data) or isinstance(data, str) and "<" not in data


class Image(DisplayObject):
    binary = True

    def __init__(self, data=None, url=None, filename=None, format=None, **options):
        super().__init__(data, url, filename)
        if isinstance(self.data, str):
            self.data = base64.b64decode(self.data)
        self.data = bytes(self.data or b"")
        self.format = format

    def is_name(self, data):
        return super().is_name(data) or isinstance(data, str) and os.path.exists(data)

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data.startswith(b"\x89PNG"):
            return {"image/png": self.data}
        if self.data.startswith(b"\xff\xd8"):
            return {"image/jpeg": self.data}
        if (self.format or str(self.filename)).lower().endswith("svg"):
            return {"image/svg+xml": self.data.decode("utf-8", "replace")}
        from PIL import Image as pillow  # other kinds are shown as PNG

        out = io.BytesIO()
        pillow.open(io.BytesIO(self.data)).save(out, "PNG")
        return {"image/png": out.getvalue()}


OBJECTS = (HTML, Markdown, Latex, Math, Pretty, Code, JSON, SVG, Image, DisplayObject)
STANDINS = (
    "IPython",
    "IPython.display",
    "IPython.core",
    "IPython.core.display",
    "IPython.core.display_functions",
)


class Standin:
    """Loads the modules that notebook code imports: display classes, and get_ipython()."""

    def __init__(self, rich):
        self.rich = rich

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.display = self.rich.core.display
        module.clear_output = clear_output
        if module.__name__ in ("IPython", "IPython.core"):
            module.__path__ = []
            module.__version__ = "8.0.0"
            module.version_info = (8, 0, 0)
            module.get_ipython = self.rich.core.get_ipython
            return
        for kind in OBJECTS:
            setattr(module, kind.__name__, kind)
