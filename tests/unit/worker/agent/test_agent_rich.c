/*
 * Displays of live Python: values in all their forms, figures, images, tables. The files of
 * displays are read from outside; pictures are decoded by a few lines of Python without an image
 * library, and the pixels are compared.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"

#define FILE_MAX_BYTES (32u << 20)

/* The first lines of every program that checks a picture: png(path) is (width, height, pixel),
 * where pixel(x, y) has three or four numbers. */
static const char png_module[] =
    "import struct, zlib\n"
    "def png(path):\n"
    "  data, at, packed, palette = open(path, 'rb').read(), 8, b'', None\n"
    "  assert data[:8] == b'\\x89PNG\\r\\n\\x1a\\n'\n"
    "  while at < len(data):\n"
    "    size, kind = struct.unpack('>I4s', data[at:at + 8])\n"
    "    part = data[at + 8:at + 8 + size]\n"
    "    assert struct.unpack('>I', data[at + 8 + size:at + 12 + size])[0] == "
    "zlib.crc32(kind + part)\n"
    "    if kind == b'IHDR': w, h, depth, color, _, _, lace = struct.unpack('>IIBBBBB', part)\n"
    "    elif kind == b'IDAT': packed += part\n"
    "    at += 12 + size\n"
    "  assert (depth, lace) == (8, 0) and color in (2, 6) and kind == b'IEND'\n"
    "  n = 3 if color == 2 else 4\n"
    "  raw, rows, old = zlib.decompress(packed), [], bytearray(w * n)\n"
    "  assert len(raw) == h * (w * n + 1)\n"
    "  for y in range(h):\n"
    "    how, row = raw[y * (w * n + 1)], bytearray(raw[y * (w * n + 1) + 1:(y + 1) * (w * n + "
    "1)])\n"
    "    for i in range(w * n):\n"
    "      a, b, c = row[i - n] if i >= n else 0, old[i], old[i - n] if i >= n else 0\n"
    "      p = a + b - c\n"
    "      near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]\n"
    "      row[i] = row[i] + (0, a, b, (a + b) // 2, near)[how] & 255\n"
    "    rows.append(row)\n"
    "    old = row\n"
    "  return w, h, lambda x, y: tuple(rows[y][x * n:x * n + 3])\n";

static struct agent_result *must_run(struct fixture *f, const char *code)
{
    struct agent_result *r = run(f, "python", code);
    assert_status(r, OP_STATUS_OK);
    return r;
}

/* "1:text/html 1:text/plain 2:image/png" */
static const char *shown(const struct agent_result *r)
{
    static char text[LIMIT_DISPLAYS * 80];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < r->display_count; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u:%s", i > 0 ? " " : "",
                               (unsigned)r->displays[i].number, r->displays[i].mime);
    }
    return text;
}

