"""The independent implementations that golden vectors come from: the CUDA headers' host path for
element codes, ml_dtypes for decoding and as a second opinion, gguf for ggml's blocks, and the rules
of the scaled 4-bit formats written out in numpy. Nothing of kvgauge's own code is used."""

import pathlib
import subprocess
import tempfile

import gguf.quants
import ml_dtypes
import numpy as np

F32 = np.float32
NAN_BITS = 0x7FC00000
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)


def bits_of(values):
    return np.ascontiguousarray(values, F32).view(np.uint32)


def from_bits(bits):
    return np.asarray(bits, np.uint32).view(F32)


class CudaHost:
    """Element conversions of the CUDA headers, compiled for the host."""

    COLUMNS = ("bf16", "f16", "e4m3", "e5m2", "e2m1", "e8m0")

    def __init__(self, cuda_include):
        self.folder = tempfile.TemporaryDirectory()
        self.program = pathlib.Path(self.folder.name) / "oracle_cuda"
        source = pathlib.Path(__file__).with_name("oracle_cuda.cpp")
        subprocess.run(
            ["c++", "-std=c++17", "-I", cuda_include, str(source), "-o", str(self.program)],
            check=True,
        )

    def encode(self, values):
        text = "".join(f"{b:08x}\n" for b in bits_of(values).ravel())
        done = subprocess.run([self.program], input=text, text=True, capture_output=True, check=True)
        rows = np.array([[int(c, 16) for c in line.split()] for line in done.stdout.splitlines()])
        codes = {name: rows[:, i].astype(np.uint16) for i, name in enumerate(self.COLUMNS)}
        second_opinion(np.asarray(values, F32).ravel(), codes)
        return codes


def second_opinion(values, codes):
    """ml_dtypes must agree with CUDA wherever the two define the same thing: not on NaN (CUDA drops
    sign and payload), and on saturation only after clipping."""
    finite = ~np.isnan(values)
    for name, dtype, limit, width in (
        ("bf16", ml_dtypes.bfloat16, None, np.uint16),
        ("f16", np.float16, None, np.uint16),
        ("e4m3", ml_dtypes.float8_e4m3fn, 448, np.uint8),
        ("e5m2", ml_dtypes.float8_e5m2, 57344, np.uint8),
        ("e2m1", ml_dtypes.float4_e2m1fn, 6, np.uint8),
    ):
        clipped = values if limit is None else np.clip(values, F32(-limit), F32(limit))
        with np.errstate(over="ignore", invalid="ignore"):
            other = clipped.astype(dtype).view(width)
        if name == "e2m1":
            other = other & 15
        differ = finite & (other != codes[name])
        assert not differ.any(), (name, values[differ][:4], other[differ][:4])


def decode_codes(name, codes):
    dtype, width = {
        "bf16": (ml_dtypes.bfloat16, np.uint16),
        "f16": (np.float16, np.uint16),
        "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
        "e5m2": (ml_dtypes.float8_e5m2, np.uint8),
        "e2m1": (ml_dtypes.float4_e2m1fn, np.uint8),
        "e8m0": (ml_dtypes.float8_e8m0fnu, np.uint8),
    }[name]
    return np.asarray(codes, width).view(dtype).astype(F32)


def e2m1_away(values):
    """Nearest magnitude, ties to the larger one; the sign bit is x < 0 (SGLang kvfp4_tensor.py)."""
    magnitude = np.abs(values)
    code = np.searchsorted((E2M1[1:] + E2M1[:-1]) / 2, magnitude, side="right")
    return (code + np.where(values < 0, 8, 0)).astype(np.uint8)


def e2m1_even(values):
    clipped = np.clip(values, F32(-6), F32(6))
    return clipped.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15


def ceil_log2(values):
    mantissa, exponent = np.frexp(values)
    return np.where(mantissa == 0.5, exponent - 1, exponent)


def pack(codes):
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def unpack(payload):
    codes = np.empty(payload.shape[:-1] + (2 * payload.shape[-1],), np.uint8)
    codes[..., 0::2] = payload & 15
    codes[..., 1::2] = payload >> 4
    return codes


def encode_nvfp4(groups, tensor_scale):
    amax = np.abs(groups).max(axis=1)
    wanted = (amax / F32(6)) / tensor_scale
    scales = np.minimum(wanted, F32(448)).astype(ml_dtypes.float8_e4m3fn)
    divisor = scales.astype(F32) * tensor_scale
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = groups / divisor[:, None]
    codes = e2m1_even(np.where(divisor[:, None] == 0, F32(0), quotients))
    return pack(codes), scales.view(np.uint8)[:, None]


def encode_mx(groups, floor_of_sixth, round_codes):
    sixth = np.maximum(np.abs(groups).max(axis=1) / F32(6), F32(floor_of_sixth))
    exponent = ceil_log2(sixth)
    scaled = np.ldexp(groups.astype(np.float64), -exponent[:, None]).astype(F32)
    byte = np.clip(exponent + 127, 0, 254).astype(np.uint8)
    return pack(round_codes(scaled)), byte[:, None]


IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F32)


