/* Reading PTX, sign by sign. */
#include "ptx_reader.h"

#include "ptx_program.h"

#include <cstring>

namespace {

bool in_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("_$%.", c) != nullptr);
}

} // namespace

void ptx_reader::skip_space() {
    const std::string &from = *text;
    while (at < from.size()) {
        const char c = from[at];
        if (c == '\n') {
            line++;
            at++;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            at++;
        } else if (c == '/' && from[at + 1] == '/') {
            while (at < from.size() && from[at] != '\n')
                at++;
        } else if (c == '/' && from[at + 1] == '*') {
            while (at < from.size() && !(from[at] == '*' && from[at + 1] == '/'))
                line += from[at++] == '\n' ? 1 : 0;
            at += 2;
        } else {
            return;
        }
    }
}

bool ptx_reader::ended() {
    skip_space();
    return at >= text->size();
}

char ptx_reader::look() {
    return ended() ? '\0' : (*text)[at];
}

bool ptx_reader::take(char sign) {
    if (look() != sign)
        return false;
    at++;
    return true;
}

void ptx_reader::expect(char sign) {
    if (!take(sign))
        ptx_fail("'%c' expected before '%.12s'", sign, text->c_str() + at);
}

std::string ptx_reader::word() {
    skip_space();
    const std::string &from = *text;
    const uint32_t start = at;
    while (at < from.size()) {
        if (in_word(from[at]))
            at++;
        else if (from[at] == ':' && from[at + 1] == ':')
            at += 2;
        else
            break;
    }
    return from.substr(start, at - start);
}

std::string ptx_reader::quoted() {
    expect('"');
    const size_t end = text->find('"', at);
    if (end == std::string::npos)
        ptx_fail("a quote without its end");
    const std::string out = text->substr(at, end - at);
    at = (uint32_t)end + 1;
    return out;
}

int64_t ptx_reader::number() {
    const bool negative = take('-');
    const std::string digits = word();
    char *end = nullptr;
    const bool as_bits = digits.size() > 2 && digits[0] == '0' && strchr("fFdD", digits[1]);
    const uint64_t value =
        as_bits ? strtoull(digits.c_str() + 2, &end, 16) : strtoull(digits.c_str(), &end, 0);
    if (digits.empty() || (*end != '\0' && strcmp(end, "U") != 0))
        ptx_fail("a number expected, not '%s'", digits.c_str());
    return (int64_t)(negative ? 0 - value : value);
}

void ptx_reader::skip_past(char sign) {
    while (!ended() && (*text)[at] != sign)
        at++;
    expect(sign);
}

std::string ptx_reader::rest_of_line() {
    const size_t end = text->find('\n', at);
    const std::string out = text->substr(at, end == std::string::npos ? end : end - at);
    at += (uint32_t)out.size();
    return out;
}

void ptx_reader::skip_braces() {
    for (uint32_t depth = 1; depth > 0; at++) {
        if (ended())
            ptx_fail("a brace without its end");
        depth += (*text)[at] == '{' ? 1 : 0;
        depth -= (*text)[at] == '}' ? 1 : 0;
    }
}
