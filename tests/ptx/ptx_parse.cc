/* Modules, and the statements of a kernel. */
#include "ptx_parse.h"

#include "ptx_names.h"
#include "ptx_opcode.h"

#include <cstdarg>
#include <cstring>

void ptx_fail(const char *format, ...) {
    char line[400];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    throw ptx_failure(line);
}

namespace {

const char *file_name(const std::string &path) {
    const size_t slash = path.rfind('/');
    return path.c_str() + (slash == std::string::npos ? 0 : slash + 1);
}

struct kernel_parser {
    kernel_parser(const ptx_module &in_module, ptx_kernel &out)
        : module(in_module), kernel(out), names(out) {}

    void parse(const ptx_entry_text &entry);

  private:
    void statement(const std::string &word);
    void directive(const std::string &word);
    void place();
    void instruction(std::string word, uint32_t start);
    void operands(ptx_instruction &in, const ptx_opcode &opcode, uint8_t type_bits);
    void operand(ptx_instruction &in, char letter, bool is_target, uint8_t type_bits);
    void operand_or_vector(bool is_target, uint8_t type_bits);
    void address(ptx_instruction &in);
    ptx_operand value(uint8_t bits);
    void finish();

    const ptx_module &module;
    ptx_kernel &kernel;
    ptx_names names;
    ptx_reader reader;
    std::vector<ptx_operand> targets, sources; /* of the present instruction */
    uint32_t addresses;                        /* likewise */
    std::vector<ptx_operand> pool;             /* of all instructions, targets first */
    std::map<std::string, uint32_t> labels;
    std::vector<std::string> branches; /* the label that instruction `number` goes to */
};

/* A register, a number, or the address of something. bits 0: as wide as it is. */
ptx_operand kernel_parser::value(uint8_t bits) {
    const char first = reader.look();
    if (first == '-' || (first >= '0' && first <= '9'))
        return names.constant((uint64_t)reader.number(), bits != 0 ? bits : (uint8_t)64);
    const std::string name = reader.word();
    ptx_operand out;
    uint64_t at;
    if (names.find_register(name, out)) {
        if (bits != 0 && out.bits != bits)
            ptx_fail("register %s has %u bits, not %u", name.c_str(), out.bits, bits);
        return out;
    }
    if (!names.find_address(name, at))
        ptx_fail("unknown name '%s'", name.c_str());
    return names.constant(at, bits != 0 ? bits : (uint8_t)64);
}

void kernel_parser::address(ptx_instruction &in) {
    reader.expect('[');
    sources.push_back(value(0));
    int64_t offset = 0;
    if (reader.take('+'))
        offset = reader.number();
    else if (reader.look() == '-')
        offset = reader.number();
    reader.expect(']');
    if (addresses == 2)
        ptx_fail("more than two addresses");
    in.offsets[addresses++] = offset;
}

/* mov's: one register or number, or several that are as wide together. */
void kernel_parser::operand_or_vector(bool is_target, uint8_t type_bits) {
    std::vector<ptx_operand> &list = is_target ? targets : sources;
    if (!reader.take('{')) {
        list.push_back(value(type_bits));
        return;
    }
    do
        list.push_back(value(0));
    while (reader.take(','));
    reader.expect('}');
    uint32_t bits = 0;
    for (const ptx_operand &one : list)
        bits += one.bits;
    if (bits != type_bits)
        ptx_fail("a vector of %u bits, not %u", bits, type_bits);
}

void kernel_parser::operand(ptx_instruction &in, char letter, bool is_target, uint8_t type_bits) {
    std::vector<ptx_operand> &list = is_target ? targets : sources;
    switch (letter) {
    case 'h':
        return list.push_back(value(16));
    case 'w':
        return list.push_back(value(32));
    case 'l':
        return list.push_back(value(64));
    case 'p':
        return list.push_back(value(1));
    case 'x':
        list.push_back(value(0));
        if (list.back().bits == 1)
            ptx_fail("a predicate among numbers");
        return;
    case 'V':
        return operand_or_vector(is_target, type_bits);
    case 'A':
        return address(in);
    case 'N':
        in.number = (uint32_t)reader.number();
        return;
    case 'T':
        in.number = (uint32_t)branches.size();
        branches.push_back(reader.word());
        return;
    default:
        ptx_fail("shape with '%c'", letter);
    }
}

/* See ptx_opcode.h for the letters. */
void kernel_parser::operands(ptx_instruction &in, const ptx_opcode &opcode, uint8_t type_bits) {
    bool is_target = false, in_vector = false, comma = false;
    for (const char *at = opcode.shape.c_str(); *at != '\0'; at++) {
        if (*at == '=') {
            is_target = true;
        } else if (*at == '?') {
            if (reader.look() == ';')
                return;
        } else if (*at == '|') {
            at++;
            if (reader.take('|'))
                operand(in, *at, true, type_bits);
        } else if (*at == '}') {
            reader.expect('}');
            in_vector = is_target = false;
        } else {
            if (comma)
                reader.expect(',');
            comma = *at != '{';
            if (*at == '{') {
                reader.expect('{');
                in_vector = true;
                continue;
            }
            operand(in, *at, is_target, type_bits);
            is_target = is_target && in_vector;
        }
    }
}

void kernel_parser::instruction(std::string word, uint32_t start) {
    ptx_instruction in = {};
    in.line = reader.line;
    in.text_at = start;
    in.place = (uint32_t)kernel.places.size() - 1;
    if (word.empty()) {
        reader.expect('@');
        in.guard = reader.take('!') ? PTX_IF_NOT : PTX_IF;
        in.guard_number = value(1).number;
        word = reader.word();
    }
    const auto found = ptx_opcode_table().find(word);
    if (found == ptx_opcode_table().end())
        ptx_fail("unknown opcode '%s'", word.c_str());
    const ptx_opcode &opcode = found->second;
    targets.clear();
    sources.clear();
    addresses = 0;
    const bool is_64 = word.size() > 2 && word.compare(word.size() - 2, 2, "64") == 0;
    operands(in, opcode, is_64 ? 64 : 32);
    reader.expect(';');
    in.text_bytes = reader.at - start;
    in.execute = opcode.execute;
    in.kind = opcode.kind;
    in.target_count = (uint8_t)targets.size();
    in.source_count = (uint8_t)sources.size();
    pool.insert(pool.end(), targets.begin(), targets.end());
    pool.insert(pool.end(), sources.begin(), sources.end());
    kernel.code.push_back(in);
}

/* .loc 1 20 5, or .loc 1 20 5, function_name $L__info_string0, inlined_at 2 30 7 */
void kernel_parser::place() {
    const std::string line = reader.rest_of_line();
    ptx_place at = {};
    (void)sscanf(line.c_str(), " %u %u", &at.file, &at.line);
    const char *const inlined = strstr(line.c_str(), "inlined_at");
    if (inlined != nullptr)
        (void)sscanf(inlined, "inlined_at %u %u", &at.by_file, &at.by_line);
    kernel.places.push_back(at);
}

void kernel_parser::directive(const std::string &word) {
    if (word == ".loc")
        place();
    else if (word == ".reg")
        names.declare_registers(reader);
    else if (word == ".shared")
        names.declare_shared(reader);
    else if (word == ".pragma")
        reader.skip_past(';');
    else
        ptx_fail("unknown directive '%s'", word.c_str());
}

void kernel_parser::statement(const std::string &word) {
    const uint32_t start = reader.at - (uint32_t)word.size();
    if (word[0] == '.')
        directive(word);
    else if (!word.empty() && reader.take(':'))
        labels[word] = (uint32_t)kernel.code.size();
    else
        instruction(word, start);
}

/* Pointers and labels, once nothing moves any more; and an end for whoever runs off it. */
void kernel_parser::finish() {
    ptx_instruction end = {};
    end.execute = ptx_opcode_table().at("ret").execute;
    end.kind = PTX_CONTROL;
    end.line = reader.line;
    kernel.code.push_back(end);
    kernel.operands = std::make_unique<ptx_operand[]>(pool.size() + 1);
    std::copy(pool.begin(), pool.end(), kernel.operands.get());
    const ptx_operand *next = kernel.operands.get();
    const ptx_execute branch = ptx_opcode_table().at("bra").execute;
    for (ptx_instruction &in : kernel.code) {
        in.targets = next;
        in.sources = next + in.target_count;
        next = in.sources + in.source_count;
        if (in.execute != branch)
            continue;
        const auto to = labels.find(branches[in.number]);
        if (to == labels.end())
            ptx_fail("%s:%u: no label '%s'", file_name(module.path), in.line,
                     branches[in.number].c_str());
        in.number = to->second;
    }
}

void kernel_parser::parse(const ptx_entry_text &entry) {
    reader = {&module.text, entry.parameters_at, entry.line};
    names.declare_parameters(reader);
    reader = {&module.text, entry.body_at, entry.line};
    kernel.places.push_back({});
    names.open_scope();
    for (bool open = true; open;) {
        reader.skip_space();
        const uint32_t start = reader.at;
        try {
            if (reader.take('}'))
                open = names.close_scope();
            else if (reader.take('{'))
                names.open_scope();
            else if (reader.ended())
                ptx_fail("the kernel has no end");
            else
                statement(reader.word());
        } catch (const ptx_failure &failure) {
            size_t end = module.text.find_first_of(";\n", start);
            end = end == std::string::npos ? module.text.size() : end;
            ptx_fail("%s:%u: `%s`: %s", file_name(module.path), reader.line,
                     module.text.substr(start, end - start).c_str(), failure.what());
        }
    }
    finish();
}

void parse_entry(ptx_module &module, ptx_reader &reader) {
    ptx_entry_text entry;
    entry.name = reader.word();
    reader.expect('(');
    entry.parameters_at = reader.at;
    reader.skip_past(')');
    reader.skip_past('{');
    entry.body_at = reader.at;
    entry.line = reader.line;
    reader.skip_braces();
    module.entries.push_back(entry);
}

/* .extern .shared .align 128 .b8 name[]; */
void parse_extern(ptx_module &module, ptx_reader &reader) {
    if (reader.word() != ".shared")
        return;
    std::string name = reader.word();
    for (; name[0] == '.'; name = reader.word())
        if (name == ".align")
            (void)reader.number();
    module.dynamic_shared.push_back(name);
    reader.skip_past(';');
}

} // namespace

