"""The same rows as an aligned table, Markdown, CSV or JSON, for compare.py.

A column is (name, heading, show): `name` is the key in JSON and CSV, `heading` the one in tables,
None where tables leave it out, `show` makes a table's text of its value."""

import csv
import json


def clean(text):
    """One line that no terminal takes for a command: names come out of files."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def _cells(columns, rows):
    shown = [c for c in columns if c[1] is not None]
    lines = [[c[1] for c in shown]]
    for row in rows:
        lines.append(["-" if row[c[0]] is None else clean(c[2](row[c[0]])) for c in shown])
    return lines


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _right(columns, rows):
    """The columns that hold numbers, to be set to the right."""
    return [
        all(
            row[c[0]] is None or _is_number(row[c[0]]) or isinstance(row[c[0]], list)
            for row in rows
        )
        for c in columns
        if c[1] is not None
    ]


def _table(columns, rows, to):
    lines, right = _cells(columns, rows), _right(columns, rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(right))]
    for line in lines:
        padded = (cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right))
        to.write("  ".join(padded).rstrip() + "\n")


def _markdown(columns, rows, to):
    lines, right = _cells(columns, rows), _right(columns, rows)
    lines.insert(1, ["---:" if r else "---" for r in right])
    for line in lines:
        to.write(
            "| "
            + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in line)
            + " |\n"
        )


def _csv(columns, rows, to):
    """The column `interval`, [low, high] or null, is two here."""
    writer = csv.writer(to, lineterminator="\n")

    def split(values):
        out = []
        for (name, _, _), value in zip(columns, values):
            out += (value or [None, None]) if name == "interval" else [value]
        return out

    ends = ["interval_low", "interval_high"]
    writer.writerow(split([ends if c[0] == "interval" else c[0] for c in columns]))
    writer.writerows(split([row[c[0]] for c in columns]) for row in rows)


def write(form, columns, rows, to):
    if form == "json":
        json.dump([{c[0]: row[c[0]] for c in columns} for row in rows], to, indent=1)
        to.write("\n")
    elif form == "csv":
        _csv(columns, rows, to)
    else:
        (_markdown if form == "md" else _table)(columns, rows, to)
