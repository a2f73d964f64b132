"""Worked examples typed in from shared/facts/formats.md, section E. The generator asserts that its
oracles reproduce them and emits them under their number, so the tests check them as well."""

import numpy as np

F32 = np.float32


def bf16(values):
    import ml_dtypes

    return np.array(values, F32).astype(ml_dtypes.bfloat16).astype(F32)


def pattern(divisor, count=32):
    return np.array([(37 * i) % 101 - 50 for i in range(count)], F32) / F32(divisor)


# E1: input, bf16, f16, e4m3 saturating, e5m2 saturating
E1 = [
    (1.0, "3F80", "3C00", "38", "3C"),
    (0.10000000149011612, "3DCD", "2E66", "1D", "2E"),
    (1.00390625, "3F80", "3C04", "38", "3C"),
    (1.01171875, "3F82", "3C0C", "38", "3C"),
    (-2.7182817459106445, "C02E", "C170", "C3", "C1"),
    (16.0, "4180", "4C00", "58", "4C"),
    (17.0, "4188", "4C40", "58", "4C"),
    (19.0, "4198", "4CC0", "5A", "4D"),
    (0.001953125, "3B00", "1800", "01", "18"),
    (0.0009765625, "3A80", "1400", "00", "14"),
    (0.0029296875, "3B40", "1A00", "02", "1A"),
    (0.00146484375, "3AC0", "1600", "01", "16"),
    (7.62939453125e-06, "3700", "0080", "00", "00"),
    (2.288818359375e-05, "37C0", "0180", "00", "02"),
    (2.9802322387695312e-08, "3300", "0000", "00", "00"),
    (447.8999938964844, "43E0", "5F00", "7E", "5F"),
    (448.0, "43E0", "5F00", "7E", "5F"),
    (464.0, "43E8", "5F40", "7E", "5F"),
    (464.0000915527344, "43E8", "5F40", "7E", "5F"),
    (480.0, "43F0", "5F80", "7E", "60"),
    (500.0, "43FA", "5FD0", "7E", "60"),
    (57344.0, "4760", "7B00", "7E", "7B"),
    (61439.99609375, "4770", "7B80", "7E", "7B"),
    (61440.0, "4770", "7B80", "7E", "7B"),
    (65519.99609375, "4780", "7BFF", "7E", "7B"),
    (65520.0, "4780", "7C00", "7E", "7B"),
    (3.3895313892515355e38, "7F7F", "7C00", "7E", "7B"),
    (3.39617752923046e38, "7F80", "7C00", "7E", "7B"),
    (float("inf"), "7F80", "7C00", "7E", "7B"),
    (float("-inf"), "FF80", "FC00", "FE", "FB"),
    (float("nan"), "7FFF", "7FFF", "7F", "7F"),
    (-0.0, "8000", "8000", "80", "80"),
]

# E3: input, ties to even, ties away
E3 = [
    (0.25, "0", "1"), (0.2500001, "1", "1"), (0.75, "2", "2"), (1.25, "2", "3"),
    (1.75, "4", "4"), (2.5, "4", "5"), (3.5, "6", "6"), (5.0, "6", "7"),
    (5.0000005, "7", "7"), (100.0, "7", "7"), (-0.0, "8", "0"), (-0.1, "8", "8"),
    (-0.75, "A", "A"),
]

E4_INPUT = bf16([0.100097656, -0.200195312, 0.30078125, 0.44921875, -0.6015625, 0.75, 0.8984375,
                 -1.046875, 1.203125, -1.3515625, 1.5, 1.6484375, -1.796875, 1.953125, 2.09375,
                 -2.40625])

# E6: amax, scale byte of ceil(log2(amax / 6))
E6 = [(3, 126), (3.29999995, 127), (3.5, 127), (4, 127), (5.9000001, 127), (6, 127),
      (6.0999999, 128), (7, 128), (8, 128), (1, 125)]


def row_with_amax(amax):
    row = np.zeros(32, F32)
    row[5] = -F32(amax)
    return row


def padded(values):
    return np.array(values + [0.0] * (32 - len(values)), F32)


Q8_TIES = padded([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5])
Q4_EDGE = padded([-8, 0.5, -0.5, 7.4, 7.5, 7.6, 8, 1.49])
Q4_EDGE_BELOW = padded([8, 0.5, -0.5, -7.4, -7.5, -7.6, -8, 1.49])

