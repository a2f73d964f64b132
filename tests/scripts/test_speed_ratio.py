"""scripts/speed_ratio.py on made-up machines: slower for a while, restless, of another level, busy.
No time here was measured; noise comes from a seeded generator."""

import itertools
import random
import statistics
import unittest

from sample_rows import make_row, set_times
from speed_ratio import median_interval, speed_ratio, worth

SEEDS = range(20)


def measured(rng, slowness, true=1.0, share=0.9, feels=None, noise=0.01, n=40, level=1.0):
    """A row of n samples of a step that reads at `share` of the ceiling. slowness: of plain reading, of
    the part of the run that is over (0 to 1); feels: of a step's time, the part that is as slow."""
    feels = share if feels is None else feels
    slow = [level * slowness(i / n) for i in range(n)]
    row = make_row()
    times = [10e6 * true * (feels * s + 1 - feels) * rng.lognormvariate(0, noise) for s in slow]
    set_times(row, [int(ns) for ns in times])
    row["canary_mb_per_s"] = [int(50000 / s * rng.lognormvariate(0, noise)) for s in slow]
    row["ceiling_gb_per_s"] = statistics.median(row["canary_mb_per_s"]) / 1000
    ns = row["step_ns"]["median"]
    row["kv_read_bytes"] = int(share * ns * row["ceiling_gb_per_s"])
    row["weights_read_bytes"], row["other_load_percent"] = None, 1.0
    row["pace_mops"] = []
    return row


def paced(rng, slowness, true=1.0, feels=1.0, noise=0.01, n=40, level=1.0):
    """The same of a machine that tells its pace: slowness is that of work like a step's, which a step
    feels to the power `feels`; what plain reading does has nothing to do with it."""
    slow = [level * slowness(i / n) for i in range(n)]
    row = make_row()
    set_times(
        row, [int(10e6 * true * s**feels * rng.lognormvariate(0, noise)) for s in slow]
    )
    row["pace_mops"] = [int(3000 / s * rng.lognormvariate(0, noise)) for s in slow]
    row["canary_mb_per_s"] = [int(50000 * rng.lognormvariate(0, 0.2)) for _ in slow]
    row["ceiling_gb_per_s"] = statistics.median(row["canary_mb_per_s"]) / 1000
    row["attend_ns"] = row["step_ns"]
    return row


def steady(_):
    return 1.0


def slow_in_the_middle(over):
    return 1.3 if 1 / 3 <= over < 2 / 3 else 1.0


def slow_from(part):
    return lambda over: 1.3 if over >= part else 1.0


