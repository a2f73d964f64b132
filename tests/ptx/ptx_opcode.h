/* The instructions the interpreter knows: one table from an opcode with all its suffixes to what
 * executes it. What is not in it is an error, never a guess. */
#ifndef PTX_OPCODE_H
#define PTX_OPCODE_H

#include <string>
#include <unordered_map>

#include "ptx_program.h"

/* The operands an opcode wants, in their order:
 *   h w l    a register or number of 16 bits, 32 bits, 64 bits
 *   x        a register or number of whatever width it has
 *   p        a predicate
 *   =        the next one (or vector) is written
 *   ...      {} around operands: a vector
 *   A        an address in brackets: a base and an offset
 *   N        a number that becomes part of the instruction
 *   T        a label
 *   ?        what follows may be left out
 *   |        what follows may be joined by a bar (d|p), or left out */
struct ptx_opcode {
    ptx_execute execute;
    std::string shape;
    ptx_class kind;
};

typedef std::unordered_map<std::string, ptx_opcode> ptx_opcodes;

const ptx_opcodes &ptx_opcode_table();

void ptx_add_integer(ptx_opcodes &table);
void ptx_add_float(ptx_opcodes &table);
void ptx_add_convert(ptx_opcodes &table);
void ptx_add_move(ptx_opcodes &table);
void ptx_add_memory(ptx_opcodes &table);
void ptx_add_copy(ptx_opcodes &table);
void ptx_add_warp(ptx_opcodes &table);

#endif
