"""The packed records, written out in numpy over ml_dtypes casts from the project's format facts,
section 3, and the vectors that are made of them. Nothing of kvgauge's own code is used."""

import ml_dtypes
import numpy as np

import worked
from oracles import (F32, Format, bits_of, ceil_log2, decode_codes, e2m1_even, from_bits, pack,
                     unpack)

NONE = np.empty(0, np.uint8)
FLT_MIN = F32(2.0**-126)


def e4m3(values):
    clipped = np.clip(values, F32(-448), F32(448))
    return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def bf16(values):
    with np.errstate(over="ignore"):
        return values.astype(ml_dtypes.bfloat16).view(np.uint8)


def amax_of(tiles):
    return np.abs(tiles).max(axis=1)


def powers(tiles):
    """The exponent of 448's share of a tile's amax, at least 1e-4, rounded up."""
    return ceil_log2(np.maximum(amax_of(tiles), F32(1e-4)) / F32(448))


def scaled_down(tiles, exponents):
    return np.ldexp(tiles.astype(np.float64), -exponents[:, None]).astype(F32)


def fp32_bytes(values):
    return np.ascontiguousarray(values, F32).view(np.uint8)


# One row each, [1][values] of fp32 to its payload and scale bytes.


def encode_656(row, _):
    tiles = row[0, :512].reshape(4, 128)
    scales = np.maximum(amax_of(tiles) / F32(448), FLT_MIN)
    codes = e4m3(tiles / scales[:, None])
    return np.concatenate([codes.ravel(), fp32_bytes(scales), bf16(row[0, 512:])]), NONE


def encode_584(row, _):
    tiles = row[0, :448].reshape(7, 64)
    exponents = powers(tiles)
    codes = e4m3(scaled_down(tiles, exponents)).ravel()
    scales = np.r_[(exponents + 127).astype(np.uint8), np.uint8(0)]
    return np.concatenate([codes, bf16(row[0, 448:])]), scales


def encode_528(row, _):
    tiles = row[0].reshape(16, 32)
    exponents = powers(tiles)
    return e4m3(scaled_down(tiles, exponents)).ravel(), (exponents + 127).astype(np.uint8)


