# Shows values in all their forms, figures and images. python.py compiles this under its name when
# there is something to show for the first time; python_ipython.py follows in the same text.
#
# Each representation becomes a file in the driver's directory and is reported with its number,
# type, size and path (worker/agent/link/README.md). An error here does not fail the run: the
# representation is left out, and a line on stderr says so. Only an interrupt is passed on.

import base64
import io
import os
import sys
import zlib

ROOT = "/tmp"
TOTAL_MAX = 24 << 20  # bytes of all files together
SHOWN_MAX = 128  # representations in one run; the agent has the same limit
FILE_MAX = 8 << 20  # of one
PIXELS_MAX = 4 << 20  # of one image
PICTURES_BYTES = 600 << 10  # bytes of all pictures of a run that fit into a result
SIDE_MAX = 1568  # pixels: models scale larger pictures down
PATH_MAX = 512
NOTE_MAX = 500
HTML_MAX = 1 << 20  # bytes of HTML that are converted to text,
HTML_TEXT_MAX = 16 << 10  # and characters that are kept of the text
TABLE_WIDTH = 200  # characters in a line of a table
TABLE_COLUMNS = 20

EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "text/html": "html",
    "text/markdown": "md",
    "text/latex": "tex",
    "application/json": "json",
    "text/plain": "txt",
}
METHODS = {
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_svg_": "image/svg+xml",
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}


def note(text):
    try:
        sys.stderr.write("[display] %s\n" % " ".join(str(text).split())[:NOTE_MAX])
    except Exception:
        pass  # closed, or replaced by something odd


def reason(exc):
    try:
        return "%s: %s" % (type(exc).__name__, exc)
    except Exception:
        return type(exc).__name__


def smaller(data, mime, most):
    """The picture in that type with at most that many bytes; None if that is impossible."""
    try:
        from PIL import Image as pillow

        image = pillow.open(io.BytesIO(data))
        if image.width * image.height > 16 * PIXELS_MAX:
            return None
        asked = image.size
        image = image.convert("RGBA")
        image = pillow.alpha_composite(pillow.new("RGBA", asked, "white"), image).convert("RGB")
        side = min(SIDE_MAX, max(asked))
        while side >= 64:
            image.thumbnail((side, side))
            out = io.BytesIO()
            if mime == "image/jpeg":
                image.save(out, "JPEG", quality=80)
            else:
                image.quantize(64).save(out, "PNG", optimize=True)
            if out.tell() <= most:
                note("a picture of %dx%d pixels is shown as %dx%d" % (asked + image.size))
                return out.getvalue()
            side = int(side * 0.75)
    except ImportError:
        pass
    except Exception as exc:
        note("a picture is not made smaller: %s" % reason(exc))
    return None


def says_nothing(text):
    """True for a default repr, by object or by IPython."""
    return text.startswith("<") and (" object at 0x" in text or text.endswith(" object>"))


def text_of_html(data):
    """The text of HTML, for clients that cannot show HTML."""
    from html.parser import HTMLParser

    class Reader(HTMLParser):
        BLOCKS = set("address article aside blockquote br caption dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section table tr ul".split())
        hidden = 0
        kept = ""

        def handle_starttag(self, tag, attrs):
            self.hidden += tag in ("script", "style", "head")
            if tag in self.BLOCKS:
                self.kept += "\n"
            elif tag in ("td", "th"):
                self.kept += "\t"
            self.kept += "- " if tag == "li" else ""

        def handle_endtag(self, tag):
            self.hidden = max(0, self.hidden - (tag in ("script", "style", "head")))
            if tag in self.BLOCKS:
                self.kept += "\n"

        def handle_data(self, data):
            if not self.hidden:
                self.kept += re.sub(r"\s+", " ", data)

    import re

    reader = Reader()
    reader.feed(data[:HTML_MAX].decode("utf-8", "replace"))
    reader.close()
    lines = [" ".join(line.split(" ")).strip().replace("\t", "  ") for line in reader.kept.split("\n")]
    return "\n".join(line for line in lines if line)[:HTML_TEXT_MAX]


