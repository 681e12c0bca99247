# Draws a chart in the sandbox: what and of what is JSON on stdin, where it went is JSON on stdout. A
# program of its own, so it neither sees nor changes what user code has in its interpreter.

import base64
import html
import json
import os
import sys
import uuid

IMAGE_MAX = 300 << 10  # bytes that still fit into an answer twice
HTML_MAX = 700_000  # of what it costs as JSON in a JSON text
COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"]


def place(ask, kind, ending):
    path = ask.get("save_path") or f"{kind}_{uuid.uuid4().hex[:8]}{ending}"
    path = os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def column(rows, key):
    try:
        return [row[key] for row in rows]
    except KeyError:
        raise ValueError(f"data has rows without {key!r}") from None


def several(keys):
    return [keys] if isinstance(keys, str) else list(keys)


# ---- pictures ----------------------------------------------------------------------------------------


def line(ask, axes):
    for key in several(ask["y_keys"]):
        axes.plot(column(ask["data"], ask["x_key"]), column(ask["data"], key), marker="o", label=key)
    axes.legend()


def bar(ask, axes):
    keys = several(ask["value_keys"])
    names = [str(name) for name in column(ask["data"], ask["category_key"])]
    flat = ask.get("orientation") == "horizontal"
    width = 0.8 / len(keys)
    for i, key in enumerate(keys):
        at = [n + (i - (len(keys) - 1) / 2) * width for n in range(len(names))]
        (axes.barh if flat else axes.bar)(at, column(ask["data"], key), width, label=key)
    (axes.set_yticks if flat else axes.set_xticks)(range(len(names)), names)
    axes.legend()


def scatter(ask, axes):
    rows = ask["data"]
    more = {}
    if ask.get("size_key"):
        more["s"] = column(rows, ask["size_key"])
    colors = column(rows, ask["color_key"]) if ask.get("color_key") else None
    x, y = column(rows, ask["x_key"]), column(rows, ask["y_key"])
    if colors is not None and not all(isinstance(c, (int, float)) for c in colors):
        for name in dict.fromkeys(map(str, colors)):
            pick = [i for i, c in enumerate(colors) if str(c) == name]
            part = {key: [value[i] for i in pick] for key, value in more.items()}
            axes.scatter([x[i] for i in pick], [y[i] for i in pick], label=name, **part)
        axes.legend(title=ask["color_key"])
        return
    if colors is not None:
        more["c"] = colors
    points = axes.scatter(x, y, **more)
    if colors is not None:
        axes.figure.colorbar(points, label=ask["color_key"])


def heatmap(ask, axes):
    shown = axes.imshow(ask["data"], cmap=ask.get("cmap") or "viridis", aspect="auto")
    axes.figure.colorbar(shown)
    for labels, ticks in ((ask.get("col_labels"), axes.set_xticks), (ask.get("row_labels"), axes.set_yticks)):
        if labels:
            ticks(range(len(labels)), [str(label) for label in labels])


def picture(ask):
    try:
        import matplotlib
    except ImportError:
        raise ValueError("matplotlib is not in this sandbox: install_package installs it") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 6))
    {"line": line, "bar": bar, "scatter": scatter, "heatmap": heatmap}[ask["chart_type"]](ask, axes)
    axes.set_title(ask["title"])
    if ask.get("x_label"):
        axes.set_xlabel(ask["x_label"])
    if ask.get("y_label"):
        axes.set_ylabel(ask["y_label"])
    figure.tight_layout()
    path = place(ask, ask["chart_type"], ".png")
    figure.savefig(path, format="png", dpi=100)
    with open(path, "rb") as file:
        data = file.read()
    image = base64.b64encode(data).decode() if len(data) <= IMAGE_MAX else None
    return {"file_path": path, "base64_image": image}


# ---- a page ------------------------------------------------------------------------------------------


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def kind_of(ask):
    """What is drawn: a line for a kind that is not known, as that server does."""
    kind = ask["chart_type"].lower()
    return kind if kind in ("bar", "scatter", "area") else "line"