class MachineTest(unittest.TestCase):
    def pairs(self, *slowness, true=1.0, **other):
        for seed in SEEDS:
            rng = random.Random(seed)
            a = measured(rng, slowness[0], **other)
            yield speed_ratio(a, measured(rng, slowness[1], true=true, **other))

    def test_slow_for_a_while(self):
        """A step that reads as fast as the canary, and is as slow as it is; one that computes."""
        middle = slow_in_the_middle
        for a, b in ((steady, steady), (middle, middle), (steady, middle)):
            for share in (0.95, 0.05):
                right = 0
                for found in self.pairs(a, b, share=share):
                    self.assertTrue(0.95 < found.low <= found.ratio <= found.high < 1.05, found)
                    right += found.low <= 1 <= found.high
                self.assertGreaterEqual(right, 17)  # of 20, at 95 %
                for found in self.pairs(a, b, share=share, true=1.1):
                    self.assertGreater(found.low, 1.05)
                    self.assertLess(found.high, 1.15)

    def test_another_level(self):
        """What moved the canary for a whole run may have moved a step by all of that, or by nothing; in
        between it is what the step reads."""
        for share in (0.9, 0.5, 0.1):
            for feels in (share, 0.0, 1.0):
                rng = random.Random(1)
                a = measured(rng, steady, share=share)
                b = measured(rng, steady, share=share, feels=feels, level=1.25)
                found = speed_ratio(a, b)
                self.assertTrue(found.low <= 1 <= found.high, (share, feels, found))
                if feels == share:
                    self.assertAlmostEqual(found.ratio, 1, delta=0.02)

    def test_another_device(self):
        """Has another ceiling, and plain times tell nothing."""
        rng = random.Random(1)
        a = measured(rng, steady)
        b = measured(rng, steady, feels=0.0, level=1.25)
        b["device"] = "Another CPU"
        found = speed_ratio(a, b)
        self.assertAlmostEqual(found.ratio, 1 / 1.25, delta=0.02)
        self.assertLess(found.high / found.low, 1.05)

    def test_busy(self):
        """Others had the cores: the canary and all of the step were short of them."""
        rng = random.Random(1)
        a = measured(rng, steady, share=0.1)
        b = measured(rng, steady, share=0.1, feels=1.0, level=1.5)
        self.assertGreater(speed_ratio(a, b).ratio, 1.4)
        for load in (6.0, None):
            b["other_load_percent"] = load
            self.assertAlmostEqual(speed_ratio(a, b).ratio, 1, delta=0.02)
        b["other_load_percent"] = a["other_load_percent"] = None
        for row in (a, b):
            row["backend"] = "cuda"
        self.assertGreater(speed_ratio(a, b).ratio, 1.4)
        b["other_processes"] = 1
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1, delta=0.02)

    def test_weights_are_read_too(self):
        rng = random.Random(1)
        a, b = measured(rng, steady), measured(rng, steady, level=1.25)
        for row in (a, b):
            row["weights_read_bytes"] = row["kv_read_bytes"] - row["kv_read_bytes"] // 10
            row["kv_read_bytes"] //= 10
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1, delta=0.02)

    def test_bytes_that_nobody_tells(self):
        """Then all of a step may have been reading."""
        rng = random.Random(1)
        a, b = measured(rng, steady, share=0.1), measured(rng, steady, share=0.1, level=1.25)
        a["kv_read_bytes"] = b["kv_read_bytes"] = None
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1.025 / 1.25, delta=0.02)

    def test_samples_like_their_neighbours(self):
        """A run that is slow by a tenth from its middle on tells little of its median; the same samples
        in another order tell more."""
        rng = random.Random(1)
        times = [10e6 * (1.1 if i >= 20 else 1.0) * rng.lognormvariate(0, 0.01) for i in range(40)]
        self.assertLess(worth(times), 8)
        found = median_interval(times, worth(times))
        self.assertGreater(found[1] / found[0], 1.09)
        rng.shuffle(times)
        self.assertGreater(worth(times), 20)
        self.assertEqual(worth([5, 6, 5, 6, 5, 6]), 6)
        self.assertEqual(worth([7, 7, 7]), 3)

    def test_a_copy_of_which_only_the_samples_are_slower(self):
        a = measured(random.Random(1), steady)
        b = dict(a, samples_ns=[ns * 1.1 for ns in a["samples_ns"]])
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1.1, 9)
        self.assertGreater(speed_ratio(a, b).low, 1.05)

    def test_without_readings_the_drift_widens(self):
        a, b = make_row(step_ns=1000), make_row(step_ns=2000)
        a.update(canary_drift_percent=10.0, samples_ns=[900, 1000, 1000, 1000, 1200])
        b.update(canary_drift_percent=-20.0, samples_ns=[1800, 2000, 2000, 2000, 2100])
        for readings in ([], [50000]):
            a["canary_mb_per_s"] = b["canary_mb_per_s"] = readings
            found = speed_ratio(a, b)
            self.assertEqual(found.ratio, 2)
            self.assertLess(found.low, 1800 / 2000 * 2 / 1.1 / 1.2)
            self.assertGreater(found.low, 1800 / 1200 / 1.1 / 1.2)
            self.assertGreater(found.high, 1000 / 900 * 2 * 1.1 * 1.2)
            self.assertLess(found.high, 2100 / 900 * 1.1 * 1.2)


