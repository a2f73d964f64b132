/* Scopes and constants. */
#include "ptx_names.h"

#include <algorithm>
#include <cstring>

namespace {

const struct {
    const char *name;
    ptx_special number;
    uint8_t bits = 32;
} specials[] = {
    {"%tid.x", PTX_TID_X},
    {"%tid.y", PTX_ZERO},
    {"%tid.z", PTX_ZERO},
    {"%ntid.x", PTX_NTID_X},
    {"%ntid.y", PTX_ONE},
    {"%ntid.z", PTX_ONE},
    {"%ctaid.x", PTX_CTAID_X},
    {"%ctaid.y", PTX_ZERO},
    {"%ctaid.z", PTX_ZERO},
    {"%nctaid.x", PTX_NCTAID_X},
    {"%nctaid.y", PTX_ONE},
    {"%nctaid.z", PTX_ONE},
    {"%laneid", PTX_LANEID},
    {"%clock64", PTX_CLOCK64, 64},
    {"%globaltimer", PTX_GLOBALTIMER, 64},
};

/* .pred 1, .b16 16, .f32 32 */
uint8_t type_bits(const std::string &type) {
    if (type == ".pred")
        return 1;
    const int bits = type.size() > 2 ? atoi(type.c_str() + 2) : 0;
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        ptx_fail("type '%s'", type.c_str());
    return (uint8_t)bits;
}

} // namespace

ptx_names::ptx_names(ptx_kernel &target) : kernel(target) {
    kernel.register_count = PTX_SPECIALS;
    kernel.register_bytes = PTX_SPECIALS * ptx_register_bytes(32);
}

void ptx_names::open_scope() {
    scopes.emplace_back();
}

bool ptx_names::close_scope() {
    scopes.pop_back();
    return !scopes.empty();
}

void ptx_names::declare_registers(ptx_reader &reader) {
    const uint8_t bits = type_bits(reader.word());
    do {
        const std::string name = reader.word();
        range added = {{kernel.register_bytes, kernel.register_count, bits, PTX_BASE_REGISTERS}, 0};
        if (reader.take('<')) {
            added.count = (uint32_t)reader.number();
            reader.expect('>');
        }
        const uint32_t count = std::max(added.count, 1u);
        kernel.register_count += count;
        kernel.register_bytes += count * ptx_register_bytes(bits);
        scopes.back()[name] = added;
    } while (reader.take(','));
    reader.expect(';');
}

void ptx_names::declare_shared(ptx_reader &reader) {
    uint32_t alignment = 1;
    std::string type = reader.word();
    if (type == ".align") {
        alignment = (uint32_t)reader.number();
        type = reader.word();
    }
    uint32_t bytes = type_bits(type) / 8;
    const std::string name = reader.word();
    if (reader.take('[')) {
        bytes *= (uint32_t)reader.number();
        reader.expect(']');
    }
    reader.expect(';');
    uint32_t &end = kernel.static_shared_bytes;
    end = (end + alignment - 1) / alignment * alignment;
    addresses[name] = PTX_SHARED_BASE + end;
    end += bytes;
}

/* .param .align 8 .b8 name[208], or .param .u64 .ptr .align 1 name */
void ptx_names::declare_parameters(ptx_reader &reader) {
    uint32_t end = 0;
    while (!reader.take(')')) {
        uint32_t alignment = 0, bytes = 0;
        std::string name = reader.word();
        for (; name[0] == '.'; name = reader.word()) {
            if (name == ".align" && bytes == 0)
                alignment = (uint32_t)reader.number();
            else if (name == ".align")
                (void)reader.number(); /* of what a pointer points to */
            else if (name != ".param" && name != ".ptr" && name != ".global")
                bytes = type_bits(name) / 8;
        }
        alignment = std::max(alignment, bytes);
        if (reader.take('[')) {
            bytes *= (uint32_t)reader.number();
            reader.expect(']');
        }
        (void)reader.take(',');
        end = (end + alignment - 1) / alignment * alignment;
        addresses[name] = end;
        end += bytes;
    }
    kernel.parameter_bytes = end;
}

bool ptx_names::find_register(const std::string &name, ptx_operand &out) const {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    const std::string prefix = name.substr(0, digits);
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
        const auto whole = scope->find(name);
        if (whole != scope->end() && whole->second.count == 0) {
            out = whole->second.first;
            return true;
        }
        const auto found = digits < name.size() ? scope->find(prefix) : scope->end();
        const uint32_t index = digits < name.size() ? (uint32_t)atol(name.c_str() + digits) : 0;
        if (found != scope->end() && index < found->second.count) {
            out = found->second.first;
            out.number += index;
            out.at += index * ptx_register_bytes(out.bits);
            return true;
        }
    }
    for (const auto &special : specials)
        if (name == special.name) {
            out = {special.number * ptx_register_bytes(32), special.number, special.bits,
                   PTX_BASE_REGISTERS};
            return true;
        }
    return false;
}

ptx_operand ptx_names::constant(uint64_t value, uint8_t bits) {
    value &= bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    const auto found = constants.find({value, bits});
    if (found != constants.end())
        return found->second;
    const uint32_t at = (uint32_t)kernel.constants.size();
    const uint32_t lane_bytes = ptx_register_bytes(bits) / PTX_LANES;
    kernel.constants.resize(at + ptx_register_bytes(bits));
    for (uint32_t i = 0; i < PTX_LANES; i++)
        memcpy(&kernel.constants[at + i * lane_bytes], &value, lane_bytes); /* little-endian */
    return constants[{value, bits}] = {at, PTX_ONE, bits, PTX_BASE_CONSTANTS};
}

bool ptx_names::find_address(const std::string &name, uint64_t &out) const {
    const auto found = addresses.find(name);
    const auto &dynamic = kernel.module->dynamic_shared;
    if (found != addresses.end())
        out = found->second;
    else if (std::find(dynamic.begin(), dynamic.end(), name) != dynamic.end())
        out = PTX_SHARED_BASE + ptx_dynamic_shared_at(kernel);
    else
        return false;
    return true;
}
