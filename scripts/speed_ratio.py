"""How much slower one row of `kvgauge run` is than another, with an interval; for compare.py.

Nothing is assumed about how samples are distributed. Where rows have the pace of the cores
beside each sample (pace_mops: cpu), times count as at one pace, as far as they went with it. Elsewhere what the canary read
says how fast plain reading was just then. A step feels that as far as it reads: of one that reads at
40 % of the ceiling memory has 0.4 of the time at most. Only where others had the cores, or the GPU,
the canary and all of the step were short of the same."""

import math
import statistics
from collections import namedtuple

Ratio = namedtuple("Ratio", "ratio low high attend")
BUSY_PERCENT = 5.0  # of all cores' time, in use by others
PACE_POWERS = (0.8, 1.2)  # a step's time goes with 1/pace to a power between these
PACE_ERROR = 0.2  # by so much that power may be another, at most


def median_rank(n):
    """The largest k for which P(Binomial(n, 1/2) < k) is at most 2.5 %; 0 below 6."""
    below, k = 0.0, 0
    while True:
        below += (
            math.comb(n, k) * 0.5**n
            if n < 1000
            else math.exp(
                math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)
            )
        )
        if below > 0.025:
            return k
        k += 1


def worth(values):
    """How many independent samples would tell as much of the median, by how often neighbours (in the
    order they were taken) lie on the same side of it: a machine that changes speed every tenth
    sample gives a tenth of them. Never more than there are."""
    middle = statistics.median(values)
    sides = [(value > middle) - (value < middle) for value in values]
    alike = sum(a * b for a, b in zip(sides, sides[1:]))
    if alike <= 0:
        return len(values)
    r = alike / sum(map(abs, sides))
    return max(int(len(values) * (1 - r) / (1 + r)), 1)