std::unique_ptr<ptx_module> ptx_parse_module(std::string text, const std::string &path) {
    auto module = std::make_unique<ptx_module>();
    module->path = path;
    module->text = std::move(text);
    ptx_reader reader = {&module->text, 0, 1};
    while (!reader.ended()) {
        const std::string word = reader.word();
        if (word == ".entry") {
            parse_entry(*module, reader);
        } else if (word == ".extern") {
            parse_extern(*module, reader);
        } else if (word == ".file") {
            const uint32_t number = (uint32_t)reader.number();
            module->files[number] = reader.quoted();
        } else if (word.empty() && reader.take('{')) {
            reader.skip_braces();
        } else if (word.empty()) {
            reader.at++;
        }
    }
    return module;
}

std::unique_ptr<ptx_kernel> ptx_parse_kernel(const ptx_module &module,
                                             const ptx_entry_text &entry) {
    auto kernel = std::make_unique<ptx_kernel>();
    kernel->module = &module;
    kernel_parser(module, *kernel).parse(entry);
    return kernel;
}

std::string ptx_instruction_text(const ptx_kernel &kernel, const ptx_instruction &instruction) {
    std::string out;
    for (const char c : kernel.module->text.substr(instruction.text_at, instruction.text_bytes))
        if (c != '\n' && c != '\t' && (c != ' ' || (!out.empty() && out.back() != ' ')))
            out += c;
        else if (!out.empty() && out.back() != ' ')
            out += ' ';
    return out;
}

std::string ptx_instruction_place(const ptx_kernel &kernel, const ptx_instruction &instruction) {
    const auto source = [&](uint32_t file, uint32_t line) {
        const auto found = kernel.module->files.find(file);
        return (found != kernel.module->files.end() ? file_name(found->second) : "?") +
               (":" + std::to_string(line));
    };
    std::string out = file_name(kernel.module->path) + (":" + std::to_string(instruction.line));
    const ptx_place &at = kernel.places[instruction.place];
    if (at.line != 0)
        out += " (" + source(at.file, at.line);
    if (at.by_line != 0)
        out += " in " + source(at.by_file, at.by_line);
    return out + (at.line != 0 ? ")" : "");
}
