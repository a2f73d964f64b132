#!/usr/bin/env python3
"""Writes the golden vectors beside this file: scalars.txt and one <format>.txt per storage format.
README.md says what the lines mean and how to run this."""

import argparse
import pathlib
import zlib

import numpy as np

import oracles
import records
import worked
from oracles import F32, NAN_BITS, bits_of, from_bits

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(20260101)
CODES = {"bf16": 1 << 16, "f16": 1 << 16, "e4m3": 256, "e5m2": 256, "e2m1": 16}
SPECIAL_BITS = [
    0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF,
    0x00000001, 0x80000001, 0x003FFFFF, 0x00400000, 0x00400001, 0x007FFFFF, 0x00800000, 0x00800001,
    0x7F7FFFFF, 0xFF7FFFFF, 0x7F000000, 0x7F000001, 0x477FDFFF, 0x477FE000, 0x477FEFFF, 0x477FF000,
    0x33000000, 0x33000001, 0x33800000, 0x387FFFFF, 0x38800000, 0x7F7F7FFF, 0x7F7F8000,
]  # fmt: skip


def hex_f32(values):
    bits = bits_of(values).copy()
    bits[np.isnan(values)] = NAN_BITS
    return "".join(f"{b:08x}" for b in bits)


def hex_f32_exact(values):
    """As they are: a NaN in an input keeps its sign and payload."""
    return "".join(f"{b:08x}" for b in bits_of(values))


