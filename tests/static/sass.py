"""SASS as nvdisasm prints it, as a list of instructions with branch targets."""
import os
import re
import shutil
import subprocess
import sys


class Instruction:
    """One instruction: its name without modifiers, its text, and its predicate or None."""

    def __init__(self, name, text, predicate):
        self.name = name
        self.text = text
        self.predicate = predicate
        self.target = None  # index a branch goes to


def find_nvdisasm():
    """nvdisasm of the toolkit, or of the PyPI package nvidia-cuda-nvdisasm beside this Python."""
    found = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    if found:
        return found
    for root in sys.path:
        path = os.path.join(root, "nvidia", "cu13", "bin", "nvdisasm")
        if os.path.exists(path):
            if not os.access(path, os.X_OK):
                os.chmod(path, 0o755)
            return path
    return None


def load(nvdisasm, cubin, kernel=None):
    """The instructions of one kernel of a cubin; its only one if `kernel` is None."""
    output = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True,
                            text=True).stdout
    instructions, labels, inside = [], {}, kernel is None
    for line in output.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line)
        if section and kernel is not None:
            inside = section.group(1) == kernel
        if not inside:
            continue
        label = re.match(r"^(\.L_x_\d+):", line)
        if label:
            labels[label.group(1)] = len(instructions)
        found = re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;", line)
        if found:
            text, predicate = found.group(1), None
            guarded = re.match(r"@(!?U?P\w+)\s+(.*)", text)
            if guarded:
                predicate, text = guarded.groups()
            instructions.append(Instruction(text.split()[0].split(".")[0], text, predicate))
    for instruction in instructions:
        if instruction.name == "BRA":
            label = re.search(r"(\.L_x_\d+)", instruction.text)
            instruction.target = labels.get(label.group(1)) if label else None
            # BRA P0, target: the condition is an operand
            if re.match(r"BRA(\.\w+)* !?U?P\d", instruction.text):
                instruction.predicate = instruction.predicate or "operand"
    return instructions