/* The content of a display's file, which must have the reported size. */
static const char *content(const struct agent_item *item)
{
    static struct buf b;
    struct err err = ERR_INIT;
    buf_finish(&b);
    buf_init(&b, FILE_MAX_BYTES);
    if (file_read(item->path, &b, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(b.len, item->size);
    return buf_cstr(&b);
}

/* Asserts a value of png(path) of png_module about a picture. */
static void assert_png(struct fixture *f, const struct agent_item *item, const char *wanted)
{
    char code[1024];
    struct agent_result kept = f->r;
    memset(&f->r, 0, sizeof(f->r));
    assert_string_equal(item->mime, "image/png");
    snprintf(
        code, sizeof(code),
        "cd / && /usr/bin/python3 -c 'import sys; sys.path.insert(0, \"%s/lib\")\n"
        "from png import png; w, h, at = png(\"%s\"); print(w, h, at(2, 2), at(w - 3, h - 3))'",
        f->agent.workspace, item->path);
    struct agent_result *r = run(f, "bash", code);
    if (strcmp(r->out, wanted) != 0) {
        fail_msg("%s is \"%s\" and not \"%s\": %s", item->path, r->out, wanted, r->err);
    }
    agent_result_finish(&f->r);
    f->r = kept;
}

static int start(void **state)
{
    char code[sizeof(png_module) + 256];
    int rc = fixture_start_with(state, (struct agent_options){.packages = true});
    if (rc == 0) {
        snprintf(code, sizeof(code), "mkdir -p lib; cat > lib/png.py <<'end'\n%send\n", png_module);
        run(fixture_of(state), "bash", code);
    }
    return rc;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void a_value_is_shown_in_all_its_forms(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(f, "class All:\n"
                                         "  def __repr__(self): return 'All()'\n"
                                         "  def _repr_png_(self): return b'\\x89PNG'\n"
                                         "  def _repr_jpeg_(self): return '/9j/'\n"
                                         "  def _repr_svg_(self): return '<svg/>'\n"
                                         "  def _repr_html_(self): return '<b>\\u00e4</b>'\n"
                                         "  def _repr_markdown_(self): return '**x**', {}\n"
                                         "  def _repr_latex_(self): return '$x$'\n"
                                         "  def _repr_json_(self): return {'x': [1, None]}\n"
                                         "All()");
    assert_string_equal(r->result, "All()");
    assert_string_equal(shown(r), "1:image/png 1:image/jpeg 1:image/svg+xml 1:text/html "
                                  "1:text/markdown 1:text/latex 1:application/json");
    assert_string_equal(content(&r->displays[0]), "\x89PNG");
    assert_string_equal(content(&r->displays[1]), "\xff\xd8\xff");
    assert_string_equal(content(&r->displays[3]), "<b>\xc3\xa4</b>");
    assert_string_equal(content(&r->displays[6]), "{\"x\": [1, null]}");
    struct stat st;
    assert_int_equal(stat(r->displays[0].path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    /* a bundle comes first, in whichever form; unknown types are left out */
    r = must_run(f, "class Bundle(All):\n"
                    "  def _repr_mimebundle_(self, include=None, exclude=None):\n"
                    "    return {'text/html': 'bundle', 'image/png': 'iVBORw==', 'x/y': 1}, {}\n"
                    "  _repr_jpeg_ = _repr_svg_ = _repr_markdown_ = _repr_latex_ = None\n"
                    "  def _repr_json_(self): return None\n"
                    "Bundle()");
    assert_string_equal(shown(r), "1:image/png 1:text/html");
    assert_string_equal(content(&r->displays[0]), "\x89PNG");
    assert_string_equal(content(&r->displays[1]), "bundle");
    /* neither classes nor objects that have every attribute */
    r = must_run(f, "import unittest.mock\nunittest.mock.Mock()\nAll");
    assert_int_equal(r->display_count, 0);
    r = must_run(f, "_ = unittest.mock.MagicMock()\n_");
    assert_int_equal(r->display_count, 0);
    r = must_run(f, "40 + 2");
    assert_int_equal(r->display_count, 0);
}

static void display_shows_values_at_once(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(f, "print('a'); display(1, 'two'); display([3]); print('b')");
    assert_string_equal(r->out, "a\n1\n'two'\n[3]\nb\n");
    assert_int_equal(r->display_count, 0);
    r = must_run(f, "display(All()); display({'text/html': '<p>', 'text/plain': 'p'}, raw=True)");
    assert_contains(shown(r), "1:application/json 1:text/plain 2:text/html 2:text/plain");
    assert_string_equal(content(&r->displays[7]), "All()");
    assert_string_equal(r->out, "");
    assert_false(r->last.has_result);
    /* displays are kept, whatever happens later */
    r = run(f, "python", "display(All())\n1/0");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->display_count, 8);
    r = run(f, "python", "display(All())\nimport os\nos._exit(3)");
    assert_status(r, OP_STATUS_CRASHED);
    assert_int_equal(r->display_count, 8);
    assert_string_equal(content(&r->displays[7]), "All()");
    r = must_run(f, "2");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    assert_int_equal(r->display_count, 0);
}

static void code_written_for_ipython_finds_its_displays(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(
        f, "from IPython.display import (display, HTML, Image, Markdown, SVG, JSON, Latex,\n"
           "  clear_output)\n"
           "display(HTML('<i>one</i>'), Markdown('# x')); clear_output(wait=True)\n"
           "display(SVG('<svg>'), Latex('$x$'), Image(data=b'\\xff\\xd8'))\n"
           "open('lib/pic.png', 'wb').write(b'\\x89PNG...')\n"
           "display(Image(filename='lib/pic.png'), Image('lib/pic.png'))\n"
           "JSON({'a': 1})");
    assert_string_equal(
        shown(r),
        "1:text/html 1:text/plain 2:text/markdown 3:image/svg+xml 4:text/latex 5:image/jpeg "
        "6:image/png 7:image/png 8:application/json");
    assert_string_equal(content(&r->displays[1]), "one");
    assert_string_equal(content(&r->displays[7]), "\x89PNG...");
    assert_string_equal(r->err, "");
    r = must_run(
        f, "import IPython\nprint(IPython.get_ipython() is get_ipython())\n"
           "try:\n  import IPython.nothing\nexcept ImportError as e: print(type(e).__name__)");
    assert_string_equal(r->out, "True\nModuleNotFoundError\n");
}

/* ---- errors are reported by a note ----------------------------------------------------------- */

static void a_form_that_fails_costs_only_itself(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(f, "class Bad:\n"
                                         "  def __repr__(self): return 'Bad()'\n"
                                         "  def _repr_html_(self): raise ValueError('no html')\n"
                                         "  def _repr_png_(self): return 5.5\n"
                                         "  def _repr_svg_(self): raise SystemExit\n"
                                         "  def _repr_markdown_(self): return 'still'\n"
                                         "Bad()");
    assert_string_equal(r->result, "Bad()");
    assert_string_equal(shown(r), "1:text/markdown");
    assert_contains(r->err, "_repr_html_ of Bad failed: ValueError: no html\n");
    assert_contains(r->err, "image/png of Bad is of no use");
    assert_contains(r->err, "_repr_svg_ of Bad failed: SystemExit");
    r = must_run(f, "import sys\nsys.stderr.close()\ndisplay(Bad())");
    assert_string_equal(shown(r), "1:text/markdown 1:text/plain");
    /* an interrupt is not caught here, and the interpreter goes on */
    r = run_interrupted(f, "python",
                        "import time\n"
                        "class Slow:\n"
                        "  def _repr_html_(self): print('in'); time.sleep(60)\n"
                        "Slow()",
                        20000);
    assert_string_equal(r->name, "KeyboardInterrupt");
}

static void without_a_place_for_displays_the_run_goes_on(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(f, "class Form:\n"
                                         "  def __init__(self, size=3): self.size = size\n"
                                         "  def _repr_markdown_(self): return 'x' * self.size\n"
                                         "import glob, shutil\n"
                                         "for d in glob.glob('/tmp/.cloister-display-python-*'):\n"
                                         "  shutil.rmtree(d, ignore_errors=True)\n"
                                         "Form()");
    assert_string_equal(shown(r), "1:text/markdown");
    /* no disk space, simulated by a limit on file sizes, and then space again */
    r = must_run(f, "import resource as _r\n"
                    "_r.setrlimit(_r.RLIMIT_FSIZE, (1000, _r.getrlimit(_r.RLIMIT_FSIZE)[1]))\n"
                    "display(Form(5000), Form(10))\n"
                    "_r.setrlimit(_r.RLIMIT_FSIZE, (_r.RLIM_INFINITY,) * 2)\n"
                    "Form(5000)");
    assert_string_equal(shown(r), "1:text/markdown 2:text/markdown");
    assert_int_equal(r->displays[0].size, 10);
    assert_contains(r->err, "cannot keep what is shown: OSError");
    /* a forked child cannot add displays */
    r = must_run(f, "import os\n"
                    "if os.fork() == 0:\n"
                    "  display(Form()); display(7); os._exit(0)\n"
                    "os.wait(); Form()");
    assert_string_equal(shown(r), "1:text/markdown");
    assert_contains(r->out, "7\n");
    /* threads do not affect each other */
    r = must_run(f, "import threading\n"
                    "ts = [threading.Thread(target=lambda: [display(Form()) for _ in range(10)])\n"
                    "      for _ in range(8)]\n"
                    "for t in ts: t.start()\n"
                    "for t in ts: t.join()");
    assert_int_equal(r->display_count, 80);
    assert_int_equal(r->displays[79].number, 80);
}

static void displays_are_bounded_and_what_is_left_out_is_said(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(f, "for i in range(200): display(Form())\nprint('on')");
    assert_int_equal(r->display_count, LIMIT_DISPLAYS);
    assert_string_equal(r->out, "on\n");
    assert_contains(r->err, "left out");
    assert_null(strstr(strstr(r->err, "left out") + 1, "left out")); /* reported once */
    char *first = strdup(r->displays[0].path);
    assert_int_equal(access(first, R_OK), 0);
    r = must_run(f, "for i in range(5): display(Form(7 << 20))");
    assert_int_equal(r->display_count, 3);
    assert_contains(r->err, "24 MiB");
    assert_int_equal(access(first, R_OK), 0); /* earlier small ones did not have to be evicted */
    r = must_run(f, "for i in range(3): display(Form(7 << 20))");
    assert_int_equal(r->display_count, 3);
    assert_string_equal(r->err, "");
    assert_int_equal(access(first, R_OK), -1); /* the oldest one was evicted */
    assert_int_equal(r->displays[2].size, 7 << 20);
    content(&r->displays[2]);
    r = must_run(f, "Form(9 << 20)");
    assert_int_equal(r->display_count, 0);
    assert_contains(r->err, "is left out: more than 8 MiB");
    free(first);
    /* the limit covers all interpreters of the sandbox */
    run(f, "python", "import os\nos._exit(0)");
    r = must_run(
        f, "import glob, os\n"
           "class Form:\n  def _repr_markdown_(self): return 'x' * (7 << 20)\n"
           "display(Form())\n"
           "print(sum(os.path.getsize(p) for d in glob.glob('/tmp/.cloister-display-python-*')"
           "\n  if os.access(d, os.R_OK) for p in glob.glob(d + '/*')) <= 24 << 20)");
    assert_string_equal(r->out, "True\n");
}

/* ---- packages -------------------------------------------------------------------------------- */

static void packages_installed_later_are_found(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python", "import newly");
    assert_string_equal(r->name, "ModuleNotFoundError");
    char code[512];
    snprintf(code, sizeof(code),
             "p=%s/packages/python; mkdir $p/newly $p/bin; "
             "echo 'version = 1' > $p/newly/__init__.py; "
             "printf '#!/bin/sh\\necho tool\\n' > $p/bin/newly-tool; "
             "chmod 755 $p/bin/newly-tool",
             f->agent.dir);
    r = run(f, "bash", code);
    assert_status(r, OP_STATUS_OK);
    r = must_run(f, "import newly; newly.version");
    assert_string_equal(r->result, "1");
    r = must_run(f,
                 "import sys; print(sys.path[0] == '', sys.path[1].endswith('/packages/python'))");
    assert_string_equal(r->out, "True True\n");
    /* replaces the file by another version, which a new import loads */
    snprintf(code, sizeof(code),
             "p=%s/packages/python; mkdir $p/.new; "
             "echo 'version = 22' > $p/.new/__init__.py; "
             "rm -r $p/newly; mv $p/.new $p/newly",
             f->agent.dir);
    run(f, "bash", code);
    r = must_run(f, "import newly; newly.version");
    assert_string_equal(r->result, "22");
    r = must_run(f, "newly.mark = 5");
    r = must_run(f, "import newly; newly.mark");
    assert_string_equal(r->result, "5"); /* and stays loaded as long as nothing changes */
    /* also available to children and other languages */
    r = run(f, "bash",
            "newly-tool; python3 -c 'import newly; print(newly.version)'; "
            "echo ${NODE_PATH##*/packages/} ${PATH##*:}");
    assert_contains(r->out, "tool\n22\nnode/node_modules ");
    assert_contains(r->out, "/packages/node/node_modules/.bin\n");
}

/* ---- libraries ------------------------------------------------------------------------------- */

/* True if this machine lacks the library, so that there is nothing to test. */
static bool is_absent(struct fixture *f, const char *library)
{
    char code[64];
    snprintf(code, sizeof(code), "import %s", library);
    bool absent = run(f, "python", code)->last.status != OP_STATUS_OK;
    if (absent) {
        print_message("# this python3 has no %s\n", library);
    }
    return absent;
}

static void open_figures_are_shown_as_pictures(void **state)
{
    struct fixture *f = fixture_of(state);
    if (is_absent(f, "matplotlib")) {
        return;
    }
    struct agent_result *r = must_run(f, "import matplotlib.pyplot as plt\n"
                                         "plt.figure(facecolor='red'); plt.plot([1, 2])");
    assert_string_equal(shown(r), "1:image/png");
    assert_contains(r->result, "[<matplotlib.lines.Line2D");
    assert_png(f, &r->displays[0], "640 480 (255, 0, 0) (255, 0, 0)\n");
    r = must_run(f, "plt.get_fignums()");
    assert_string_equal(r->result, "[]");
    assert_int_equal(r->display_count, 0);
    /* several figures, in their order, whichever was drawn on last; at the figure's own
     * resolution */
    r = must_run(f, "a = plt.figure(figsize=(2, 1), dpi=50, facecolor='lime'); plt.plot([1])\n"
                    "b = plt.figure(figsize=(1, 1), dpi=80, facecolor='blue'); plt.plot([1])\n"
                    "a.text(0.5, 0.5, 'x'); plt.figure(1);");
    assert_string_equal(shown(r), "1:image/png 2:image/png");
    assert_png(f, &r->displays[0], "100 50 (0, 255, 0) (0, 255, 0)\n");
    assert_png(f, &r->displays[1], "80 80 (0, 0, 255) (0, 0, 255)\n");
    /* show() displays at once; the others are displayed at the end; none twice */
    r = must_run(f, "plt.figure(); plt.plot([1]); plt.show(); print(plt.get_fignums())\n"
                    "plt.figure(facecolor='red', figsize=(1, 1)); plt.plot([2])\nplt.show()\n"
                    "fig, ax = plt.subplots(); fig");
    assert_string_equal(r->out, "[]\n");
    assert_string_equal(shown(r), "1:image/png 2:image/png 3:image/png");
    assert_string_equal(r->result, "<Figure size 640x480 with 1 Axes>");
    r = must_run(f, "fig, ax = plt.subplots(); display(fig)");
    assert_string_equal(shown(r), "1:image/png 1:text/plain");
    r = must_run(f, "fig, ax = plt.subplots(); display(fig); ax.plot([1, 3]);");
    assert_string_equal(shown(r),
                        "1:image/png 1:text/plain 2:image/png"); /* changed, so displayed again */
    r = must_run(f, "fig");
    assert_string_equal(shown(r), "1:image/png"); /* closed before */
    r = must_run(f, "plt.figure()");
    assert_int_equal(r->display_count, 0); /* nothing on it */
    assert_string_equal(r->err, "");
    r = run(f, "python", "plt.plot([1]); 1/0");
    assert_status(r, OP_STATUS_ERROR);
    assert_string_equal(shown(r), "1:image/png");
    r = must_run(f, "plt.figure(figsize=(100, 90), dpi=200, facecolor='red'); plt.plot([1]);");
    assert_string_equal(shown(r), "1:image/png");
    assert_contains(r->err, "a figure of 20000x18000 pixels is shown with");
}

static void a_figure_that_cannot_be_drawn_is_said(void **state)
{
    struct fixture *f = fixture_of(state);
    if (is_absent(f, "matplotlib")) {
        return;
    }
    struct agent_result *r = must_run(f, "import matplotlib.pyplot as plt\n"
                                         "plt.title('$\\\\frac{$'); 5");
    assert_string_equal(r->result, "5");
    assert_int_equal(r->display_count, 0);
    assert_contains(r->err, "a figure cannot be drawn");
    assert_string_equal(must_run(f, "plt.get_fignums()")->result, "[]");
    /* interrupted: closed without being drawn, so that the next run does not display it */
    run_interrupted(f, "python", "import time; plt.plot([1]); print(1); time.sleep(60)", 0);
    r = must_run(f, "plt.get_fignums()");
    assert_string_equal(r->result, "[]");
    assert_int_equal(r->display_count, 0);
    r = run(f, "bash", "echo $MPLBACKEND");
    assert_string_equal(r->out, "agg\n");
}

static void tables_are_shown_as_html(void **state)
{
    struct fixture *f = fixture_of(state);
    if (is_absent(f, "pandas")) {
        return;
    }
    struct agent_result *r =
        must_run(f, "import pandas as pd\n"
                    "df = pd.DataFrame({'name': ['Ann', 'Bob'], 'age': [31, 4]})\ndf");
    assert_string_equal(r->result, "  name  age\n0  Ann   31\n1  Bob    4");
    assert_string_equal(shown(r), "1:text/html");
    assert_contains(content(&r->displays[0]), "<td>Ann</td>");
    r = must_run(f, "df['age']");
    assert_contains(r->result, "0    31\n1     4\nName: age");
    assert_string_equal(shown(r), "1:text/html");
    r = must_run(f, "display(df)");
    assert_string_equal(shown(r), "1:text/html 1:text/plain");
    assert_string_equal(content(&r->displays[1]), "  name  age\n0  Ann   31\n1  Bob    4");
    /* wide and long tables are cut, and say so */
    r = must_run(f, "pd.DataFrame([list(range(10**6, 10**6 + 18))])");
    assert_null(strchr(strchr(r->result, '\n') + 1, '\n')); /* two lines, not folded */
    r = must_run(f, "pd.DataFrame([list(range(500))] * 5000)");
    assert_contains(r->result, "[5000 rows x 500 columns]");
    assert_true(strlen(r->result) < 10000);
    assert_true(r->displays[0].size < 100000);
}

static void images_are_shown_as_pictures(void **state)
{
    struct fixture *f = fixture_of(state);
    if (is_absent(f, "PIL")) {
        return;
    }
    struct agent_result *r = must_run(f, "from PIL import Image\n"
                                         "Image.new('RGB', (30, 20), (255, 0, 7))");
    assert_string_equal(shown(r), "1:image/png");
    assert_contains(r->result, "size=30x20");
    assert_png(f, &r->displays[0], "30 20 (255, 0, 7) (255, 0, 7)\n");
    r = must_run(f, "Image.new('CMYK', (9, 9), (0, 0, 0, 0)).show()");
    assert_png(f, &r->displays[0], "9 9 (255, 255, 255) (255, 255, 255)\n");
    r = must_run(f, "Image.new('RGB', (8000, 1000), 'blue')");
    assert_contains(r->err, "an image of 8000x1000 pixels is shown as 5600x700");
    assert_true(r->displays[0].size < 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_shown_in_all_its_forms),
        cmocka_unit_test(display_shows_values_at_once),
        cmocka_unit_test(code_written_for_ipython_finds_its_displays),
        cmocka_unit_test(a_form_that_fails_costs_only_itself),
        cmocka_unit_test(without_a_place_for_displays_the_run_goes_on),
        cmocka_unit_test(displays_are_bounded_and_what_is_left_out_is_said),
        cmocka_unit_test(packages_installed_later_are_found),
        cmocka_unit_test(open_figures_are_shown_as_pictures),
        cmocka_unit_test(a_figure_that_cannot_be_drawn_is_said),
        cmocka_unit_test(tables_are_shown_as_html),
        cmocka_unit_test(images_are_shown_as_pictures),
    };
    return cmocka_run_group_tests(tests, start, fixture_stop);
}