class PaceTest(unittest.TestCase):
    def test_slow_for_a_while(self):
        """However much of a run others had the cores: a step that is slower by a tenth is found, and
        one that is not is the same."""
        for a, b in itertools.product((steady, slow_in_the_middle, slow_from(0.2)), repeat=2):
            right = 0
            for seed in SEEDS:
                rng = random.Random(seed)
                one = paced(rng, a)
                same, slower = paced(rng, b), paced(rng, b, true=1.1)
                found = speed_ratio(one, same)
                right += found.low <= 1 <= found.high
                self.assertAlmostEqual(found.ratio, 1, delta=0.02)
                found = speed_ratio(one, slower)
                self.assertAlmostEqual(found.ratio, 1.1, delta=0.02)
                self.assertAlmostEqual(found.attend, 1.1, delta=0.12)
                self.assertGreater(found.low, 1)
            self.assertGreaterEqual(right, 17)  # of 20, at 95 %

    def test_another_level(self):
        """Of which neither run shows how much a step feels: a fifth more or less than 0.8 of it."""
        for feels in (0.65, 0.8, 1.0):
            rng = random.Random(1)
            found = speed_ratio(paced(rng, steady), paced(rng, steady, feels=feels, level=1.25))
            self.assertTrue(found.low <= 1 <= found.high, (feels, found))
        rng = random.Random(1)
        found = speed_ratio(paced(rng, steady), paced(rng, steady, true=1.3, level=1.25))
        self.assertAlmostEqual(found.ratio, 1.3, delta=0.07)
        self.assertGreater(found.low, 1.2)

    def test_how_much_a_step_feels(self):
        """Where a run shows how much, that counts, also for what changed from run to run."""
        for feels in (0.8, 1.0, 1.2):
            middle = slow_in_the_middle
            a = paced(random.Random(1), middle, feels=feels)
            for true in (1.0, 1.1):
                b = paced(random.Random(2), slow_from(0.2), true=true, feels=feels)
                found = speed_ratio(a, b)
                self.assertAlmostEqual(found.ratio, true, delta=0.03)
                self.assertTrue(found.low <= true <= found.high, (feels, found))

    def test_a_pause_tells_nothing_of_the_power(self):
        """One step while somebody had both cores, and the pace behind it did not see that."""
        rng = random.Random(1)
        a, b = paced(rng, slow_in_the_middle), paced(rng, slow_in_the_middle)
        b["samples_ns"][0] *= 1000
        b["pace_mops"][0] /= 2
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1, delta=0.03)

    def test_only_where_both_rows_tell_it(self):
        rng = random.Random(1)
        a, b = paced(rng, steady), paced(rng, steady, level=1.25)
        for row in (a, b):
            row["canary_mb_per_s"] = [50000] * 40
            row["ceiling_gb_per_s"] = 50.0
        self.assertAlmostEqual(speed_ratio(a, b).ratio, 1, delta=0.05)
        for without in ([], [0] * 40, [3000]):
            for x, y in ((dict(a, pace_mops=without), b), (a, dict(b, pace_mops=without))):
                self.assertAlmostEqual(speed_ratio(x, y).ratio, 1.25, delta=0.02)
        other = dict(b, device="Another CPU")
        self.assertAlmostEqual(speed_ratio(a, other).ratio, 1.25, delta=0.02)


class IntervalTest(unittest.TestCase):
    def test_ranks_of_the_tables(self):
        # 95 % of the median: the ranks that tables of the sign test give.
        for n, low, high in ((5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (11, 2, 10), (20, 6, 15),
                             (50, 18, 33), (100, 40, 61)):  # fmt: skip
            self.assertEqual(median_interval(range(n, 0, -1)), (low, high), n)
        low, high = median_interval(range(1, 2002))
        self.assertEqual(low + high, 2002)
        self.assertAlmostEqual(low, 1001 - 0.98 * 2001**0.5, delta=1.5)


if __name__ == "__main__":
    unittest.main()
