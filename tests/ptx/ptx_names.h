/* The names of one kernel while it is parsed: registers in nested scopes, numbers that become
 * constants, parameters and shared variables. */
#ifndef PTX_NAMES_H
#define PTX_NAMES_H

#include <unordered_map>

#include "ptx_program.h"
#include "ptx_reader.h"

struct ptx_names {
    explicit ptx_names(ptx_kernel &kernel);

    void open_scope();
    bool close_scope(); /* false: it was the last one */
    /* Behind .reg and .shared, up to the semicolon; behind the bracket of the parameters. */
    void declare_registers(ptx_reader &reader);
    void declare_shared(ptx_reader &reader);
    void declare_parameters(ptx_reader &reader);

    /* A register, special ones among them; false: no such name. */
    bool find_register(const std::string &name, ptx_operand &out) const;
    /* A number, or the address of a parameter or a shared variable; for `bits` wide registers. */
    ptx_operand constant(uint64_t value, uint8_t bits);
    bool find_address(const std::string &name, uint64_t &out) const;

  private:
    /* %r<12>, or a name alone: count 0. */
    struct range {
        ptx_operand first;
        uint32_t count;
    };

    ptx_kernel &kernel;
    std::vector<std::unordered_map<std::string, range>> scopes;
    std::unordered_map<std::string, uint64_t> addresses;
    std::map<std::pair<uint64_t, uint8_t>, ptx_operand> constants;
};

/* Bytes that a register of so many bits takes in the register file. */
inline uint32_t ptx_register_bytes(uint8_t bits) {
    return bits == 1 ? 0 : bits == 64 ? 8 * PTX_LANES : 4 * PTX_LANES;
}

#endif