class Store:
    """The files of representations. Files of earlier interpreters count as the oldest."""

    def __init__(self, core):
        self.core = core
        self.path = None
        self.kept = []  # (run, name, size), oldest first
        self.total = 0
        self.full_run = None  # run in which something was left out

    def open(self):
        name = ".cloister-display-python-%08x" % zlib.crc32(os.fsencode(self.core.workspace))
        path = os.path.join(ROOT, name)
        try:
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                st = os.lstat(path)
                if st.st_uid != os.geteuid() or st.st_mode & 0o170777 != 0o040700:
                    raise
        except OSError:
            import tempfile

            path = tempfile.mkdtemp(prefix=name + "-")
        if len(path) + 32 > PATH_MAX or not all("!" <= c <= "~" for c in path):
            raise OSError("no directory with a plain name for files: " + path)
        self.path = path
        files = []
        with os.scandir(path) as entries:
            for entry in entries:
                st = entry.stat(follow_symlinks=False)
                files.append((st.st_mtime_ns, entry.name, st.st_size))
        self.kept = [(None, name, size) for _, name, size in sorted(files)]
        self.total = sum(size for _, _, size in files)

    def remove_oldest(self):
        """Removes the oldest file of earlier runs. False if there is none."""
        if not self.kept or self.kept[0][0] == self.core.state.run:
            return False
        _, name, size = self.kept.pop(0)
        self.total -= size
        try:
            os.unlink(os.path.join(self.path, name))
        except OSError:
            pass
        return True

    def make_room(self, size):
        """Makes room. False, and nothing is removed, if all files of earlier runs together are too
        small."""
        run = self.core.state.run
        if sum(old for of, _, old in self.kept if of == run) + size > TOTAL_MAX:
            return False
        while self.total + size > TOTAL_MAX and self.remove_oldest():
            pass
        return True

    def write(self, name, data):
        path = os.path.join(self.path, name)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except BaseException:
            try:
                os.unlink(path)
            except OSError:
                pass
            raise
        finally:
            os.close(fd)
        return path

    def put(self, name, data):
        """Writes the content to a new file and returns its path."""
        if self.path is None or not os.path.isdir(self.path):
            self.open()  # user code may have removed the directory
        if not self.make_room(len(data)):
            raise OverflowError("%d MiB of files are all that is kept" % (TOTAL_MAX >> 20))
        try:
            path = self.write(name, data)
        except OSError:
            # on a full disk, removing old files may make room
            if not self.remove_oldest():
                raise
            while self.remove_oldest():
                pass
            path = self.write(name, data)
        self.kept.append((self.core.state.run, name, len(data)))
        self.total += len(data)
        return path


