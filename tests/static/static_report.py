#!/usr/bin/env python3
"""What the narrow mma kernels cost, without a GPU: registers, spills, resident warps, bytes in
flight, and issue slots per KV value in the main loop, against the slots a GPU has at full bandwidth.

  static_report.py --source DIR [--work DIR] [--archs 80,90,...] [--json DIR] [--markdown FILE]
                   [--check FILE]

--json writes <arch>.json files, --check fails (exit 1) where a kernel is worse than its budget.
Needs nvcc and nvdisasm (the toolkit's, or the PyPI package nvidia-cuda-nvdisasm); exit 77 without.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

import main_loop
import sass

# Shared memory in bytes, and threads, of a multiprocessor; registers are 65,536 everywhere.
ARCHS = {
    "80": {"shared": 167936, "block_shared": 166912, "warps": 64, "blocks": 32},
    "89": {"shared": 102400, "block_shared": 101376, "warps": 48, "blocks": 24},
    "90": {"shared": 233472, "block_shared": 232448, "warps": 64, "blocks": 32},
    "120f": {"shared": 102400, "block_shared": 101376, "warps": 48, "blocks": 24},
}
# Device memory bytes per clock and multiprocessor at full bandwidth; 128 issue slots per clock.
GPUS = {
    "H200": ("90", 20.7),
    "A100-80": ("80", 13.4),
    "RTX 5090": ("120f", 4.4),
    "RTX 4090": ("89", 3.1),
    "GB10": ("120f", 2.35),
}
SLOTS_PER_CLOCK = 128
IN_FLIGHT_BYTES = 32 * 1024  # as in gpu_attend.c


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("static_report: %s\n%s" % (" ".join(command), done.stdout + done.stderr))
    return done.stdout + done.stderr


def includes(source):
    return ["-I%s/%s" % (source, folder) for folder in ("kernels", "kernels/gpu", "layouts")]


def shapes(nvcc, source, work):
    program = os.path.join(work, "shapes")
    here = os.path.dirname(os.path.abspath(__file__))
    run([nvcc, "-std=c++17", "-arch=sm_90", *includes(source), "-o", program,
         os.path.join(here, "shapes.cu")])
    return [json.loads(line) for line in run([program]).splitlines()]


def compile_kernel(nvcc, source, work, name, arch):
    """(cubin, registers, spilled bytes) of the narrow kernel at head dim 128, eight heads."""
    path = os.path.join(work, "%s_%s" % (name, arch))
    with open(path + ".cu", "w", encoding="utf-8") as file:
        file.write('#include "attend_mma.cuh"\n'
                   "template __global__ void attend_mma<decode_%s, decode_%s, 128, 128, 1>"
                   "(const struct attend_arguments);\n" % (name, name))
    text = run([nvcc, "-std=c++17", "-arch=sm_" + arch, "-Xptxas", "-v", *includes(source),
                "-cubin", "-o", path + ".cubin", path + ".cu"])
    registers = int(re.search(r"Used (\d+) registers", text).group(1))
    spilled = int(re.search(r"(\d+) bytes spill stores", text).group(1))
    return path + ".cubin", registers, spilled


def residency(arch, registers, shape):
    """(warps per block, stages, blocks per multiprocessor) as gpu_attend.c chooses them: enough
    bytes in flight, then most warps, then most bytes."""
    limits, best, chosen = ARCHS[arch], None, None
    per_warp = (registers * 32 + 255) // 256 * 256
    for warps in (4, 3, 2, 1):
        for stages in (2, 3, 4):
            ring = max(stages * shape["stage_bytes"], shape["ring_least_bytes"])
            shared = shape["beside_rings_bytes"] + warps * ring
            if shared > limits["block_shared"]:
                continue
            blocks = min(limits["shared"] // (shared + 1024), limits["warps"] // warps,
                         limits["blocks"], 65536 // per_warp // warps)
            in_flight = blocks * warps * (stages - 1) * shape["stage_bytes"]
            enough = in_flight >= IN_FLIGHT_BYTES
            load = (enough, blocks * warps if enough else 0, in_flight, blocks * warps)
            if blocks > 0 and (best is None or load > best):
                best, chosen = load, (warps, stages, blocks)
    return chosen


def measure(nvcc, nvdisasm, source, work, shape, arch):
    cubin, registers, spilled = compile_kernel(nvcc, source, work, shape["format"], arch)
    code = sass.load(nvdisasm, cubin)
    trip = main_loop.steady_trip(code, shape["copies"], shape["lookups"])
    scattered = main_loop.steady_trip(code, shape["copies"], shape["lookups"], masked=True)
    if trip is None or scattered is None:
        sys.exit("static_report: %s sm_%s: no steady trip in the main loop" %
                 (shape["format"], arch))
    lane_values = shape["kv_values"] / 32
    warps, stages, blocks = residency(arch, registers, shape)
    in_flight = (stages - 1) * shape["stage_bytes"] * warps * blocks
    return {
        "registers": registers,
        "spilled_bytes": spilled,
        "warps_per_block": warps,
        "stages": stages,
        "blocks_per_sm": blocks,
        "resident_warps": warps * blocks,
        "in_flight_bytes_per_sm": in_flight,
        "slots_per_value": round(main_loop.issued(trip) / lane_values, 3),
        "slots_per_value_any_page": round(main_loop.issued(scattered) / lane_values, 3),
        "slots_per_value_always_rescaled": round(
            main_loop.always_rescaled(code, shape["copies"], shape["lookups"]) / lane_values, 3),
        "alu_per_value": round(main_loop.alu(trip) / lane_values, 3),
        "trip": main_loop.classes(trip),
    }


def predicted(shape, row, bytes_per_clock):
    """Share of full bandwidth that the issue slots allow, at most 1, and the slots there are."""
    there = SLOTS_PER_CLOCK * shape["bytes_per_value"] / bytes_per_clock
    return min(1.0, there / row["slots_per_value"]), there


def interpreted(folder, arch):
    """Instructions of PTX per value and format, as the interpreter counted them (test_ptx_loop)."""
    path = os.path.join(folder or "", "ptx_%s.md" % arch)
    if folder is None or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        cells = [[cell.strip() for cell in line.split("|")] for line in file]
    return {cell[1]: cell[2] for cell in cells[2:]}


def markdown(all_shapes, table, folder):
    out = ["| format | GPU | slots per value | any page | always rescaled | PTX interpreted | "
           "slots there are | bound by | share of the ceiling at most |",
           "|---|---|---:|---:|---:|---:|---:|---|---:|"]
    for shape in all_shapes:
        for gpu, (arch, bytes_per_clock) in GPUS.items():
            row = table.get(arch, {}).get(shape["format"])
            if row is None:
                continue
            share, there = predicted(shape, row, bytes_per_clock)
            out.append("| %s | %s | %.2f | %.2f | %.2f | %s | %.1f | %s | %d %% |" % (
                shape["format"], gpu, row["slots_per_value"], row["slots_per_value_any_page"],
                row["slots_per_value_always_rescaled"],
                interpreted(folder, arch).get(shape["format"], "-"), there,
                "memory" if share == 1.0 else "issue slots", round(share * 100)))
    return "\n".join(out) + "\n"


def worse(budget, table):
    """Lines that say where a kernel is worse than its budget; higher is worse but for `least`."""
    lines = []
    for arch, formats in budget["most"].items():
        if arch not in table:
            continue  # not among --archs
        for name, limits in formats.items():
            row = table.get(arch, {}).get(name)
            if row is None:
                lines.append("sm_%s %s: not measured" % (arch, name))
                continue
            for key, limit in limits.items():
                if row[key] > limit:
                    lines.append("sm_%s %s: %s is %s, its budget %s" %
                                 (arch, name, key, row[key], limit))
    for arch, limits in budget["least"].items():
        for name, row in table.get(arch, {}).items():
            for key, limit in limits.items():
                if row[key] < limit:
                    lines.append("sm_%s %s: %s is %s, at least %s is wanted" %
                                 (arch, name, key, row[key], limit))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--work", default="static-work")
    parser.add_argument("--archs", default=",".join(ARCHS))
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--check")
    parser.add_argument("--ptx", help="folder of the tables that test_ptx_loop printed")
    arguments = parser.parse_args()
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    nvdisasm = sass.find_nvdisasm()
    if not os.path.exists(nvcc) or nvdisasm is None:
        print("skipped: needs nvcc and nvdisasm (pip install nvidia-cuda-nvdisasm)")
        return 77
    os.makedirs(arguments.work, exist_ok=True)
    all_shapes = shapes(nvcc, arguments.source, arguments.work)
    table = {}
    for arch in arguments.archs.split(","):
        table[arch] = {shape["format"]: measure(nvcc, nvdisasm, arguments.source, arguments.work,
                                                shape, arch) for shape in all_shapes}
        if arguments.json:
            os.makedirs(arguments.json, exist_ok=True)
            with open(os.path.join(arguments.json, "sm_%s.json" % arch), "w",
                      encoding="utf-8") as file:
                json.dump(table[arch], file, indent=1)
                file.write("\n")
    text = markdown(all_shapes, table, arguments.ptx)
    print(text)
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(text)
    if arguments.check:
        with open(arguments.check, encoding="utf-8") as file:
            lines = worse(json.load(file), table)
        print("\n".join(lines) if lines else "every kernel is within its budget")
        return 1 if lines else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
