"""What report.py says of rows, before it is Markdown or HTML: which belong together, which one
stands for a format, what is wrong with one, and the six lines to post."""

import fit_lines
from result_rows import ASKED_BY_OPTION, bytes_words, counted, option, pair, plain, three, timed

OVERHEADS = (  # pool = formula + these - shared
    ("padding_bytes", "tails, alignment"),
    ("partial_bytes", "partial entries"),
    ("spare_bytes", "spare"),
    ("page_table_bytes", "tables"),
    ("tensor_scale_bytes", "tensor scales"),
)


def label(row):
    """The format as drawings name it."""
    return pair(row) + (" rotated" if row["rotate"] == "hadamard" else "")


def group_words(group):
    return group["words"] or group["kind"] or "a group"


def tokens_words(row):
    if not row["tokens"]:
        return "no length"
    seqs = f" x {plain(row['seqs'])} sequences" if (row["seqs"] or 1) > 1 else ""
    return f"{plain(row['tokens'])} tokens{seqs}"


def trouble(row):
    """Why a row has no percentage, in a word or two; None where it is fine and cold."""
    if row["status"] != "ok":
        return row["status"] or "no status"
    if not timed(row):
        return "not timed"
    if row["cold"] is True:
        return None
    return "hot" if row["cold"] is False else "hot or cold: unknown"


def state_words(row):
    """What a row is, and how its times moved where that is known and not as it should be."""
    words = trouble(row) or "ok"
    moved = row["stability"] if timed(row) else None
    return words if moved in (None, "steady") else f"{words}, {moved}"


class Section:
    """Rows of one file, device, model and setting, that differ in format and length alone."""

    def __init__(self, path, row):
        self.path, self.first, self.rows, self.repeated = path, row, [], 0

    def add(self, row):
        same = [
            i
            for i, r in enumerate(self.rows)
            if (label(r), r["tokens"]) == (label(row), row["tokens"])
        ]
        if same:  # measured again: the later one counts
            self.rows[same[0]] = row
            self.repeated += 1
        else:
            self.rows.append(row)

    def lengths(self):
        return sorted({row["tokens"] for row in self.rows if row["tokens"]})

    def best_length(self):
        """The length with the most rows that have a percentage, then times, then the longest."""

        def worth(length):
            rows = [row for row in self.rows if row["tokens"] == length]
            return sum(trouble(r) is None for r in rows), sum(timed(r) for r in rows), length

        return max(self.lengths(), key=worth, default=None)

    def at_best(self):
        best = self.best_length()
        return [row for row in self.rows if row["tokens"] == best]

    def fit_sentences(self):
        """How time grows with the length, and where formats pass the baseline; cold rows alone."""
        found = {}
        for row in self.rows:
            if trouble(row) is None and row["tokens"]:
                found.setdefault(label(row), []).append(row)
        return fit_lines.sentences(
            [(name, is_baseline(rows), rows) for name, rows in found.items()]
        )

    def setting(self):
        """What is not as usual, in words."""
        row, words = self.first, []
        for name, usual in (
            ("seqs", 1),
            ("tp", 1),
            ("ranks", 1),
            ("page_tokens", 16),
            ("page_order", "shuffled"),
            ("data", "normal"),
        ):
            if row[name] not in (usual, None):
                words.append(f"{name.replace('_', ' ')} {row[name]}")
        if row["weights_read_bytes"]:
            stored = f" in {row['weights_format']}" if row["weights_format"] else ""
            words.append(f"{bytes_words(row['weights_read_bytes'])} of weights{stored} in a step")
        for name, usual in ASKED_BY_OPTION.items():
            if option(row, name) != usual:
                words.append(f"{name[2:]} {option(row, name)}")
        return ", ".join(words)


WHOLE_STEP = (
    "format",
    "tokens",
    "tokens/s",
    "step x",
    "KV alone x",
    "weights % of bytes",
    "weights % of time",
    "KV reads more from",
)


def whole_steps(section):
    """Cells under WHOLE_STEP, a list a row, of rows whose steps read weights too."""
    out = []
    for row in section.rows:
        if not timed(row) or not row["step_tokens_per_s"]:
            continue
        weights = next((p for p in row["step_parts"] if p["part"] == "weights"), {})
        from_tokens = row["kv_overtakes_weights_tokens"]
        cells = (
            (row["tokens"], plain),
            (row["step_tokens_per_s"], three),
            (row["step_speed_vs_baseline"], "{:.2f}".format),
            (row["kv_speed_vs_baseline"], "{:.2f}".format),
            (weights.get("bytes_percent"), "{:.0f}".format),
            (weights.get("time_percent"), "{:.0f}".format),
            (from_tokens, lambda n: f"{plain(n)} tokens"),
        )
        out.append([label(row)] + ["-" if v is None else show(v) for v, show in cells])
    return out


# Times first: what a phone shows without scrolling.
RANKS = ("format", "rank", "KV ms", "sum ms", "step ms", "pool B", "KV read B a step", "ceiling GB/s")
RANKS_WORDS = (
    "Medians; KV is append and attention, by which the slowest is found; in the sum a "
    "rank that was done early waits for the others."
)


def rank_name(rank, slowest, differ):
    name = "-" if rank["rank"] is None else plain(rank["rank"])
    if differ:
        name += f": {rank['device'] or 'device not named'}"
        name += f", {counted(rank['threads'], 'thread')}" if rank["threads"] else ""
    return name + (", slowest" if slowest else "")


