"""The drawings of report.py: bars, stacks, points and lines as SVG text that stands inside a page.

Knows nothing of rows. 360 units wide, so that a phone shows them one to one. Colours are the
classes c0 ... c7 of the page's style sheet, which has them for light and dark; what a colour tells,
a shape, a hatching or a label tells too. All text is escaped here."""

import html
import math

WIDTH = 360
COLOURS = 8
SHAPES = 8


def escape(text):
    """Fit for XML, too: control characters are not, even as references."""
    return html.escape("".join(c if c.isprintable() or c == " " else "?" for c in str(text)))


def short(text, most):
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def text_width(text):
    return 6.6 * len(text)  # of a wide sans serif at 11 units


def number(value):
    """An axis label: 1200000 as 1.2M."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def tokens(value):
    """As the command line writes a length: 8192 as 8k."""
    for scale, letter in ((1 << 20, "m"), (1 << 10, "k")):
        if value >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def ticks(top, most=5):
    """From 0 to at least `top` in steps of 1, 2 or 5."""
    if not top > 0 or not math.isfinite(top):
        return [0, 1]
    raw = top / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.999)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def text(x, y, words, cls="", anchor="start", tip=None):
    tip = f"<title>{escape(tip)}</title>" if tip else ""
    cls = f' class="{cls}"' if cls else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{cls}>{tip}{escape(words)}</text>'


def line(x1, y1, x2, y2, cls):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{cls}"/>'


def marker(index, x, y, hollow=False, tip=""):
    """One of eight shapes in one of eight colours: no two indices below 64 have the same."""
    shape, r = (index + index // COLOURS) % SHAPES, 4.5
    paths = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z",
        f"M{x:.1f} {y - 5:.1f}l5 9h-10z",
        f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        f"M{x:.1f} {y + 5:.1f}l5 -9h-10z",
        f"M{x - 1.5:.1f} {y - 5:.1f}h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
        f"M{x - 5:.1f} {y - 3:.1f}l5 -2.5l5 2.5v6l-5 2.5l-5 -2.5z",
        f"M{x - 5:.1f} {y - 2:.1f}h10v4h-10z",
    )
    tip = f"<title>{escape(tip)}</title>" if tip else ""
    cls = f"m c{index % COLOURS}" + (" hollow" if hollow else "")
    return f'<path class="{cls}" d="{paths[shape]}">{tip}</path>'


def area(index, x, y, width, height, tip=""):
    """Of a bar: its colour and the hatching that goes with it."""
    tip = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect class="s c{index % COLOURS} h{index % COLOURS}" x="{x:.1f}" y="{y:.1f}" '
        f'width="{width:.1f}" height="{height}">{tip}</rect>'
    )


def swatch(index, x, y):
    return area(index, x - 5, y - 5, 10, 10)


def legend(entries, y, draw):
    """(what to draw, its height): [(index, words)] in lines as wide as the drawing."""
    out, x, top = [], 8.0, y
    for index, words in entries:
        words = short(words, 52)
        width = 18 + text_width(words) + 10
        if x > 8 and x + width > WIDTH:
            x, y = 8.0, y + 17
        out += [draw(index, x + 5, y - 4), text(x + 14, y, words)]
        x += width
    return out, (y - top + 17 if entries else 0)


def drawing(name, about, height, parts):
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(name)}: {escape(about)}">'
        f"<title>{escape(name)}</title><desc>{escape(about)}</desc>" + "".join(parts) + "</svg>"
    )


def _left_of(labels):
    return min(max([text_width(label) for label in labels] + [30]) + 12, 136)


def _value_axis(left, right, top, bottom, marks, unit, show=number):
    """Grid and labels of a value axis at the bottom; (parts, x of a value)."""
    scale = (right - left) / marks[-1]
    parts = []
    for mark in marks:
        x = left + mark * scale
        parts += [
            line(x, top, x, bottom, "grid"),
            text(x, bottom + 14, show(mark), "dim", "middle"),
        ]
    parts.append(text((left + right) / 2, bottom + 29, unit, "dim", "middle"))
    return parts, lambda value: left + value * scale


def bars(name, about, rows, unit, key=(), top_value=None):
    """rows: [(label, [(value or None, index, tip)], note)]; a note stands behind the bars or, where
    there are none, in their place."""
    labels = [short(label, 19) for label, _, _ in rows]
    left, right, y = _left_of(labels), WIDTH - 62.0, 8.0
    values = [v for _, some, _ in rows for v, _, _ in some if v is not None]
    marks = ticks(max(values + [top_value or 0]), 3)
    heights = [max(len(some), 1) * 10 + 10 for _, some, _ in rows]
    bottom = y + sum(heights)
    parts, x_of = _value_axis(left, right, y, bottom, marks, unit)
    for (label, some, note), shown, height in zip(rows, labels, heights):
        parts.append(text(left - 6, y + height / 2 + 4, shown, "", "end", label))
        end = left
        for i, (value, index, tip) in enumerate(some):
            if value is None:
                continue
            end = max(end, x_of(value))
            parts.append(area(index, left, y + 5 + i * 10, max(x_of(value) - left, 0.5), 9, tip))
        parts.append(text(end + 5, y + height / 2 + 4, note, "" if end > left else "dim"))
        y += height
    below, more = legend(key, bottom + 48, swatch)
    return drawing(name, about, bottom + 36 + more, parts + below)


def stacks(name, about, rows, unit, key, top_value=None):
    """rows: [(label, [(value, index, tip)], note)], one bar each of parts behind one another."""
    labels = [short(label, 19) for label, _, _ in rows]
    left, right, y, height = _left_of(labels), WIDTH - 62.0, 8.0, 24
    bottom = y + height * len(rows)
    totals = [sum(value for value, _, _ in parts) for _, parts, _ in rows]
    marks = ticks(max(totals + [top_value or 0]), 3)
    parts, x_of = _value_axis(left, right, y, bottom, marks, unit)
    for (label, pieces, note), shown in zip(rows, labels):
        parts.append(text(left - 6, y + 16, shown, "", "end", label))
        at = 0.0
        for value, index, tip in pieces:
            parts.append(area(index, x_of(at), y + 5, max(x_of(value) - left, 0), 14, tip))
            at += value
        parts.append(text(x_of(at) + 5, y + 16, note))
        y += height
    below, more = legend(key, bottom + 48, swatch)
    return drawing(name, about, bottom + 36 + more, parts + below)


def points(name, about, series, x_axis, y_axis, references, key, lines=True):
    """series: [(index, [(x, y, hollow, tip)])]; a line joins neighbours that are both filled.
    x_axis: (unit, marks, logarithmic, show); y_axis: (unit, top). references: [(points, words,
    class of the line)].
    """
    unit, marks, logarithmic, show = x_axis
    y_marks = ticks(y_axis[1])
    left, right, top, bottom = 46.0, WIDTH - 14.0, 26.0, 230.0
    low, high = marks[0], marks[-1]
    if logarithmic:

        def x_of(x):
            return (
                left
                + 10
                + (right - left - 20)
                * (math.log(x / low) / math.log(high / low) if high > low else 0.5)
            )

    else:

        def x_of(x):
            return left + (right - left) * x / high

    def y_of(y):
        return bottom - (bottom - top) * y / y_marks[-1]

    parts = [text(8, 14, y_axis[0], "dim")]
    for mark in y_marks:
        parts += [
            line(left, y_of(mark), right, y_of(mark), "grid"),
            text(left - 6, y_of(mark) + 4, number(mark), "dim", "end"),
        ]
    last = -100.0
    for mark in marks:
        if x_of(mark) - last < text_width(show(mark)) + 6:
            continue  # no room for this label
        last = x_of(mark)
        parts += [
            line(last, top, last, bottom, "grid"),
            text(last, bottom + 15, show(mark), "dim", "middle"),
        ]
    parts.append(text((left + right) / 2, bottom + 31, unit, "dim", "middle"))
    for ends, words, cls in references:
        parts += [
            line(x_of(a), y_of(b), x_of(c), y_of(d), cls) for (a, b), (c, d) in zip(ends, ends[1:])
        ]
        if ends:
            x, y = x_of(ends[-1][0]), y_of(ends[-1][1])
            parts.append(text(x - 4, max(y - 6, 12), words, "dim", "end"))
    for index, some in series if lines else ():
        for a, b in zip(some, some[1:]):
            if not a[2] and not b[2]:
                parts.append(
                    line(x_of(a[0]), y_of(a[1]), x_of(b[0]), y_of(b[1]), f"l c{index % COLOURS}")
                )
    for index, some in series:
        parts += [marker(index, x_of(x), y_of(y), hollow, tip) for x, y, hollow, tip in some]
    below, more = legend(key, bottom + 51, marker)
    return drawing(name, about, bottom + 38 + more, parts + below)


def dots(name, about, rows, unit, key):
    """rows: [(label, [(value above 0, index, tip)])], markers on a logarithmic axis."""
    labels = [short(label, 19) for label, _ in rows]
    left, right, y, height = _left_of(labels), WIDTH - 16.0, 8.0, 24
    bottom = y + height * len(rows)
    values = [value for _, some in rows for value, _, _ in some]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low + 1)
    step = math.ceil((high - low) / 5)
    parts = []
    for power in range(low, high + 1):
        x = left + (right - left) * (power - low) / (high - low)
        parts.append(line(x, y, x, bottom, "grid"))
        if (power - low) % step == 0:
            shown = f"{10.0 ** power:g}"
            parts.append(text(x, bottom + 14, shown, "dim", "end" if x > right - 12 else "middle"))
    parts.append(text((left + right) / 2, bottom + 29, unit, "dim", "middle"))
    for (label, some), shown in zip(rows, labels):
        parts += [
            text(left - 6, y + 16, shown, "", "end", label),
            line(left, y + 12, right, y + 12, "grid"),
        ]
        for value, index, tip in some:
            x = left + (right - left) * (math.log10(value) - low) / (high - low)
            parts.append(marker(index, x, y + 12, False, tip))
        y += height
    below, more = legend(key, bottom + 48, marker)
    return drawing(name, about, bottom + 36 + more, parts + below)