# format, label, tensor scale, input, payload, scales ("" where not stated by the facts)
ROWS = [
    ("fp8_e4m3", "E2", 0.05, [3.3], "68", ""),
    ("fp8_e4m3", "E2", 1.0, [3.3, 700.0], "45 7E", ""),
    ("fp8_e5m2", "E2", 1.0, [3.3], "43", ""),
    ("nvfp4", "E4", F32(12) / F32(2688), E4_INPUT, "91 22 4B D4 D5 66 6E F7", "6B"),
    ("nvfp4", "E4", F32(12) / F32(448), E4_INPUT, "90 21 4B D4 D5 66 6E F7", "57"),
    ("nvfp4", "E4", 1.0, E4_INPUT, "90 21 4B D4 D5 66 6E F7", "2D"),
    ("mxfp4", "E6", 1.0, pattern(15), "AD D3 48 1C B5 D2 49 0C C4 51 3A 9D C4 50 2B A5", "7F"),
    ("fp4_mx_block16", "E7", 1.0, E4_INPUT, "90 21 3A C4 D4 55 6E E6", "7E"),
    ("q8_0", "E9", 1.0, pattern(16),
     "81 DF 3D 9A F8 56 B4 12 70 CD 2B 89 E7 45 A2 00 5E BB 19 77 D5 33 90 EE 4C AA 08 66 C3 21 7F "
     "DC", "4D 26"),
    ("q4_0", "E9", 1.0, pattern(16), "E0 46 AC F2 58 BD 13 79 DF 35 8B E0 46 AC F2 68", "40 36"),
    ("q8_0", "E9-ties", 1.0, Q8_TIES, "7F 01 02 03 FF FE FD" + " 00" * 25, "00 3C"),
    ("q4_0", "E9-edge", 1.0, Q4_EDGE, "80 89 88 8F 8F 8F 8F 89 88 88 88 88 88 88 88 88", "00 3C"),
    ("q4_0", "E9-edge", 1.0, Q4_EDGE_BELOW, "80 88 89 8F 8F 8F 8F 87 88 88 88 88 88 88 88 88", "00 BC"),
    ("q8_0", "E9-zero", 1.0, padded([]), "00" * 32, "00 00"),
    ("q4_0", "E9-zero", 1.0, padded([]), "88" * 16, "00 80"),
]
# llama.cpp's other blocks: the scale, and the minimum, is what the block starts with.
ROWS += [
    ("q4_1", "E9", 1.0, pattern(16), "D0 36 9B F2 57 BD 13 69 CE 25 8A E0 46 9C F2 58",
     "AB 36 40 C2"),
    ("q5_0", "E9", 1.0, pattern(16),
     "A4 A5 2D 6D C0 7C 38 F3 BF 6B 26 E2 AE 5A 15 D1 8D 49 F4 C0", "40 32"),
    ("q5_1", "E9", 1.0, pattern(16),
     "A4 A5 2D 6D B0 7B 37 E3 AF 6A 26 D2 9D 59 05 C1 8C 48 F4 B0", "74 32 40 C2"),
    ("iq4_nl", "E9", 1.0, pattern(16), "E0 35 AC F1 47 CE 12 69 DF 24 9B F0 36 BD F1 58", "55 26"),
    ("q4_1", "E9-zero", 1.0, padded([]), "00" * 16, "00 00 00 00"),
    ("q5_0", "E9-zero", 1.0, padded([]), "FF FF FF FF" + " 00" * 16, "00 80"),
    ("q5_1", "E9-zero", 1.0, padded([]), "00" * 20, "00 00 00 00"),
    ("iq4_nl", "E9-zero", 1.0, padded([]), "88" * 16, "00 00"),
]
# The four-bit index key of 68 bytes is mxfp4 with rows of 128; its first eight bytes.
ROWS += [("mxfp4", "E15", 1.0, pattern(16, 128), "AD C3 48 1C A5 D2 39 0C", "7F 7F 7F 7F")]
ROWS += [("mxfp4", "E6", 1.0, row_with_amax(amax), None, f"{byte:02X}") for amax, byte in E6]
ROWS += [("fp4_mx_block16", "E6", 1.0, row_with_amax(amax)[:16], None, f"{byte:02X}")
         for amax, byte in E6]

# Records: format, label, where in the row the values go, the values, then (offset, bytes) in the payload
# and in the scales. A tile's place in the row is part of the fact.
BUMPED = np.r_[E4_INPUT[:15], F32(-2.5)]
TILE_656 = "FE EF 75 FB DD 7A F8 68"
TILE_POWER = "FC ED 74 FA DC 78 F7 66"
RECORD_ROWS = [
    ("fp8_ds_mla_656", "E10", 0, pattern(16, 128), [(0, TILE_656), (512, "49 92 E4 3B")], []),
    ("fp8_ds_mla_656", "E10", 384, pattern(16, 128), [(384, TILE_656), (524, "49 92 E4 3B")], []),
    ("fp8_ds_mla_656", "E10", 512, [1.00390625, -2.7182817459106445], [(528, "80 3F 2E C0")], []),
    ("fp8_ds_mla_584", "E11", 0, pattern(16, 64), [(0, TILE_POWER)], [(0, "78"), (7, "00")]),
    ("fp8_ds_mla_584", "E11", 384, pattern(16, 64), [(384, TILE_POWER)], [(6, "78 00")]),
    ("fp8_ds_mla_584", "E11", 448, [1.00390625, -2.7182817459106445], [(448, "80 3F 2E C0")], []),
    ("fp8_ds_mla_528", "E12", 0, pattern(16, 32), [(0, TILE_POWER)], [(0, "78")]),
    ("fp8_ds_mla_528", "E12", 480, pattern(16, 32), [(480, TILE_POWER)], [(15, "78")]),
    ("nvfp4_ds_mla_352", "E13", 0, E4_INPUT,
     [(0, "90 21 4B D4 D5 66 6E F7"), (320, "2D")], []),
    ("nvfp4_ds_mla_352", "E13", 16, BUMPED,
     [(8, "90 21 3B C4 D5 65 6E F6"), (328, "2E")], []),
    ("nvfp4_ds_mla_352", "E13", 64, BUMPED, [(32, "90 21 3B C4 D5 65 6E F6"), (321, "2E")], []),
    ("nvfp4_ds_mla_352", "E13", 496, BUMPED, [(248, "90 21 3B C4 D5 65 6E F6"), (351, "2E")], []),
    ("nvfp4_ds_mla_288", "E14", 0, E4_INPUT, [(0, "90 21 4B D4 D5 66 6E F7")], [(0, "2D")]),
    ("nvfp4_ds_mla_288", "E14", 496, E4_INPUT, [(248, "90 21 4B D4 D5 66 6E F7")], [(31, "2D")]),
    ("index_fp8_132", "E15", 0, pattern(16, 128), [(0, TILE_POWER)], [(0, "00 00 00 3C")]),
]