def median_interval(values, independent=None):
    """(low, high) of the median by order statistics: the k-th smallest and the k-th largest value, k
    median_rank's. Below 6 there is no interval at 95 %: all of them. Where fewer are independent,
    the same part of the values is left out at the ends as of those."""
    ordered = sorted(values)
    n = len(ordered)
    independent = n if independent is None else independent
    k = max(median_rank(independent) * n // independent, 1)
    return ordered[k - 1], ordered[n - k]


def same_machine(a, b):
    return a["device"] is not None and all(
        a[name] == b[name] for name in ("backend", "device", "threads")
    )


def busy(row):
    """Whether others worked on the device while the row was measured, as far as it says."""
    if row["other_load_percent"] is not None:
        return row["other_load_percent"] > BUSY_PERCENT
    return row["backend"] == "cpu" or bool(row["other_processes"])


def share_read(row):
    """Of a step's time, what plain reading of its bytes would have taken; all of it, at most, of a row
    that does not tell them."""
    if row["kv_read_bytes"] is None:
        return 1.0
    read = row["kv_read_bytes"] + (row["weights_read_bytes"] or 0)
    return min(read / row["ceiling_gb_per_s"] / row["step_ns"]["median"], 1.0)


def felt(a, b):
    """The part of what the canary feels that a step feels, at most."""
    if not same_machine(a, b) or busy(a) or busy(b):
        return 1.0
    return (share_read(a) + share_read(b)) / 2


def at_the_ceiling(row, part):
    """Each time as it would have been at the row's own ceiling; as it was without readings."""
    times, canary = row["samples_ns"], row["canary_mb_per_s"]
    if len(canary) != len(times) or min(canary) <= 0:
        return times
    scale = row["ceiling_gb_per_s"] * 1000
    return [ns * (part * mb / scale + 1 - part) for ns, mb in zip(times, canary)]


def drift(row):
    """A factor that nobody knows: without readings the canary may have moved anywhere in the row."""
    readings = len(row["canary_mb_per_s"]) == len(row["samples_ns"])
    return 1 if readings else 1 + abs(row["canary_drift_percent"] or 0) / 100


def of_medians(times_a, times_b):
    """(ratio, low, high) of B's median over A's: their errors know nothing of each other and add up as
    such."""
    below = above = 0.0
    medians = []
    for times, sign in ((times_a, -1), (times_b, 1)):
        low, high = median_interval(times, worth(times))
        medians.append(statistics.median(times))
        down, up = math.log(medians[-1] / low), math.log(high / medians[-1])
        below = math.hypot(below, down if sign > 0 else up)
        above = math.hypot(above, up if sign > 0 else down)
    ratio = medians[1] / medians[0]
    return ratio, ratio * math.exp(-below), ratio * math.exp(above)


def attend_ratio(a, b, scale):
    if not (a["attend_ns"] and b["attend_ns"]):
        return None
    return b["attend_ns"]["median"] / a["attend_ns"]["median"] * scale


def has_pace(row):
    return len(row["pace_mops"]) == len(row["samples_ns"]) and min(row["pace_mops"]) > 0


def deviations(values):
    logs = [math.log(value) for value in values]
    middle = statistics.median(logs)
    return [log - middle for log in logs]


def pace_power(rows):
    """(power, error): the power of 1/pace with which times went, within each run: least squares of
    logarithms. Kept near 1: of a run in which the machine changed nothing the pace tells its own
    noise, and the power would be none. Times
    more than twice as far off as the tenths at the ends begin count as that far. The error is four standard ones, since
    neighbours are alike, and PACE_ERROR at most."""
    pairs = []
    for row in rows:
        slow = [-pace for pace in deviations(row["pace_mops"])]
        times = deviations(row["samples_ns"])
        tenths = statistics.quantiles(times, n=10)
        most = 2 * max(-tenths[0], tenths[-1])
        mean = statistics.fmean(slow)
        pairs += [(pace - mean, max(-most, min(time, most))) for pace, time in zip(slow, times)]
    squares = sum(pace**2 for pace, _ in pairs)
    if squares == 0:
        return 1.0, PACE_ERROR
    slope = sum(pace * time for pace, time in pairs) / squares
    rest = statistics.fmean((time - slope * pace) ** 2 for pace, time in pairs)
    error = 4 * math.sqrt(rest / squares)
    return max(PACE_POWERS[0], min(slope, PACE_POWERS[1])), min(error, PACE_ERROR)


def by_pace(a, b):
    """As times would have been at one pace."""
    power, error = pace_power((a, b))
    level = statistics.median(a["pace_mops"])
    ratio, low, high = of_medians(
        *(
            [ns * (mb / level) ** power for ns, mb in zip(r["samples_ns"], r["pace_mops"])]
            for r in (a, b)
        )
    )
    paces = statistics.median(b["pace_mops"]) / level
    unsure = math.exp(error * abs(math.log(paces)))
    return Ratio(ratio, low / unsure, high * unsure, attend_ratio(a, b, paces**power))


def by_canary(a, b):
    """Relative to plain reading as far as a step feels it. On one machine the interval reaches from the
    ratio of plain times (the step felt nothing of what moved the canary) to that of times in bytes
    that the ceiling would have read in them (it felt all of it)."""
    ceilings = b["ceiling_gb_per_s"] / a["ceiling_gb_per_s"]
    part = felt(a, b)
    reach = (min(ceilings, 1), max(ceilings, 1)) if same_machine(a, b) else (ceilings, ceilings)
    ratio, low, high = of_medians(at_the_ceiling(a, part), at_the_ceiling(b, part))
    wider = drift(a) * drift(b)
    scale = part * ceilings + 1 - part
    return Ratio(
        ratio * scale, low * reach[0] / wider, high * reach[1] * wider, attend_ratio(a, b, scale)
    )


def speed_ratio(a, b):
    """B over A, relative to what both say of their machine. Between devices the ceiling is that."""
    if same_machine(a, b) and has_pace(a) and has_pace(b):
        return by_pace(a, b)
    return by_canary(a, b)