# A page of SVG that shows each value where the pointer is: it loads nothing from anywhere.
def page(ask):
    rows, keys = ask["data"], several(ask["y_keys"])
    xs = column(rows, ask["x_key"])
    series = [column(rows, key) for key in keys]
    values = [v for part in series for v in part if number(v)]
    if not values:
        raise ValueError("data has no numbers to show")
    low, high = min(values + [0]), max(values + [0])
    span = (high - low) or 1
    wide, tall, edge = 760, 360, 50

    def y_of(v):
        return round(edge + (high - v) / span * tall, 2)

    kind = kind_of(ask)
    numeric = kind == "scatter" and all(map(number, xs))
    least, most = (min(xs), max(xs)) if numeric else (0, len(xs))

    def x_of(i):
        part = (xs[i] - least) / ((most - least) or 1) if numeric else (i + 0.5) / max(len(xs), 1)
        return round(edge + part * wide, 2)

    body = [f'<line x1="{edge}" x2="{edge + wide}" y1="{y_of(0)}" y2="{y_of(0)}" stroke="#888"/>']
    for v in (low, high):
        body.append(f'<text x="{edge - 6}" y="{y_of(v) + 4}" text-anchor="end">{v:g}</text>')
    step = max(1, len(xs) // 12)
    for i in range(0, len(xs), step):
        body.append(f'<text x="{x_of(i)}" y="{edge + tall + 20}" text-anchor="middle">{html.escape(str(xs[i]))}</text>')
    for k, (key, part) in enumerate(zip(keys, series)):
        color = COLORS[k % len(COLORS)]
        points = [(x_of(i), y_of(v), xs[i], v) for i, v in enumerate(part) if number(v)]
        if kind == "area" and points:
            under = [f"{points[0][0]},{y_of(0)}", *(f"{x},{y}" for x, y, _, _ in points), f"{points[-1][0]},{y_of(0)}"]
            body.append(f'<polygon fill="{color}" fill-opacity="0.4" stroke="none" points="{" ".join(under)}"/>')
        if kind in ("line", "area"):
            body.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{" ".join(f"{x},{y}" for x, y, _, _ in points)}"/>')
        for x, y, at, v in points:
            label = f"<title>{html.escape(f'{key}: {at}, {v:g}')}</title>"
            if kind == "bar":
                width = round(wide / max(len(xs), 1) * 0.8 / len(keys), 2)
                left = round(x - width * len(keys) / 2 + k * width, 2)
                top, bottom = min(y, y_of(0)), max(y, y_of(0))
                body.append(f'<rect x="{left}" y="{top}" width="{width}" height="{round(bottom - top, 2)}" fill="{color}">{label}</rect>')
            else:
                body.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{color}">{label}</circle>')
        body.append(f'<text x="{edge + 10 + 120 * k}" y="{edge - 12}" fill="{color}">{html.escape(str(key))}</text>')
    title = html.escape(ask["title"])
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title><style>body{{font:14px sans-serif}}'
        f"circle:hover,rect:hover{{stroke:#000;stroke-width:2}}</style></head><body><h2>{title}</h2>"
        f'<svg viewBox="0 0 {wide + 2 * edge} {tall + 2 * edge}" width="100%">{"".join(body)}</svg></body></html>'
    )


def full_page(ask):
    """The same by plotly, which is large but whole in itself; None without it."""
    try:
        import plotly.graph_objects as graph
    except ImportError:
        return None
    figure = graph.Figure()
    kind = kind_of(ask)
    xs = column(ask["data"], ask["x_key"])
    for key in several(ask["y_keys"]):
        ys = column(ask["data"], key)
        if kind == "bar":
            figure.add_bar(x=xs, y=ys, name=key)
        elif kind == "area":
            figure.add_scatter(x=xs, y=ys, name=key, mode="lines", fill="tozeroy")
        else:
            figure.add_scatter(x=xs, y=ys, name=key, mode="markers" if kind == "scatter" else "lines+markers")
    figure.update_layout(title=ask["title"])
    return figure.to_html(include_plotlyjs=True)


def interactive(ask):
    small = page(ask)
    path = place(ask, kind_of(ask), ".html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(full_page(ask) or small)
    return {"file_path": path, "html_content": small if len(json.dumps(json.dumps(small))) <= HTML_MAX else None}


def main():
    try:
        ask = json.load(sys.stdin)
        done = interactive(ask) if ask.get("interactive") else picture(ask)
    except (ValueError, TypeError, KeyError, OSError, IndexError) as error:
        done = {"error": f"{error}" or type(error).__name__}
    print(json.dumps(done))


main()