class Rich:
    def __init__(self, core):
        self.core = core
        self.store = Store(core)
        self.shown_figures = {}  # id of a figure: checksum of its picture shown in this run
        self.shown_run = None
        self.picture_run = None
        self.picture_bytes = 0  # rest of PICTURES_BYTES in that run

    def ours(self):
        # a forked child must not send reports
        return os.getpid() == self.core.pid

    # ---- emitting --------------------------------------------------------------------------------

    def leave_out(self, why):
        if self.store.full_run != self.core.state.run:
            self.store.full_run = self.core.state.run
            note("left out, as is what follows in this run if there is no room for it: %s" % why)

    def add_smaller(self, bundle):
        """Adds a smaller form of a picture that would leave too little room for others of this
        run."""
        if self.picture_run != self.core.state.run:
            self.picture_run, self.picture_bytes = self.core.state.run, PICTURES_BYTES
        kinds = [mime for mime in ("image/png", "image/jpeg") if mime in bundle]
        if not kinds:
            return
        size = min(len(bundle[mime]) for mime in kinds)
        if size > self.picture_bytes * 3 // 4 and len(kinds) == 1:
            other = "image/jpeg" if kinds == ["image/png"] else "image/png"
            data = smaller(bundle[kinds[0]], other, self.picture_bytes // 4)
            if data:
                bundle[other] = data
                size = len(data)
        self.picture_bytes = max(0, self.picture_bytes - size)

    def emit(self, bundle):
        """Shows one thing; bundle maps MIME types to bytes."""
        core, state = self.core, self.core.state
        with core.reporting:
            self.add_smaller(bundle)
            number = state.number_shown + 1
            for mime, extension in EXTENSIONS.items():
                data = bundle.get(mime)
                if data is None:
                    continue
                if state.shown >= SHOWN_MAX:
                    self.leave_out("%d representations are all that one run may show" % SHOWN_MAX)
                    return
                name = "%04d-%d.%s" % (state.run, number, extension)
                try:
                    path = self.store.put(name, data)
                except OverflowError as exc:
                    self.leave_out(exc)
                    continue
                except (OSError, ValueError) as exc:
                    note("cannot keep what is shown: %s" % reason(exc))
                    continue
                record = "%d\n%s\n%d\n%s" % (number, mime, len(data), path)
                core.send([(b"V", record.encode())])
                state.shown += 1
                state.number_shown = number

    # ---- forms of a value ------------------------------------------------------------------------

    def as_bytes(self, mime, data):
        """The bytes of a form; None if the data cannot be one."""
        if data is None:
            return None
        if mime == "application/json":
            import json

            text = data if isinstance(data, str) else json.dumps(data, default=str)
            data = text.encode("utf-8", "replace")
        elif isinstance(data, str):
            if mime in ("image/png", "image/jpeg"):
                data = base64.b64decode(data)
            else:
                data = data.encode("utf-8", "backslashreplace")
        data = bytes(data)
        if len(data) > FILE_MAX:
            note("%s of %d bytes is left out: more than %d MiB" % (mime, len(data), FILE_MAX >> 20))
            return None
        return data or None

    def call(self, value, method, **options):
        """The result of a display method of its type; None if it has none, or it fails."""
        function = getattr(type(value), method, None)
        if function is None or not callable(function):
            return None
        try:
            return function(value, **options)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            if not isinstance(exc, NotImplementedError):
                note("%s of %s failed: %s" % (method, type(value).__name__, reason(exc)))
            return None

    def collect(self, value):
        """The forms that the object itself offers, by MIME type."""
        forms = {}
        bundle = self.call(value, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(bundle, tuple) and bundle:
            bundle = bundle[0]
        if isinstance(bundle, dict):
            forms.update((mime, data) for mime, data in bundle.items() if mime in EXTENSIONS)
        for method, mime in METHODS.items():
            if forms.get(mime) is None:
                data = self.call(value, method)
                forms[mime] = data[0] if isinstance(data, tuple) and data else data
        return forms

    def checked(self, value, forms):
        bundle = {}
        for mime, data in forms.items():
            try:
                data = self.as_bytes(mime, data)
            except Exception as exc:
                note("%s of %s is of no use: %s" % (mime, type(value).__name__, reason(exc)))
                continue
            if data is not None:
                bundle[mime] = data
        return bundle

    def forms(self, value):
        """Its forms except plain text, as bytes. Objects of some libraries get further ones."""
        kind = type(value)
        if isinstance(value, type) or kind.__module__ == "builtins":
            return {}
        if self.is_one(value, "matplotlib.figure", "Figure"):
            return self.figure_forms(value)
        if self.is_one(value, "PIL.Image", "Image"):
            return self.image_forms(value)
        found = self.checked(value, self.collect(value))
        if not found and self.is_one(value, "pandas", "Series"):
            found = self.checked(value, {"text/html": self.call(value.to_frame(), "_repr_html_")})
        if not found and kind.__module__.startswith("plotly.") and hasattr(kind, "to_html"):
            try:
                html = value.to_html(full_html=True, include_plotlyjs="cdn")
                found = self.checked(value, {"text/html": html})
            except Exception as exc:
                note("to_html of %s failed: %s" % (kind.__name__, reason(exc)))
        return found

    def is_one(self, value, module, *names):
        """Whether its type is one of these classes. Neither the module nor the value can be
        trusted: tests replace modules by other objects, and proxies may have a __class__
        that fails."""
        module = sys.modules.get(module)
        kinds = [getattr(module, name, None) for name in names]
        return issubclass(type(value), tuple(kind for kind in kinds if isinstance(kind, type)))

    def text(self, value):
        """The repr() of a value, with wider tables."""
        if not self.is_one(value, "pandas", "DataFrame", "Series"):
            return repr(value)
        pandas = sys.modules["pandas"]
        options = []
        try:
            if pandas.get_option("display.width") == 80:
                options += ["display.width", TABLE_WIDTH]
            if not pandas.get_option("display.max_columns"):
                options += ["display.max_columns", TABLE_COLUMNS]
            context = pandas.option_context(*options) if options else None
        except Exception:
            context = None
        if context is None:
            return repr(value)
        with context:
            return repr(value)

    def show_value(self, value):
        """Handles the value of the last expression: returns its text as the result and shows its
        other forms."""
        text = self.text(value)
        if self.ours():
            try:
                if not self.is_open_figure(value):  # open figures are shown at the end
                    forms = self.forms(value)
                    self.emit(forms)
                    if says_nothing(text) and "text/html" in forms:
                        text = text_of_html(forms["text/html"]) or text
            except Exception as exc:
                note("cannot show %s: %s" % (type(value).__name__, reason(exc)))
        return text

    def display(self, *objs, raw=False, include=None, exclude=None, metadata=None, **options):
        for value in objs:
            try:
                if raw and isinstance(value, dict):
                    known = {mime: value[mime] for mime in value if mime in EXTENSIONS}
                    bundle = self.checked(value, known)
                else:
                    bundle = self.forms(value)
                    text = self.text(value) if bundle else ""
                    if bundle and not says_nothing(text):
                        text = text.encode("utf-8", "backslashreplace")
                        bundle.setdefault("text/plain", text[:FILE_MAX])
                if "text/html" in bundle and "text/plain" not in bundle:
                    text = text_of_html(bundle["text/html"])
                    if text:
                        bundle["text/plain"] = text.encode("utf-8", "backslashreplace")
                if bundle and self.ours() and bundle.keys() != {"text/plain"}:
                    self.emit(bundle)
                elif "text/plain" in bundle:
                    print(bundle["text/plain"].decode("utf-8", "replace"))
                else:
                    print(self.text(value))
            except Exception as exc:
                note("cannot show %s: %s" % (type(value).__name__, reason(exc)))
        if options.get("display_id"):
            return DisplayHandle(self.core.display, options["display_id"])
        return None

    # ---- images ----------------------------------------------------------------------------------

    def image_forms(self, image):
        try:
            if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
                image = image.convert("RGB")
            asked = image.size
            while True:
                pixels = image.size[0] * image.size[1]
                data = None
                if pixels <= PIXELS_MAX:
                    out = io.BytesIO()
                    image.save(out, "PNG")
                    data = out.getvalue()
                    if len(data) <= FILE_MAX:
                        break
                factor = min(0.7, (PIXELS_MAX / pixels) ** 0.5)
                size = [max(1, int(side * factor)) for side in image.size]
                if image.mode in ("1", "P"):
                    image = image.convert("RGBA")
                image = image.resize(size, reducing_gap=2.0)
            if image.size != asked:
                note("an image of %dx%d pixels is shown as %dx%d" % (asked + image.size))
            return {"image/png": data} if data else {}
        except Exception as exc:
            note("cannot show an image: %s" % reason(exc))
            return {}

    # ---- matplotlib ------------------------------------------------------------------------------

    def figure_png(self, figure):
        if not (figure.axes or figure.lines or figure.images or figure.texts or figure.patches):
            return None  # made and never used
        width, height = figure.get_size_inches()
        dpi = figure.dpi
        most = (PIXELS_MAX / max(width * height, 1e-9)) ** 0.5
        if dpi > most:
            note("a figure of %dx%d pixels is shown with %d dpi" % (width * dpi, height * dpi, most))
            dpi = most
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=dpi)
        return out.getvalue()

    def figure_forms(self, figure):
        if self.shown_run != self.core.state.run:
            self.shown_run = self.core.state.run
            self.shown_figures.clear()
        try:
            data = self.figure_png(figure)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            note("a figure cannot be drawn: %s" % reason(exc))
            return {}
        if data is None:
            return {}
        # shown again only if it has changed
        mark = (len(data), zlib.crc32(data))
        if self.shown_figures.get(id(figure)) == mark:
            return {}
        self.shown_figures[id(figure)] = mark
        return self.checked(figure, {"image/png": data})

    def managers(self):
        """The figure managers that pyplot has open, ordered by number."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None:
            return []
        return sorted(helpers.Gcf.get_all_fig_managers(), key=lambda manager: str(manager.num).zfill(9))

    def is_open_figure(self, value):
        return any(manager.canvas.figure is value for manager in self.managers())

    def show_figures(self):
        """Shows and closes all open figures."""
        if not self.ours():
            return
        try:
            managers = self.managers()
            for manager in managers:
                self.emit(self.figure_forms(manager.canvas.figure))
        except Exception as exc:
            note("cannot show figures: %s" % reason(exc))
        finally:
            self.close_figures()

    def close_figures(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        try:
            if pyplot is not None and self.managers():
                pyplot.close("all")
        except Exception as exc:
            note("cannot close figures: %s" % reason(exc))

    def hook_pyplot(self, pyplot):
        rich = self

        def show(*args, **kwargs):
            """Replaces plt.show(): shows all open figures and closes them."""
            rich.show_figures()

        def pause(interval):
            """Replaces plt.pause(): waits, since there is no window."""
            import time

            time.sleep(interval)

        def show_figure(self, warn=True):
            """Replaces Figure.show(): shows this figure and closes it."""
            rich.emit(rich.figure_forms(self))
            if rich.is_open_figure(self):
                pyplot.close(self)

        pyplot.show = show
        pyplot.pause = pause
        figure = sys.modules.get("matplotlib.figure")
        if figure is not None:
            figure.Figure.show = show_figure

    # ---- other libraries -------------------------------------------------------------------------

    def hook_imageshow(self, module):
        rich = self

        class Viewer(module.Viewer):
            def show(self, image, **options):
                rich.display(image)
                return 1

        module.register(Viewer(), 0)

    def hook_plotly(self, module):
        rich = self

        def show(self, *args, **kwargs):
            rich.display(self)

        module.BaseFigure.show = show

    def hook_ipython(self, module):
        module.display = self.core.display
        if hasattr(module, "clear_output"):
            module.clear_output = clear_output

    def hooked(self, name):
        return {
            "matplotlib.pyplot": self.hook_pyplot,
            "PIL.ImageShow": self.hook_imageshow,
            "plotly.basedatatypes": self.hook_plotly,
        }.get(name, self.hook_ipython)

    def find_hooked(self, name, path, target):
        for finder in list(sys.meta_path):
            if finder is self.core.hooks:
                continue
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module") and not isinstance(spec.loader, Standin):
                    spec.loader = Hooked(spec.loader, self.hooked(name))
                return spec
        return None

    def find_standin(self, name):
        if name not in STANDINS:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, Standin(self), is_package=name in ("IPython", "IPython.core"))

    # ---- packages --------------------------------------------------------------------------------

    def packages_changed(self, directory):
        """Packages were installed or replaced: unloads the modules of replaced ones, and those that
        were imported in advance from elsewhere, which code would have found here first."""
        import importlib

        importlib.invalidate_caches()
        for name in STANDINS:
            sys.modules.pop(name, None)
        stale, stuck = set(), set()
        for name, module in list(sys.modules.items()):
            origin = getattr(getattr(module, "__spec__", None), "origin", None)
            top = name.partition(".")[0]
            if not isinstance(origin, str):
                continue
            if origin.startswith(directory + "/"):
                try:
                    changed = os.stat(origin).st_ctime_ns >= self.core.state.packages_ns
                except OSError:
                    changed = True
            elif top in self.core.state.advance:
                changed = any(os.path.exists("%s/%s%s" % (directory, top, end)) for end in ("", ".py"))
            else:
                continue
            if changed:
                stale.add(top)
            if not origin.endswith(".py"):
                stuck.add(top)
        for top in stale & stuck:
            # an extension module cannot be loaded twice into one process
            note("%s was replaced; the interpreter that uses it keeps the old one till it ends" % top)
        for name in list(sys.modules):
            if name.partition(".")[0] in stale - stuck:
                del sys.modules[name]


class Hooked:
    """A loader that patches a module after it was loaded."""

    def __init__(self, loader, after):
        self.loader = loader
        self.after = after

    def create_module(self, spec):
        create = getattr(self.loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        try:
            self.after(module)
        except Exception as exc:
            note("%s is used as it is: %s" % (module.__name__, reason(exc)))

    def __getattr__(self, name):
        return getattr(self.loader, name)
