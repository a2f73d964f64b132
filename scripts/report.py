#!/usr/bin/env python3
"""kvgauge-report: result files of `kvgauge run` as report.md and report.html.

Here are the command line and the Markdown. report_rows.py decides what is told, report_page.py
makes the page of what report_figures.py, report_tables.py and report_svg.py give it."""

import argparse
import pathlib
import sys

from report_page import page
from report_rows import (
    RANKS,
    RANKS_WORDS,
    WHOLE_STEP,
    device_words,
    label,
    rank_cells,
    sections_of,
    six_lines,
    state_words,
    tokens_words,
    trouble,
    whole_steps,
)
from result_rows import Unreadable, plain, read_rows, three, timed

ABOUT = """\
Writes report.md, which begins with six lines to post, and report.html, one page with drawings that
needs nothing else (no network, no script), light or dark, wide or narrow.

FILE is what kvgauge run wrote with --save or -o jsonl; each is a run of its own. Earlier reports of
the same name are replaced. A row that is wrong or refused is listed with its reason, one that was
hot in a cache has no percentage; columns that an older file lacks are left out."""


def talk(line):
    shown = "".join(c if c.isprintable() else "?" for c in line)
    print(f"kvgauge-report: {shown}", file=sys.stderr)


def plain_text(text):
    """Of a file, into Markdown: no line of its own, no markup, no HTML, no column."""
    text = "".join(c if c.isprintable() else "?" for c in str(text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + c if c in "\\`*[]|" else c for c in text)


def markdown_table(section):
    rows = section.rows
    columns = (
        ("tokens", plain),
        ("formula_bytes_per_token", "{:,.1f}".format),
        ("pool_bytes_per_token", "{:,.1f}".format),
        ("pool_tokens_per_gb", "{:,.0f}".format),
        ("tokens_vs_baseline", "{:.2f}".format),
    )
    speeds = (
        ("kv_tokens_per_s", three),
        ("read_gb_per_s", "{:.1f}".format),
        ("kv_speed_vs_baseline", "{:.2f}".format),
    )
    out = [
        "| format | tokens | formula B/token | pool B/token | tokens/GB | tokens x | tokens/s "
        "| read GB/s | speed x | % of ceiling | format error | state |",
        "|---|" + "---:|" * 10 + "---|",
    ]
    for row in rows:

        def shown(name, show, good=True):
            return "-" if row[name] is None or not good else show(row[name])

        cells = [shown(*c) for c in columns] + [shown(*c, timed(row)) for c in speeds]
        cells += [
            shown("percent_of_ceiling", "{:.0f}".format, trouble(row) is None),
            shown("format_error", "{:.4f}".format),
        ]
        state = state_words(row)
        if row["status"] != "ok" and row["reason"]:
            state += f": {row['reason']}"
        out.append(f"| {plain_text(label(row))} | {' | '.join(cells)} | {plain_text(state)} |")
    return out


def markdown(sections, lines):
    out = [f"- {plain_text(name)}: {plain_text(words)}" for name, words in lines]
    for section in sections:
        first = section.first
        setting = f" ({section.setting()})" if section.setting() else ""
        out += [
            "",
            f"## {plain_text(first['model'] or 'no model')}, "
            f"{plain_text(device_words(first) + setting)}",
            "",
        ]
        out += markdown_table(section)
        steps = whole_steps(section)
        if steps:
            out += ["", "Whole steps, weights read too:", "", f"| {' | '.join(WHOLE_STEP)} |"]
            out += ["|---|" + "---:|" * (len(WHOLE_STEP) - 1)]
            out += [f"| {' | '.join(map(plain_text, cells))} |" for cells in steps]
        shown = section.at_best() or section.rows
        ranks = rank_cells(shown)
        if ranks:
            out += ["", f"Rank by rank, {tokens_words(shown[0])}. {RANKS_WORDS}", "", f"| {' | '.join(RANKS)} |"]
            out += ["|---|---|" + "---:|" * (len(RANKS) - 2)]
            out += [f"| {' | '.join(map(plain_text, cells))} |" for _, cells in ranks]
        sentences = section.fit_sentences()
        if sentences:
            out += ["", "Time of a step by tokens of context:", ""]
            out += [f"- {plain_text(words)}" for words in sentences]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(
        prog="kvgauge-report",
        description=ABOUT,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="result files; - is stdin")
    parser.add_argument(
        "--out", metavar="DIR", default=".", help="folder of the report, made if need be (.)"
    )
    options = parser.parse_args()
    try:
        files = [(path, read_rows(path, talk)) for path in options.files]
    except Unreadable as error:
        talk(str(error))
        return 2
    sections = sections_of(files)
    lines = six_lines(sections)
    folder = pathlib.Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (
            ("report.md", markdown(sections, lines)),
            ("report.html", page(files, sections, lines)),
        ):
            (folder / name).write_text(content, "utf-8")
            talk(f"wrote {folder / name}")
    except OSError as error:
        talk(f"{error.filename}: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
