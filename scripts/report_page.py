"""The HTML page of report.py: its style, and what stands where.

One file without scripts and without anything from elsewhere. Drawings are report_figures.py's,
tables report_tables.py's. Every text out of a row passes escape()."""

import report_figures as figures
import report_svg as svg
import report_tables as tables
from report_rows import ceiling_words, device_words, label, tokens_words
from report_svg import escape
from result_rows import plain

MOST_DRAWN = 24  # sections with drawings: the rest is in the table of all rows
OPEN = 3
COLOURS_LIGHT = (
    "#1a1a1a",
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#b3578f",
    "#b07d00",
    "#3f96cc",
    "#6f6f6f",
)
COLOURS_DARK = (
    "#f2f2f2",
    "#4da6e0",
    "#ff8a3d",
    "#2bc79a",
    "#e29ac4",
    "#e6b422",
    "#9ad4f5",
    "#a3a3a3",
)
HATCHES = (
    "",
    "M0 6L6 0",
    "M3 0V6",
    "M0 3H6",
    "M0 0L6 6",
    "M0 0L6 6M0 6L6 0",
    "M0 3H6M3 0V6",
    "M2 3h2",
)

STYLE = """
:root{--paper:#fff;--ink:#1a1a1a;--dim:#5c5c5c;--grid:#d9d9d9;--card:#f6f6f4;--bad:#a4001d;LIGHT}
@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#ececec;--dim:#a9adb3;
--grid:#3a3e44;--card:#1f2226;--bad:#ff8f9c;DARK}}
*{box-sizing:border-box}
body{margin:0 auto;padding:12px;max-width:1240px;background:var(--paper);color:var(--ink);
font:16px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
overflow-wrap:anywhere}
h1{font-size:1.4em;margin:.4em 0}h2{font-size:1.15em;margin:1.6em 0 .4em}
h3{font-size:1em;margin:1em 0 .3em}
dl{background:var(--card);padding:10px 12px;border-radius:8px;margin:0}
dt{color:var(--dim);font-size:.85em}dd{margin:0 0 .5em}
p{margin:.5em 0}.dim,figcaption{color:var(--dim)}.bad{color:var(--bad);font-weight:600}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,345px),1fr));
gap:14px;align-items:start}
figure{margin:0;background:var(--card);border-radius:8px;padding:8px 4px}
figure b{display:block;padding:0 6px 4px}figcaption{font-size:.85em;padding:2px 6px}
svg{width:100%;height:auto;display:block;overflow:visible}
svg text{fill:var(--ink);font-size:11px}svg text.dim{fill:var(--dim)}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .ceiling{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:6 3}
svg .perfect{stroke:var(--dim);stroke-width:1.2;stroke-dasharray:2 3}
svg .m{stroke-width:1.6;fill-opacity:.6}svg .m.hollow{fill:none}svg .l{stroke-width:1.4;fill:none}
svg .s{stroke-width:.8}
.wide{overflow-x:auto;margin:.5em 0}table{border-collapse:collapse;font-size:.85em}
th,td{padding:3px 9px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th{color:var(--dim);font-weight:600}td.t,th.t{text-align:left}
ul{padding-left:1.1em;margin:.4em 0}summary{cursor:pointer;font-weight:600;padding:6px 0}"""


def style():
    names = "".join(f"--c{i}:{c};" for i, c in enumerate(COLOURS_LIGHT))
    dark = "".join(f"--c{i}:{c};" for i, c in enumerate(COLOURS_DARK))
    rules = "".join(
        f"svg .c{i}{{stroke:var(--c{i});fill:var(--c{i})}}"
        + (f"svg .s.h{i}{{fill:url(#h{i})}}" if HATCHES[i] else "")
        for i in range(svg.COLOURS)
    )
    return (
        STYLE.replace("LIGHT", names).replace("DARK", dark).replace("svg .m{", rules + "\nsvg .m{")
    )


def hatches():
    """Patterns that all drawings of the page refer to, in an svg of no size: one that is not
    displayed would have none."""
    some = "".join(
        f'<pattern id="h{i}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" '
        f'style="fill:var(--c{i});stroke:none"/>'
        f'<path d="{path}" style="stroke:var(--card);stroke-width:1.5;fill:none"/>'
        "</pattern>"
        for i, path in enumerate(HATCHES)
        if path
    )
    return (
        '<svg width="0" height="0" style="position:absolute;width:0;height:0" aria-hidden="true">'
        f"<defs>{some}</defs></svg>"
    )


def section_body(section, index):
    rows = section.at_best() or section.rows
    words = [tokens_words(rows[0]), device_words(section.first)]
    words.append(f"read ceiling {ceiling_words(section.rows)}")
    words += (
        [f"measured again: {section.repeated}, the later rows count"] if section.repeated else []
    )
    drawn = (
        figures.tokens_figure(rows)
        + figures.rate_figure(section, index)
        + figures.share_figure(rows, index)
        + figures.gain_figure(rows, index)
        + figures.beyond_figure(rows)
        + figures.groups_figures(rows)
    )
    more = tables.whole_step_table(section) + tables.fit_list(section) + tables.rank_table(rows)
    more += f"<details><summary>The bytes in numbers</summary>{tables.bytes_table(rows)}</details>"
    others = [n for n in section.lengths() if n != rows[0]["tokens"]]
    if others:
        listed = ", ".join(map(plain, others))
        if len(others) > 12:
            listed = f"{len(others)} from {plain(others[0])} to {plain(others[-1])}"
        words.append(f"drawn at this length; others: {listed}")
    return f'<p class="dim">{escape("; ".join(words))}</p><div class="figures">{drawn}</div>{more}'


def page(files, sections, lines):
    names = dict.fromkeys(label(row) for section in sections for row in section.rows)
    index = {name: i for i, name in enumerate(names)}
    several = len({section.first["device"] for section in sections}) > 1
    out = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>kvgauge: {escape(device_words(sections[0].first))}</title>"
        f"<style>{style()}</style></head><body>",
        hatches(),
        "<h1>What the KV cache costs</h1><dl>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in lines),
        "</dl>",
        tables.trouble_list(sections),
    ]
    for i, section in enumerate(sections[:MOST_DRAWN]):
        title, body = escape(section.first["model"] or "no model"), section_body(section, index)
        if several:
            title += f" <span class=dim>{escape(section.first['device'] or '')}</span>"
        if section.setting():
            title += f' <span class="dim">{escape(section.setting())}</span>'
        out.append(
            f"<h2>{title}</h2>{body}"
            if i < OPEN
            else f"<details><summary>{title}</summary>{body}</details>"
        )
    if len(sections) > MOST_DRAWN:
        out.append(
            f"<p>Drawn are the first {MOST_DRAWN} of {len(sections):,} models and settings; the "
            "table has all.</p>"
        )
    out += [
        figures.error_figures(sections),
        tables.run_facts(files),
        tables.all_rows(sections),
        "</body></html>\n",
    ]
    return "\n".join(out)
