"""The tables of report.html. Every text out of a row passes escape()."""

from report_rows import (
    OVERHEADS,
    RANKS,
    RANKS_WORDS,
    WHOLE_STEP,
    device_words,
    group_words,
    label,
    rank_cells,
    state_words,
    tokens_words,
    trouble,
    whole_steps,
)
from report_svg import escape
from result_rows import plain, three, timed


def cell(value, show=plain):
    return "\u2013" if value is None else escape(show(value))


def table(headings, rows, texts=1):
    """The first `texts` columns are text; rows hold what is escaped already."""

    def one(tag, values):
        return (
            "<tr>"
            + "".join(
                f'<{tag}{" class=t" if i < texts else ""}>{value}</{tag}>'
                for i, value in enumerate(values)
            )
            + "</tr>"
        )

    return (
        '<div class="wide"><table>'
        + one("th", map(escape, headings))
        + "".join(one("td", row) for row in rows)
        + "</table></div>"
    )


def bytes_table(rows):
    columns = [
        ("formula_bytes", "formula"),
        *OVERHEADS[:1],
        ("shared_bytes", "shared (less)"),
        *OVERHEADS[1:],
        ("pool_bytes", "pool"),
        ("driver_bytes", "driver"),
        ("resident_bytes", "resident"),
        ("workspace_bytes", "workspace (apart)"),
    ]
    columns = [c for c in columns if any(row[c[0]] is not None for row in rows)]
    out = table(
        ["bytes"] + [words for _, words in columns],
        [[escape(label(r))] + [cell(r[name]) for name, _ in columns] for r in rows],
    )
    groups = [
        [
            escape(label(r)),
            escape(group_words(g)),
            cell(g["formula_bytes"]),
            cell(g["pool_bytes"]),
            cell(g["read_bytes"]),
            cell(g["ns"], lambda ns: f"{ns / 1e6:.3f}"),
            cell(g["share_percent"], "{:.1f}".format),
        ]
        for r in rows
        for g in r["groups"]
    ]
    if groups:
        out += table(
            ["format", "group", "formula B", "pool B", "read B a step", "ms", "% of time"],
            groups,
            2,
        )
    return out


def fit_list(section):
    lines = "".join(f"<li>{escape(words)}</li>" for words in section.fit_sentences())
    return f"<h3>Time of a step by tokens of context</h3><ul>{lines}</ul>" if lines else ""


def whole_step_table(section):
    rows = [[escape(cell) for cell in cells] for cells in whole_steps(section)]
    return f"<h3>Whole steps, weights read too</h3>{table(WHOLE_STEP, rows)}" if rows else ""


def rank_table(rows):
    lines = []
    for slowest, cells in rank_cells(rows):
        shown = [escape(cell) for cell in cells]
        if slowest:
            shown[1] = f"<b>{shown[1]}</b>"
        lines.append(shown)
    if not lines:
        return ""
    few = " open" if len(lines) <= 16 else ""
    return (
        f"<details{few}><summary>Rank by rank</summary><p class=dim>{escape(RANKS_WORDS)}</p>"
        f"{table(RANKS, lines, 2)}</details>"
    )


def trouble_list(sections):
    rows = [row for section in sections for row in section.rows if row["status"] != "ok"]
    if not rows:
        return ""
    out = f"<h2>Rows that are not fine ({len(rows):,})</h2><ul>"
    for row in rows:
        what = escape(f"{row['model'] or 'no model'} {label(row)}, {tokens_words(row)}")
        why = escape(row["reason"] or "no reason given")
        out += f'<li>{what}: <span class="bad">{escape(trouble(row))}</span>: {why}</li>'
    return out + "</ul>"


def all_rows(sections):
    columns = (
        ("tokens", plain),
        ("seqs", plain),
        ("formula_bytes_per_token", "{:,.1f}".format),
        ("pool_bytes_per_token", "{:,.1f}".format),
        ("pool_tokens_per_gb", "{:,.0f}".format),
        ("kv_tokens_per_s", three),
        ("read_gb_per_s", "{:.1f}".format),
        ("ceiling_gb_per_s", "{:.1f}".format),
        ("percent_of_ceiling", "{:.0f}".format),
        ("kv_speed_vs_baseline", "{:.2f}".format),
        ("kernel_error", "{:.2e}".format),
        ("format_error", "{:.4f}".format),
        ("canary_drift_percent", "{:.1f}".format),
    )
    rows = [row for section in sections for row in section.rows]
    lines = []
    for row in rows:
        shown = dict(row)
        if not timed(row):  # no speed, whatever the file says
            shown.update(kv_tokens_per_s=None, read_gb_per_s=None, kv_speed_vs_baseline=None)
        if trouble(row) is not None:
            shown["percent_of_ceiling"] = None
        state = state_words(row)
        state = (
            f'<span class="bad">{escape(state)}</span>' if row["status"] != "ok" else escape(state)
        )
        lines.append(
            [
                escape(row["model"] or ""),
                escape(label(row)),
                escape(row["data"] or ""),
                escape(row["kernel"] or ""),
                state,
            ]
            + [cell(shown[name], show) for name, show in columns]
        )
    headings = [
        "model",
        "format",
        "data",
        "kernel",
        "state",
        "tokens",
        "seqs",
        "formula B/token",
        "pool B/token",
        "tokens/GB",
        "tokens/s",
        "read GB/s",
        "ceiling GB/s",
        "% of ceiling",
        "speed x",
        "kernel error",
        "format error",
        "canary drift %",
    ]
    return (
        f"<details><summary>All rows ({len(rows):,})</summary>{table(headings, lines, 5)}</details>"
    )


def run_facts(files):
    lines = []
    for path, rows in files:
        seen = dict.fromkeys(
            (
                device_words(r),
                r["backend"],
                r["kvgauge_version"],
                r["git"],
                r["suite"],
                r["host"],
                r["time_utc"],
                " ".join(r["argv"]),
            )
            for r in rows
        )
        lines += [[escape(path)] + [cell(value, str) for value in one] for one in seen]
    headings = [
        "file",
        "device",
        "backend",
        "version",
        "revision",
        "suite",
        "label",
        "UTC",
        "command",
    ]
    return "<h2>Devices and runs</h2>" + table(headings, lines, len(headings))