def around_ties(name, most):
    """Codes, the midpoints between neighbours, and one ulp to either side; signs at random."""
    values = oracles.decode_codes(name, np.arange(CODES[name] // 2))
    values = values[np.isfinite(values)].astype(np.float64)
    middles = ((values[1:] + values[:-1]) / 2).astype(F32)
    if len(middles) > most:
        ends = np.r_[middles[:8], middles[-8:]]
        middles = np.r_[ends, RNG.choice(middles[8:-8], most - 16, replace=False)]
    bits = bits_of(middles)
    near = np.r_[bits, bits + 1, bits - (bits > 0)]
    codes = bits_of(values.astype(F32))
    near = np.r_[near, codes if len(codes) <= most else RNG.choice(codes, most)]
    return from_bits(near ^ (RNG.integers(0, 2, len(near)).astype(np.uint32) << 31))


def scalar_lines(cuda):
    values = [from_bits(SPECIAL_BITS), np.array([e[0] for e in worked.E1 + worked.E3], F32)]
    values += [around_ties(name, 256) for name in CODES]
    values += [from_bits(RNG.integers(0, 1 << 32, 512).astype(np.uint32))]
    values = np.concatenate(values)
    codes = cuda.encode(values)
    finite = np.where(np.isnan(values), F32(0), values)
    away = oracles.e2m1_away(finite)
    check_scalars(values, codes, away)
    for i, bits in enumerate(bits_of(values)):
        c = {name: int(codes[name][i]) for name in codes}
        yield (f"{bits:08x} {c['bf16']:04x} {c['f16']:04x} {c['e4m3']:02x} {c['e5m2']:02x} "
               f"{c['e2m1']:x} {'-' if np.isnan(values[i]) else f'{away[i]:x}'} {c['e8m0']:02x}")


def check_scalars(values, codes, away):
    """The worked examples of E1 and E3 against the oracles."""
    at = len(SPECIAL_BITS)
    for i, row in enumerate(worked.E1):
        got = [f"{codes['bf16'][at + i]:04X}", f"{codes['f16'][at + i]:04X}",
               f"{codes['e4m3'][at + i]:02X}", f"{codes['e5m2'][at + i]:02X}"]
        assert got == list(row[1:]), (row, got)
    at += len(worked.E1)
    for i, row in enumerate(worked.E3):
        got = [f"{codes['e2m1'][at + i]:X}", f"{away[at + i]:X}"]
        assert got == list(row[1:]), (row, got)


def decode_line(fmt, label, tensor_scale, payload, scales):
    row = fmt.decode(payload, scales, tensor_scale)
    return (f"decode {label} {hex_f32(F32([tensor_scale]))} {payload.hex()} {scales.hex() or '-'} "
            f"{hex_f32(row)}")


def encode_line(fmt, label, tensor_scale, row):
    row = np.asarray(row, F32)
    payload, scales, nan, infinite = fmt.encode(row, tensor_scale)
    return (f"encode {label} {hex_f32(F32([tensor_scale]))} {hex_f32_exact(row)} {payload.hex()} "
            f"{scales.hex() or '-'} {nan} {infinite}")


def pad(values, group):
    values = np.asarray(values, F32)
    return np.r_[values, np.zeros(-len(values) % group, F32)]


def chunks(values, count=128):
    return [values[i : i + count] for i in range(0, len(values), count)]


# --- every code ------------------------------------------------------------------------------


def is_ggml(fmt):
    return fmt.name.startswith(("q", "iq"))


def code_lines(fmt):
    if fmt.name in ("bf16", "f16"):
        everything = np.arange(1 << 16, dtype=np.uint16).tobytes()
        row = fmt.decode(everything, b"", 1.0)
        yield f"codes16 {zlib.crc32(bytes.fromhex(hex_f32(row))):08x}"
        picked = RNG.permutation(1 << 16)[:512].astype(np.uint16)
        for part in chunks(picked):
            yield decode_line(fmt, "codes", 1.0, part.tobytes(), b"")
    elif fmt.name.startswith("fp8"):
        for tensor_scale in (1.0, 0.05, 3.0):
            yield decode_line(fmt, "codes", tensor_scale, bytes(range(128)), b"")
            yield decode_line(fmt, "codes", tensor_scale, bytes(range(128, 256)), b"")
    elif is_ggml(fmt):
        yield from ggml_code_lines(fmt)
    else:
        nibbles = oracles.pack(np.arange(16, dtype=np.uint8)).tobytes() * (fmt.group // 16)
        for first in range(0, 256, 4):
            scales = bytes(range(first, first + 4))
            yield decode_line(fmt, "codes", 1.0, nibbles * 4, scales)
        if fmt.name == "nvfp4":
            for tensor_scale in (12 / 2688, 0.1, 3e-5):
                yield decode_line(fmt, "codes", tensor_scale, nibbles * 2, bytes([0x6B, 0x01]))


def ggml_code_lines(fmt):
    """All codes under scales of every kind: subnormal, normal, largest, zero, negative, NaN."""
    d_codes = [0x0001, 0x03FF, 0x0400, 0x2ABC, 0x3C00, 0x7BFF, 0x8000, 0xB123, 0x7E00, 0x7C00]
    if fmt.name.startswith("q8"):
        groups = np.arange(256, dtype=np.uint8).reshape(8, 32)
    else:
        order = np.r_[np.arange(16), np.arange(15, -1, -1)].astype(np.uint8)
        groups = (order[:16] | order[16:] << 4)[None, :]
    if fmt.name.startswith("q5"):  # fifth bits first: none, some, all
        fifths = np.array([[0] * 4, [0x0F, 0x33, 0xCC, 0x5A], [0xFF] * 4], np.uint8)
        groups = np.concatenate([fifths, np.repeat(groups, 3, axis=0)], axis=1)
    for i, d in enumerate(d_codes):
        head = [d, d_codes[i - 3]] if fmt.name.endswith("_1") else [d]
        scales = np.tile(np.array(head, np.uint16).view(np.uint8), (len(groups), 1))
        if fmt.name.endswith("ggml"):
            payload, plane = np.concatenate([scales, groups], axis=1).tobytes(), b""
        else:
            payload, plane = groups.tobytes(), scales.tobytes()
        yield decode_line(fmt, "codes", 1.0, payload, plane)


# --- encoding --------------------------------------------------------------------------------


def tensor_scales(fmt, amax):
    if fmt.name == "nvfp4":
        return [1.0, F32(amax) / (F32(6) * F32(448))]
    if fmt.name.startswith("fp8"):
        return [1.0, F32(amax) / F32(448 if fmt.name == "fp8_e4m3" else 57344)]
    return [1.0]


def random_lines(fmt):
    for spread in (1.0, 1e-3, 30.0, 5e3):
        row = (RNG.standard_normal(128) * spread).astype(F32)
        for tensor_scale in tensor_scales(fmt, np.abs(row).max()):
            yield encode_line(fmt, "random", tensor_scale, row)
            yield decode_line(fmt, "random", tensor_scale, *fmt.encode(row, tensor_scale)[:2])
    row = (RNG.standard_normal(128) * np.exp2(RNG.integers(-20, 12, 128))).astype(F32)
    yield encode_line(fmt, "wide", tensor_scales(fmt, np.abs(row).max())[-1], row)
    channels = RNG.standard_normal(128).astype(F32)
    channels[[3, 77]] = 300
    yield encode_line(fmt, "outlier", tensor_scales(fmt, 300)[-1], channels)


def special_lines(fmt):
    row = RNG.standard_normal(128).astype(F32)
    row[[1, 40]] = [np.inf, -np.inf]
    row[[2, 65, 100]] = from_bits([0x7FC00000, 0xFFC00000, 0x7F800001])
    for tensor_scale in tensor_scales(fmt, 65504):
        yield encode_line(fmt, "nonfinite", tensor_scale, row)
        yield encode_line(fmt, "zeros", tensor_scale, np.zeros(fmt.group, F32))
    yield encode_line(fmt, "all-nan", 1.0, np.full(fmt.group, np.nan, F32))


def amax_lines(fmt):
    """One amax per group, from the subnormals up; what each scale rule does at its ends."""
    shape = RNG.uniform(-1, 1, 32).astype(F32)
    shape[9] = 1
    ends = [65504, 6e4, 3e4, 2688, 448, 6, 1, 1e-2, 2.0**-9, 1e-4, 6e-6, 1e-7, 6e-10, 1e-12, 1e-20]
    if not is_ggml(fmt):  # below, 1 / d overflows; above, d does (test_format.c)
        ends += [1e-36, 6 * 2.0**-126, 1e-38, 1e-42, 2.0**-149, 1e6, 1e30, 3.4e38]
    group = max(fmt.group, 16)
    for amax in ends:
        row = (shape[:group].astype(np.float64) * amax).astype(F32)
        yield encode_line(fmt, "amax", 1.0, row)
        if fmt.name == "nvfp4" and amax < 1e30:
            for tensor_scale in (F32(amax) / F32(2688), F32(65504) / F32(2688)):
                if tensor_scale > 0:
                    yield encode_line(fmt, "amax", tensor_scale, row)


# What makes d 1 (and the minimum 0), and the ties between codes that follow.
TIE_LEADS = {
    "q4_1": [F32([0, 15])],
    "q5_0": [F32([-16]), F32([16])],
    "q5_1": [F32([0, 31])],
    "iq4_nl": [F32([-127]), F32([127])],
}
TIES = {
    "q4_1": np.arange(0.5, 15),
    "q5_0": np.arange(-15.5, 16),
    "q5_1": np.arange(0.5, 31),
    "iq4_nl": (oracles.IQ4_NL[1:] + oracles.IQ4_NL[:-1]) / 2,
}


def beside(ties):
    bits = bits_of(np.asarray(ties, F32))
    return from_bits(np.r_[bits, bits + np.uint32(1), bits - np.uint32(1)])


def tie_lines(fmt):
    if fmt.name in ("bf16", "f16"):
        values = around_ties(fmt.name, 96)
    elif fmt.name.startswith("fp8"):
        values = around_ties(fmt.name[4:], 256)
    elif fmt.name.startswith("q8"):
        # amax 127 makes d 1: halves, and one ulp to either side
        bits = bits_of(np.arange(0.5, 127, 1, dtype=F32))
        near = from_bits(np.r_[bits, bits - 1, bits + 1])
        near = near * RNG.choice(F32([-1, 1]), len(near))
        values = np.concatenate([np.r_[F32(127), part] for part in chunks(near, 31)])
    elif fmt.name in TIE_LEADS:
        values = np.concatenate([np.r_[lead, pad(part, 32 - len(lead))]
                                 for lead in TIE_LEADS[fmt.name]
                                 for part in chunks(beside(TIES[fmt.name]), 32 - len(lead))])
    elif fmt.name.startswith("q4"):
        near = np.concatenate([from_bits(bits_of(np.arange(-7.5, 8, 1, dtype=F32)) + step)
                               for step in np.array([0, 1, 2, 0xFFFFFFFF, 0xFFFFFFFE], np.uint32)])
        near = np.r_[near, from_bits([0x3EFFFFFF, 0xBEFFFFFF, 0x3F000001])]
        values = np.concatenate([np.r_[lead, pad(part, 31)] for part in chunks(near, 31)
                                 for lead in F32([-8, 8])])
    else:
        near = around_ties("e2m1", 16)
        near = near[np.abs(near) <= 6]
        values = np.concatenate([np.r_[F32(6), pad(part, fmt.group - 1)]
                                 for part in chunks(near, fmt.group - 1)])
    for part in chunks(pad(values, fmt.group)):
        yield encode_line(fmt, "ties", 1.0, part)
    if fmt.name == "nvfp4":
        yield from scale_tie_lines(fmt)
        for tensor_scale, row in order_rows():
            yield encode_line(fmt, "order", tensor_scale, row)
    if fmt.name.startswith("q4_0"):
        for part in chunks(fused_rows()):
            yield encode_line(fmt, "fused", 1.0, part)


def fused_rows(groups=8):
    """Values whose q4_0 code changes when x * (1 / d) + 8.5 is computed as one fused operation."""
    rows = []
    for _ in range(groups):
        extreme = F32(RNG.uniform(1, 10))
        inverse = F32(1) / (extreme / F32(-8))
        middles = (np.arange(-7.5, 7.5) / inverse).astype(F32)
        near = from_bits(bits_of(middles)[:, None] + np.arange(-8, 9).astype(np.uint32)).ravel()
        apart = np.trunc(near * inverse + F32(8.5))
        fused = np.trunc((near.astype(np.float64) * np.float64(inverse) + 8.5).astype(F32))
        assert (apart != fused).any()
        rows.append(np.r_[extreme, pad(near[apart != fused][:31], 31)])
    return np.concatenate(rows)


def scale_tie_lines(fmt):
    """Group maxima whose sixth lies on, or one ulp beside, a tie between two scale codes."""
    sixths = around_ties("e4m3", 256)
    sixths = np.abs(sixths[::7])
    rows = np.zeros((len(sixths), 16), F32)
    rows[:, 0] = sixths * F32(6)
    rows[:, 1] = -sixths * F32(2.5)
    rows[:, 2] = sixths
    for part in chunks(rows.ravel()):
        yield encode_line(fmt, "scale-ties", 1.0, part)


def order_rows():
    """Groups whose nvfp4 scale changes when amax / (6 g) is computed instead of (amax / 6) / g."""
    rows = []
    ties = oracles.decode_codes("e4m3", np.arange(0x20, 0x7E)).astype(np.float64)
    ties = ((ties[1:] + ties[:-1]) / 2).astype(F32)
    for tensor_scale in RNG.uniform(0.001, 0.01, 4).astype(F32):
        near = bits_of(ties * tensor_scale * F32(6))[:, None] + np.arange(-4, 5).astype(np.uint32)
        amax = from_bits(near).ravel()
        asked = ((amax / F32(6)) / tensor_scale).astype(oracles.ml_dtypes.float8_e4m3fn)
        other = (amax / (F32(6) * tensor_scale)).astype(oracles.ml_dtypes.float8_e4m3fn)
        amax = amax[asked.view(np.uint8) != other.view(np.uint8)][:8]
        assert len(amax) > 0
        group = np.zeros((len(amax), 16), F32)
        group[:, 4] = amax
        rows.append((tensor_scale, group.ravel()))
    return rows


def worked_lines(fmt):
    base = fmt.name.removesuffix("_ggml")
    for name, label, tensor_scale, row, payload, scales in worked.ROWS:
        if name != base:
            continue
        got_payload, got_scales, _, _ = fmt.encode(row, tensor_scale)
        if fmt.name != base:
            got_payload, got_scales = got_payload[2:], got_payload[:2]
        told = None if payload is None else bytes.fromhex(payload)
        if label == "E15":  # only the first bytes are told
            got_payload = got_payload[: len(told)]
        assert told is None or got_payload == told, (label, got_payload.hex())
        assert got_scales == bytes.fromhex(scales), (label, got_scales.hex())
        yield encode_line(fmt, label, tensor_scale, row)
        yield decode_line(fmt, label, tensor_scale, *fmt.encode(row, tensor_scale)[:2])


# --- records -----------------------------------------------------------------------------------


def record_lines(record):
    """Every row is encoded, and what comes of some is decoded."""
    for label, row in records.worked_rows(record, RNG):
        yield encode_line(record, label, 1.0, row)
        yield decode_line(record, label, 1.0, *record.encode(row, 1.0)[:2])
    for payload, scales in records.code_rows(record, RNG):
        yield decode_line(record, "codes", 1.0, payload, scales)
    for label, row in records.encode_rows(record, RNG, around_ties):
        yield encode_line(record, label, 1.0, row)
        if label in ("random", "wide"):
            yield decode_line(record, label, 1.0, *record.encode(row, 1.0)[:2])


def write(folder, fmt, lines):
    (folder / f"{fmt.name}.txt").write_text("\n".join(lines) + "\n")
    print(f"{fmt.name}: {len(lines)} vectors")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda-include", default="/usr/local/cuda/include")
    parser.add_argument("--output", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    cuda = oracles.CudaHost(options.cuda_include)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        (options.output / "scalars.txt").write_text("\n".join(scalar_lines(cuda)) + "\n")
        parts = (worked_lines, code_lines, tie_lines, special_lines, amax_lines, random_lines)
        for fmt in oracles.formats(cuda):
            lines = [line for part in parts for line in part(fmt)]
            write(options.output, fmt, lines)
        for record in records.records():
            write(options.output, record, list(record_lines(record)))


if __name__ == "__main__":
    main()
