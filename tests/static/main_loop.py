"""What one steady trip of a kernel's main loop issues.

The main loop is the innermost one that holds the tensor products. A steady trip asks for one full
stage of tokens, looks the next pages up, meets no new maximum and masks nothing. Among all paths
from the loop's head to its back edge it is the cheapest that issues every tensor product, as many
asynchronous copies of the wanted kind as a stage takes, and as many page lookups.
"""
import collections
import re

# What issues at half rate on sm_90: the integer and logic pipe.
ALU = {"LOP3", "PRMT", "SHF", "IADD3", "ISETP", "SEL", "VIADD", "LEA", "FSETP", "FMNMX", "IMNMX",
       "VIMNMX", "FSEL", "VOTE", "PLOP3", "IADD"}
NOT_ISSUED = {"NOP"}


def find_main_loop(instructions):
    """(first, last) of the innermost loop with the most HMMA; None without one."""
    best = None
    for last, instruction in enumerate(instructions):
        first = instruction.target
        if first is None or first > last:
            continue
        count = sum(1 for i in instructions[first:last + 1] if i.name == "HMMA")
        if count >= 8 and (best is None or last - first < best[1] - best[0]):
            best = (first, last)
    return best


def is_copy(instruction, masked):
    """An asynchronous copy; `masked`: one that may be told to write zeros instead."""
    if instruction.name != "LDGSTS":
        return False
    return bool(re.search(r", !?P\d$", instruction.text)) == masked


def successors(index, instruction, last):
    if index == last:
        return [last + 1]
    if instruction.name == "BRA" and instruction.target is not None:
        ahead = [instruction.target] if index < instruction.target <= last else []
        return ahead + ([index + 1] if instruction.predicate else [])
    return [index + 1]


def steady_trip(instructions, copies, lookups, masked=False):
    """Instructions of the cheapest steady trip, or None if no path does the work.

    masked: through the copies that can write zeros (pages that are no multiple of 16 tokens)."""
    found = find_main_loop(instructions)
    if found is None:
        return None
    first, last = found
    products = sum(1 for i in instructions[first:last + 1] if i.name == "HMMA")
    # reached[k]: work done so far -> (cost, previous index, previous work)
    reached = [{} for _ in range(last - first + 2)]
    reached[0][(0, 0, 0)] = (0, None, None)
    for index in range(first, last + 1):
        instruction = instructions[index]
        other = instruction.name == "LDGSTS" and not is_copy(instruction, masked)
        for work, (cost, _, _) in list(reached[index - first].items()):
            if other:
                continue
            after = (work[0] + is_copy(instruction, masked),
                     min(work[1] + (instruction.name == "LDG"), lookups),
                     work[2] + (instruction.name == "HMMA"))
            price = cost + (instruction.name not in NOT_ISSUED)
            for target in successors(index, instruction, last):
                known = reached[target - first].get(after)
                if known is None or known[0] > price:
                    reached[target - first][after] = (price, index, work)
    wanted = (copies, lookups, products)
    if wanted not in reached[-1]:
        return None
    trip, index, work = [], last + 1, wanted
    while reached[index - first][work][1] is not None:
        _, index, work = reached[index - first][work]
        trip.append(instructions[index])
    return list(reversed(trip))


def classes(trip):
    """How often each instruction is issued in a trip."""
    return dict(collections.Counter(i.name for i in trip if i.name not in NOT_ISSUED).most_common())


def issued(trip):
    return sum(1 for i in trip if i.name not in NOT_ISSUED)


def alu(trip):
    return sum(1 for i in trip if i.name in ALU)


def always_rescaled(instructions, copies, lookups):
    """Issue slots of the same trip if every stage found a new maximum: with the block that follows
    the vote, which multiplies the outputs."""
    found = find_main_loop(instructions)
    trip = steady_trip(instructions, copies, lookups)
    if found is None or trip is None:
        return None
    first, last = found
    extra = 0
    for index in range(first, last):
        branch = instructions[index]
        if branch.name != "BRA" or branch.target is None or not index < branch.target <= last:
            continue
        block = instructions[index + 1:branch.target]
        if (sum(1 for i in block if i.name == "FMUL") >= 16 and
                not any(i.name in ("HMMA", "LDGSTS") for i in block)):
            extra = max(extra, issued(block))
    return issued(trip) + extra