def encode_iq4_nl(groups):
    """ggml's quantize_row_iq4_nl_ref, its sums in fp32 and in order; where ggml leaves a tiny group's
    codes unset, its CUDA code's 8."""
    blocks = []
    for x in groups:
        extreme = x[np.argmax(np.abs(x))]
        tiny = np.abs(extreme) < F32(1e-15)
        inverse = F32(0) if tiny else F32(1) / (extreme / F32(-127))
        codes = np.searchsorted((IQ4_NL[1:] + IQ4_NL[:-1]) / 2, x * inverse, side="right")
        products, squares = F32(0), F32(0)
        for value, t in zip(x, IQ4_NL[codes]):
            weighted = (value * value) * t
            products, squares = products + weighted * value, squares + weighted * t
        d = F32(0) if tiny else products / squares
        nibbles = (codes[:16] | codes[16:] << 4).astype(np.uint8)
        blocks.append(np.r_[np.array([d], np.float16).view(np.uint8), nibbles])
    return np.array(blocks)


class Format:
    """encode: rows of fp32 without infinities (and without NaN unless has_nan) and a tensor scale
    to payload and scale bytes. decode: the inverse, (unit * group scale) * tensor scale in fp32."""

    def __init__(self, name, group, has_nan, encode, decode):
        self.name, self.group, self.has_nan = name, group, has_nan
        self._encode, self._decode = encode, decode

    def encode(self, row, tensor_scale):
        row = np.asarray(row, F32)
        infinite = np.isinf(row)
        nan = np.isnan(row) & (not self.has_nan)
        clean = np.where(infinite, np.copysign(F32(65504), row), row)
        clean = np.where(nan, F32(0), clean).astype(F32)
        payload, scales = self._encode(clean.reshape(-1, self.group), F32(tensor_scale))
        return payload.tobytes(), scales.tobytes(), int(nan.sum()), int(infinite.sum())

    def decode(self, payload, scales, tensor_scale):
        units, group_scale = self._decode(np.frombuffer(payload, np.uint8),
                                          np.frombuffer(scales, np.uint8))
        with np.errstate(invalid="ignore", over="ignore"):
            return ((units * group_scale) * F32(tensor_scale)).astype(F32).ravel()


def formats(cuda):
    none = np.empty(0, np.uint8)
    one = np.ones((1, 1), F32)

    def element(name, width, scaled):
        def encode(groups, tensor_scale):
            with np.errstate(over="ignore", invalid="ignore"):
                values = groups / tensor_scale if scaled else groups
            return cuda.encode(values)[name].astype(width), none

        def decode(payload, scales):
            return decode_codes(name, payload.view(width)), one

        return encode, decode

    def four_bits(group, scale_name, encode):
        def decode(payload, scales):
            units = decode_codes("e2m1", unpack(payload.reshape(-1, group // 2)))
            return units, decode_codes(scale_name, scales)[:, None]

        return encode, decode

    def ggml(quant, codes_first, head=2, quantize=None):
        """head: bytes of scale, and of a minimum, that a block starts with."""
        def encode(groups, tensor_scale):
            blocks = quantize(groups) if quantize else quant.quantize_blocks(groups)
            return (blocks[:, head:], blocks[:, :head]) if codes_first else (blocks, none)

        def decode(payload, scales):
            if codes_first:
                d = scales.reshape(-1, head)
                blocks = np.concatenate([d, payload.reshape(len(d), -1)], axis=1)
            else:
                blocks = payload.reshape(-1, 34 if quant is gguf.quants.Q8_0 else 18)
            with np.errstate(invalid="ignore"):
                return quant.dequantize_blocks(np.ascontiguousarray(blocks)), one

        return encode, decode

    q8, q4 = gguf.quants.Q8_0, gguf.quants.Q4_0
    return [
        Format("bf16", 1, True, *element("bf16", np.uint16, False)),
        Format("f16", 1, True, *element("f16", np.uint16, False)),
        Format("fp8_e4m3", 1, True, *element("e4m3", np.uint8, True)),
        Format("fp8_e5m2", 1, True, *element("e5m2", np.uint8, True)),
        Format("nvfp4", 16, False, *four_bits(16, "e4m3", encode_nvfp4)),
        Format("mxfp4", 32, False, *four_bits(
            32, "e8m0", lambda groups, _: encode_mx(groups, 2.0**-126, e2m1_even))),
        Format("fp4_mx_block16", 16, False, *four_bits(
            16, "e8m0", lambda groups, _: encode_mx(groups, 1e-10, e2m1_away))),
        Format("q8_0", 32, False, *ggml(q8, True)),
        Format("q4_0", 32, False, *ggml(q4, True)),
        Format("q8_0_ggml", 32, False, *ggml(q8, False)),
        Format("q4_0_ggml", 32, False, *ggml(q4, False)),
        Format("q4_1", 32, False, *ggml(gguf.quants.Q4_1, True, 4)),
        Format("q5_0", 32, False, *ggml(gguf.quants.Q5_0, True)),
        Format("q5_1", 32, False, *ggml(gguf.quants.Q5_1, True, 4)),
        Format("iq4_nl", 32, False, *ggml(gguf.quants.IQ4_NL, True, 2,
                                          encode_iq4_nl)),
    ]
