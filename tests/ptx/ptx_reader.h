/* Words and signs of a PTX text, with the line they stand on. */
#ifndef PTX_READER_H
#define PTX_READER_H

#include <cstdint>
#include <string>

struct ptx_reader {
    const std::string *text;
    uint32_t at, line;

    void skip_space(); /* and comments */
    bool ended();
    char look();                /* the next sign, behind any space; 0 at the end */
    bool take(char sign);       /* only if it is the next one */
    void expect(char sign);     /* throws ptx_failure if it is not */
    std::string word();         /* letters, digits and _ $ % . and ::; "" where none stands */
    std::string quoted();       /* "..." */
    int64_t number();           /* -12, 0x1F, 7U, 0f3F800000 (its bits), 0d... */
    void skip_past(char sign);  /* braces are not looked at */
    std::string rest_of_line(); /* up to the end of the line, which it leaves */
    void skip_braces();         /* behind a '{': to behind its '}' */
};

#endif