def encode_352(row, _):
    tiles = row[0, :512].reshape(32, 16)
    sixths = amax_of(tiles) / F32(6)
    codes = e4m3(np.maximum(sixths, F32(2.0**-9)))
    below = (decode_codes("e4m3", codes) < sixths) & (codes < 0x7E)
    codes = (codes + below).astype(np.uint8)
    inverse = F32(1) / decode_codes("e4m3", codes)
    nibbles = pack(e2m1_even(tiles * inverse[:, None])).ravel()
    placed = np.empty(32, np.uint8)
    for s in range(32):
        placed[8 * (s % 4) + s // 4] = codes[s]
    return np.concatenate([nibbles, e4m3(row[0, 512:]), placed]), NONE


def encode_288(row, _):
    tiles = row[0].reshape(32, 16)
    codes = e4m3(np.clip(amax_of(tiles) / F32(6), F32(2.0**-9), F32(448)))
    scales = decode_codes("e4m3", codes)
    return pack(e2m1_even(tiles / scales[:, None])).ravel(), codes


def encode_132(row, _):
    exponents = powers(row)
    scales = np.ldexp(F32(1), exponents).astype(F32)
    return e4m3(scaled_down(row, exponents)).ravel(), fp32_bytes(scales)


# The way back: units and what each of them is multiplied by.


def decode_656(payload, _):
    units = np.r_[decode_codes("e4m3", payload[:512]),
                  decode_codes("bf16", payload[528:].view(np.uint16))]
    return units, np.r_[np.repeat(payload[512:528].view(F32), 128), np.ones(64, F32)]


def decode_584(payload, scales):
    units = np.r_[decode_codes("e4m3", payload[:448]),
                  decode_codes("bf16", payload[448:].view(np.uint16))]
    return units, np.r_[np.repeat(decode_codes("e8m0", scales[:7]), 64), np.ones(64, F32)]


def decode_528(payload, scales):
    return decode_codes("e4m3", payload), np.repeat(decode_codes("e8m0", scales), 32)


def decode_352(payload, _):
    scales = np.array([payload[320 + 8 * (s % 4) + s // 4] for s in range(32)], np.uint8)
    units = np.r_[decode_codes("e2m1", unpack(payload[:256])),
                  decode_codes("e4m3", payload[256:320])]
    return units, np.r_[np.repeat(decode_codes("e4m3", scales), 16), np.ones(64, F32)]


def decode_288(payload, scales):
    return decode_codes("e2m1", unpack(payload)), np.repeat(decode_codes("e4m3", scales), 16)


def decode_132(payload, scales):
    return decode_codes("e4m3", payload), np.repeat(scales.view(F32), 128)


class Record(Format):
    """tile: values that share a scale, `coded` of the row have one; largest: that of their codes."""

    def __init__(self, name, values, coded, tile, largest, encode, decode):
        super().__init__(name, values, False, encode, decode)
        self.coded, self.tile, self.largest = coded, tile, largest

    def rope(self, rng):
        return rng.standard_normal(self.group - self.coded).astype(F32)

    def rows_of(self, tiles, rng):
        """Tiles [n][tile] as whole rows, the last one filled with zeros, rope at random."""
        per = self.coded // self.tile
        tiles = np.concatenate([tiles, np.zeros((-len(tiles) % per, self.tile), F32)])
        return [np.r_[tiles[i : i + per].ravel(), self.rope(rng)].astype(F32)
                for i in range(0, len(tiles), per)]


def records():
    return [
        Record("fp8_ds_mla_656", 576, 512, 128, 448, encode_656, decode_656),
        Record("fp8_ds_mla_584", 512, 448, 64, 448, encode_584, decode_584),
        Record("fp8_ds_mla_528", 512, 512, 32, 448, encode_528, decode_528),
        Record("nvfp4_ds_mla_352", 576, 512, 16, 6, encode_352, decode_352),
        Record("nvfp4_ds_mla_288", 512, 512, 16, 6, encode_288, decode_288),
        Record("index_fp8_132", 128, 128, 128, 448, encode_132, decode_132),
    ]


def tile_ties(record, around_ties):
    """Tiles whose largest value makes the scale 1, and ties between codes in the rest."""
    near = around_ties("e4m3" if record.largest == 448 else "e2m1", 128)
    near = near[np.abs(near) <= record.largest]
    count = record.tile - 1
    near = np.r_[near, np.zeros(-len(near) % count, F32)].reshape(-1, count)
    return np.concatenate([np.full((len(near), 1), record.largest, F32), near], axis=1)


def tile_amaxes(record, rng):
    """A tile per magnitude: the ends of each scale rule, powers of two and one ulp beside them."""
    edges = F32(record.largest) * np.exp2(np.arange(-24, 8, 3)).astype(F32)
    amax = np.concatenate([from_bits(bits_of(edges) + step) for step in
                           np.array([0, 1, 0xFFFFFFFF], np.uint32)])
    ends = [1e-4, 9e-5, 1e-6, 6 * 2.0**-9, 2.0**-9, 1e-30, 1e-38, 2.0**-149, 0, 65504, 2688, 1e30]
    amax = np.r_[amax, np.array(ends, F32)]
    if record.largest == 6:  # ties between two scale codes, and one ulp to either side
        codes = decode_codes("e4m3", np.arange(0x08, 0x7E, 5)).astype(np.float64)
        after = decode_codes("e4m3", np.arange(0x09, 0x7F, 5)).astype(np.float64)
        ties = ((codes + after) / 2 * 6).astype(F32)
        amax = np.r_[amax, ties, from_bits(bits_of(ties) + 1), from_bits(bits_of(ties) - 1)]
    shape = rng.uniform(-1, 1, record.tile).astype(F32)
    shape[record.tile // 2] = -1
    return (shape[None, :].astype(np.float64) * amax[:, None]).astype(F32)


def encode_rows(record, rng, around_ties):
    """label, row."""
    for row in record.rows_of(tile_ties(record, around_ties), rng):
        yield "ties", row
    for row in record.rows_of(tile_amaxes(record, rng), rng):
        yield "amax", row
    row = rng.standard_normal(record.group).astype(F32)
    row[[1, 40, record.group - 3]] = [np.inf, -np.inf, np.inf]
    row[[2, 65, record.group - 1]] = from_bits([0x7FC00000, 0xFFC00000, 0x7F800001])
    yield "nonfinite", row
    yield "all-nan", np.full(record.group, np.nan, F32)
    yield "zeros", np.zeros(record.group, F32)
    for spread in (1.0, 1e-3, 30.0, 5e3):
        yield "random", (rng.standard_normal(record.group) * spread).astype(F32)
    wide = rng.standard_normal(record.group) * np.exp2(rng.integers(-20, 12, record.group))
    yield "wide", wide.astype(F32)
    outlier = rng.standard_normal(record.group).astype(F32)
    outlier[[3, 77]] = 300
    yield "outlier", outlier


def code_rows(record, rng):
    """Payload and scales of rows that hold every code, under scales of every kind."""
    fp32 = F32([1, 0.0069754, FLT_MIN, 2.0**-7, 3e38, 0, np.inf, np.nan])
    shortest = record.encode(np.zeros(record.group, F32), 1.0)
    payload_bytes, scale_bytes = len(shortest[0]), len(shortest[1])
    for turn in range(8):
        payload = ((np.arange(payload_bytes) + 101 * turn) % 256).astype(np.uint8)
        scales = np.resize(np.arange(32 * turn, 32 * turn + 32).astype(np.uint8), scale_bytes)
        if record.name == "fp8_ds_mla_656":
            payload[512:528] = np.roll(fp32, turn)[:4].view(np.uint8)
        elif record.name == "nvfp4_ds_mla_352":
            payload[320:] = np.arange(32 * turn, 32 * turn + 32)
        elif record.name == "index_fp8_132":
            scales = fp32[turn : turn + 1].view(np.uint8)
        elif record.name != "nvfp4_ds_mla_288":
            scales = rng.permutation(np.r_[0, 1, 2, 254, 255, 110:140]).astype(np.uint8)
            scales = scales[:scale_bytes].copy()
        yield payload.tobytes(), scales.tobytes()


def worked_rows(record, rng):
    """label, row; asserts what the worked examples say of its bytes."""
    for name, label, first, tile, payload, scales in worked.RECORD_ROWS:
        if name != record.name:
            continue
        row = rng.standard_normal(record.group).astype(F32)
        row[first : first + len(tile)] = tile
        got = record.encode(row, 1.0)
        for plane, facts in zip(got, (payload, scales)):
            for at, fact in facts:
                fact = bytes.fromhex(fact)
                assert plane[at : at + len(fact)] == fact, (name, label, at, plane[at:].hex())
        yield label, row
