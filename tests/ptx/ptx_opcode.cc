/* The table, put together once. */
#include "ptx_opcode.h"

static ptx_opcodes make_table() {
    ptx_opcodes table;
    ptx_add_integer(table);
    ptx_add_float(table);
    ptx_add_convert(table);
    ptx_add_move(table);
    ptx_add_memory(table);
    ptx_add_copy(table);
    ptx_add_warp(table);
    return table;
}

const ptx_opcodes &ptx_opcode_table() {
    static const ptx_opcodes table = make_table();
    return table;
}