def rank_cells(rows):
    """[(whether it is its row's slowest, cells under RANKS)], for each rank of rows that several
    were timed for; devices are named where they differ."""
    out = []
    for row in filter(timed, rows):
        differ = len({(rank["device"], rank["threads"]) for rank in row["per_rank"]}) > 1
        for rank in row["per_rank"]:
            slowest = rank["rank"] is not None and rank["rank"] == row["slowest_rank"]
            numbers = [
                (rank[name], lambda ns: f"{ns / 1e6:.3f}")
                for name in ("kv_ns", "reduce_ns", "step_ns")
            ]
            numbers += [(rank[name], plain) for name in ("pool_bytes", "kv_read_bytes")]
            numbers.append((rank["ceiling_gb_per_s"], "{:.1f}".format))
            cells = [label(row), rank_name(rank, slowest, differ)]
            out.append((slowest, cells + ["-" if v is None else show(v) for v, show in numbers]))
    return out


def is_baseline(rows):
    return all(r["kv_speed_vs_baseline"] == 1 and r["tokens_vs_baseline"] == 1 for r in rows)


def sections_of(files):
    """files: [(path, rows)]; in the order of their first rows."""
    found = {}
    for path, rows in files:
        for row in rows:
            key = (
                path,
                row["device"],
                row["backend"],
                row["model"],
                row["seqs"],
                row["tp"],
                row["ranks"],
                row["page_tokens"],
                row["page_order"],
                row["data"],
                row["weights_read_bytes"],
                row["weights_format"],
                tuple(option(row, name) for name in ASKED_BY_OPTION),
            )
            found.setdefault(key, Section(path, row)).add(row)
    return list(found.values())


def leading(sections):
    """The section that the six lines tell of."""
    return max(
        sections,
        key=lambda s: (sum(trouble(r) is None for r in s.rows), sum(timed(r) for r in s.rows)),
    )


def device_words(row):
    words = [row["device"] or "device not named"]
    if row["threads"]:
        words.append(counted(row["threads"], "thread"))
    if row["driver"]:
        words.append(f"driver {row['driver']}")
    if row["cuda"]:
        words.append(f"CUDA {row['cuda']}")
    return ", ".join(words)


def ceiling_words(rows):
    ceilings = [row["ceiling_gb_per_s"] for row in rows if timed(row)]
    if not ceilings:
        return "not measured"
    low, high = min(ceilings), max(ceilings)
    drift = max(abs(row["canary_drift_percent"] or 0) for row in rows if timed(row))
    span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
    return (
        f"{span} GB/s of plain reading, measured in the same run; it moved by {drift:.0f} % at most "
        "within a case"
    )


def times(value):
    return "" if value is None else f" ({value:.2f}x)"


def count_words(rows):
    states = {}
    for row in rows:
        state = row["status"] or "no status"
        states[state] = states.get(state, 0) + 1
    words = f"{counted(len(rows), 'row')}: " + ", ".join(
        f"{n:,} {state}" for state, n in states.items()
    )
    hot = sum(trouble(row) == "hot" for row in rows)
    moved = sum(timed(row) and row["stability"] not in (None, "steady") for row in rows)
    words += f" ({hot:,} hot in a cache: no percentage)" if hot else ""
    return words + (f"; the speed of {moved:,} moved while they were measured" if moved else "")


def speed_words(row):
    share = row["percent_of_ceiling"] if trouble(row) is None else None
    return (
        f"{label(row)} {three(row['kv_tokens_per_s'] or 0)} tokens/s"
        + times(row["kv_speed_vs_baseline"])
        + (
            f" at {share:.0f} % of the ceiling"
            if share is not None
            else f", {trouble(row) or 'no percentage'}"
        )
    )


def step_words(samples):
    low, high = min(samples), max(samples)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def six_lines(sections):
    """[(heading, words)]: what to post."""
    section = leading(sections)
    rows = section.at_best() or section.rows
    everything = [row for one in sections for row in one.rows]
    sized = [r for r in rows if r["status"] == "ok" and r["pool_tokens_per_gb"]]
    fast = [r for r in rows if timed(r)]
    samples = [len(r["samples_ns"]) for r in everything if timed(r) and r["samples_ns"]]
    weighed = any(row["weights_read_bytes"] for row in everything)
    others = len({(s.path, s.first["device"]) for s in sections}) - 1
    what = f"{section.first['model'] or 'no model'}, {tokens_words(rows[0])}"
    versions = sorted(
        {f"{r['kvgauge_version'] or '?'} ({r['git'] or 'no revision'})" for r in everything}
    )
    dates = sorted({(r["time_utc"] or "?")[:10] for r in everything})
    return [
        ("Device", device_words(section.first) + (f"; {others} more below" if others else "")),
        ("Read ceiling", ceiling_words(section.rows)),
        (
            f"Tokens per GB ({what})",
            "; ".join(
                f"{label(r)} {plain(round(r['pool_tokens_per_gb']))}"
                f"{times(r['tokens_vs_baseline'])}"
                for r in sized
            )
            or "none measured",
        ),
        ("KV speed of the same", "; ".join(map(speed_words, fast)) or "none measured"),
        (
            "How",
            "real paged pools, checked against double precision, then timed: KV work alone (append "
            "and attention of every layer, "
            + ("weights apart from it)" if weighed else "no weights)")
            + (f", median of {step_words(samples)} steps" if samples else "")
            + "; "
            + count_words(everything),
        ),
        (
            "Version",
            f"kvgauge {', '.join(versions)}, {dates[0]}"
            + (f" to {dates[-1]}" if len(dates) > 1 else "")
            + "; GB = 10^9 bytes",
        ),
    ]


def overhead_parts(row):
    """[(index into OVERHEADS, bytes)] of those that the file has."""
    return [(i, row[name]) for i, (name, _) in enumerate(OVERHEADS) if row[name] is not None]
