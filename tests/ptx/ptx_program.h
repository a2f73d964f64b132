/* PTX as it is executed: a module's kernels, each a list of decoded instructions over numbered
 * registers. ptx_parse makes it, ptx_run executes it. A register is 32 lanes wide: 64-bit ones take
 * 256 bytes of a warp's register file and all others 128; predicates are 32-bit masks. */
#ifndef PTX_PROGRAM_H
#define PTX_PROGRAM_H

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

enum : uint32_t { PTX_LANES = 32, PTX_ALL_LANES = 0xFFFFFFFFu };

/* What a kernel does wrong, or what the interpreter does not know; the one who catches it adds
 * where. */
struct ptx_failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
[[noreturn]] void ptx_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum ptx_base : uint8_t { PTX_BASE_REGISTERS, PTX_BASE_CONSTANTS, PTX_BASES };

struct ptx_operand {
    uint32_t at;     /* first byte in its base; predicates have none */
    uint32_t number; /* of the register, for what is kept per register */
    uint8_t bits;    /* 1, 16, 32 or 64 */
    ptx_base base;
};

/* Registers 0 to PTX_SPECIALS - 1 of every kernel; set before a block starts. */
enum ptx_special : uint32_t {
    PTX_TID_X,
    PTX_NTID_X,
    PTX_CTAID_X,
    PTX_NCTAID_X,
    PTX_LANEID,
    PTX_ONE, /* y and z of the sizes; all constants count as this register too: always set */
    PTX_ZERO,
    /* of 64 bits, two places each; they go on when they are read */
    PTX_CLOCK64,
    PTX_GLOBALTIMER = PTX_CLOCK64 + 2,
    PTX_SPECIALS = PTX_GLOBALTIMER + 2
};

struct ptx_warp;
struct ptx_instruction;
typedef void (*ptx_execute)(ptx_warp &warp, const ptx_instruction &instruction);

/* What an instruction is to those who count. */
enum ptx_class : uint8_t {
    PTX_INTEGER,
    PTX_FLOAT,
    PTX_CONVERT,
    PTX_MOVE,
    PTX_CONTROL,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_PARAM,
    PTX_COPY,
    PTX_LDMATRIX,
    PTX_MMA,
    PTX_WARP,
    PTX_CLASSES
};

enum ptx_guard : uint8_t { PTX_ALWAYS, PTX_IF, PTX_IF_NOT };

struct ptx_instruction {
    ptx_execute execute;
    const ptx_operand *targets; /* registers that get a value */
    const ptx_operand *sources; /* registers that must have one, an address' base among them */
    uint8_t target_count, source_count;
    ptx_guard guard;
    ptx_class kind;
    uint32_t guard_number;
    uint32_t number;    /* a label's instruction, a copy's bytes, groups that may be on their way */
    int64_t offsets[2]; /* added to the bases of one address or two */
    uint32_t line;      /* in the module's text */
    uint32_t place;     /* in kernel.places */
    uint32_t text_at, text_bytes;
};

/* A line of the kernels' sources, and the one that inlined it (line 0: none). */
struct ptx_place {
    uint32_t file, line, by_file, by_line;
};

struct ptx_module;

struct ptx_kernel {
    const ptx_module *module;
    uint32_t parameter_bytes;
    uint32_t static_shared_bytes;
    std::vector<ptx_instruction> code;
    std::vector<ptx_place> places;
    std::unique_ptr<ptx_operand[]> operands;
    uint32_t register_count;
    uint32_t register_bytes;
    std::vector<uint8_t> constants; /* already spread over the lanes */
};

/* The part of shared memory whose size the launch gives lies behind all variables. */
inline uint32_t ptx_dynamic_shared_at(const ptx_kernel &kernel) {
    return (kernel.static_shared_bytes + 127) / 128 * 128;
}

/* A kernel's part of the text; decoded when it is first asked for. */
struct ptx_entry_text {
    std::string name; /* mangled */
    uint32_t parameters_at, body_at, line;
};

struct ptx_module {
    std::string path;
    std::string text;
    std::map<uint32_t, std::string> files;
    std::vector<std::string> dynamic_shared;
    std::vector<ptx_entry_text> entries;
};

/* Shared addresses start here, so that none is 0; aligned as much as a kernel may rely on. */
enum : uint32_t { PTX_SHARED_BASE = 9 * 128 };

#endif
