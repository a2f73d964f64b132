/* The interpreter itself: what small texts compute, and what it says of those that are wrong. */
#include "ptx_memory.h"
#include "ptx_parse.h"
#include "ptx_run.h"

#include <cstdio>
#include <cstring>

namespace {

enum : uint32_t { THREADS = 64, IN_WORDS = 64, OUT_WORDS = 64, SHARED_BYTES = 512 };

unsigned failures;

/* A body's surroundings: %r0 is the thread, %r9 its word of shared memory; %rd0 `out`, %rd1 `in`,
 * whose words are 0x3F800000 + i; %rd2 and %rd3 the thread's words in both. */
const char *const before = ".version 9.0\n.target sm_80\n.address_size 64\n"
                           ".extern .shared .align 128 .b8 memory[];\n"
                           ".visible .entry _Z4testv(\n"
                           "  .param .u64 out,\n  .param .u64 in\n)\n.maxntid 64, 1, 1\n{\n"
                           "  .reg .pred %p<8>;\n  .reg .b16 %rs<8>;\n  .reg .b32 %r<32>;\n"
                           "  .reg .f32 %f<16>;\n  .reg .b64 %rd<8>;\n"
                           "  mov.u32 %r0, %tid.x;\n  shl.b32 %r8, %r0, 2;\n"
                           "  mov.u32 %r9, memory;\n  add.s32 %r9, %r9, %r8;\n"
                           "  ld.param.u64 %rd0, [out];\n  ld.param.u64 %rd1, [in];\n"
                           "  cvt.u64.u32 %rd3, %r8;\n  add.s64 %rd2, %rd0, %rd3;\n"
                           "  add.s64 %rd3, %rd1, %rd3;\n";

/* One block of 64 threads; out starts as 0xFFFFFFFF. The message, or "". */
std::string run(const std::string &body, uint32_t (&out)[OUT_WORDS]) {
    struct {
        void *out, *in;
    } arguments = {ptx_memory_allocate(OUT_WORDS * 4, "out"),
                   ptx_memory_allocate(IN_WORDS * 4, "in")};
    for (uint32_t i = 0; i < IN_WORDS; i++)
        static_cast<uint32_t *>(arguments.in)[i] = 0x3F800000u + i;
    std::string said;
    try {
        const auto module = ptx_parse_module(before + body + "  ret;\n}\n", "test.ptx");
        const auto kernel = ptx_parse_kernel(*module, module->entries.at(0));
        ptx_run(*kernel, {1, THREADS, SHARED_BYTES, false}, &arguments, nullptr);
    } catch (const ptx_failure &failure) {
        said = failure.what();
    }
    memcpy(out, arguments.out, sizeof out);
    ptx_memory_free(arguments.out);
    ptx_memory_free(arguments.in);
    return said;
}

/* ---- what is wrong, and what must be said of it ---- */

const struct wrong_case {
    const char *name, *body, *said;
} wrong_cases[] = {
    {"unknown opcode", "frobnicate.b32 %r1, %r0;", "unknown opcode 'frobnicate.b32'"},
    {"unknown suffix", "add.sat.s32 %r1, %r0, 1;", "unknown opcode 'add.sat.s32'"},
    {"unknown name", "add.s32 %r1, %r0, %q;", "unknown name '%q'"},
    {"register of another width", "add.s32 %r1, %r0, %rd0;", "has 64 bits, not 32"},
    {"name out of its scope", "{ .reg .b32 t; mov.u32 t, 1; } mov.u32 %r1, t;", "unknown name 't'"},
    {"no such label", "bra nowhere;", "no label 'nowhere'"},
    {"unset register", "add.s32 %r1, %r2, 1;", "no value yet"},
    {"unset predicate", "@%p1 add.s32 %r1, %r0, 1;", "no value yet"},
    {"register set in other lanes",
     "setp.lt.u32 %p1, %r0, 16; @%p1 mov.u32 %r1, 1; add.s32 %r2, %r1, 1;", "thread 16, test.ptx"},
    {"read misaligned", "ld.global.u32 %r1, [%rd1+2];", "misaligned"},
    {"vector misaligned", "ld.global.v2.u32 {%r1, %r2}, [%rd1+4];", "misaligned"},
    {"read behind the end", "ld.global.u32 %r1, [%rd3+4];",
     "thread 63, test.ptx:25: `ld.global.u32 %r1, [%rd3+4];`: read of 4 bytes at byte 256 of in"},
    {"write before the start", "st.global.u32 [%rd2+-4], %r0;", "byte -4 of out"},
    {"write to nothing", "mov.u64 %rd4, 64; st.global.u32 [%rd4], %r0;", "out of bounds of all"},
    {"parameter out of bounds", "ld.param.u32 %r1, [in+8];", "bytes of parameters: out of bounds"},
    {"shared out of bounds", "st.shared.u32 [%r9+448], %r0;", "out of bounds"},
    {"shared below its start", "mov.u32 %r1, 0; st.shared.u32 [%r1], %r0;", "out of bounds"},
    {"shared misaligned", "st.shared.v2.u32 [%r9], {%r0, %r0};", "misaligned"},
    {"shared read before written", "ld.shared.u32 %r1, [%r9];", "which nobody wrote"},
    {"shuffle under divergence",
     "setp.lt.u32 %p1, %r0, 7; @%p1 shfl.sync.idx.b32 %r1|%p2, %r0, 0, 31, -1;",
     "lanes 0x0000007f are here"},
    {"shuffle of half a warp", "shfl.sync.bfly.b32 %r1|%p2, %r0, 1, 31, 65535;",
     "names lanes 0x0000ffff"},
    {"vote by those who are left",
     "setp.lt.u32 %p1, %r0, 7; @%p1 bra L; ret; L: vote.sync.any.pred %p2, %p1, -1;",
     "under divergence"},
    {"barrier under divergence", "setp.lt.u32 %p1, %r0, 7; @%p1 bar.sync 0;", "under divergence"},
    {"barrier of one warp", "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 0;", "divergent barrier"},
    {"two barriers", "setp.lt.u32 %p1, %r0, 32; @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:",
     "divergent barrier"},
    {"copy not waited for",
     "cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.commit_group; ld.shared.u32 %r1, [%r9];",
     "a copy (cp.async) on its way"},
    {"copy not committed",
     "cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.wait_group 0; ld.shared.u32 %r1, [%r9];",
     "a copy (cp.async) on its way"},
    {"wait that leaves the copy's group out",
     "cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.commit_group;"
     "cp.async.commit_group; cp.async.wait_group 2; ld.shared.u32 %r1, [%r9];",
     "a copy (cp.async) on its way"},
    {"write over a copy", "cp.async.ca.shared.global [%r9], [%rd3], 4; st.shared.u32 [%r9], %r0;",
     "a copy (cp.async) on its way"},
    {"copy for ever", "cp.async.ca.shared.global [%r9], [%rd3], 4;", "ends with copies"},
    {"copy misaligned", "cp.async.ca.shared.global [%r9], [%rd3], 8;", "misaligned"},
    {"copy past the first level of 4 bytes", "cp.async.cg.shared.global [%r9], [%rd3], 4;",
     "a copy (cg) of 4 bytes"},
    {"copy from behind the end", "cp.async.ca.shared.global [%r9], [%rd3+256], 4;",
     "copy of 4 bytes at byte 256 of in"},
    {"a copy landed, others read it without a barrier",
     "cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.commit_group; cp.async.wait_group 0;"
     "xor.b32 %r1, %r9, 4; ld.shared.u32 %r2, [%r1];",
     "race: reads"},
    {"read of another lane's word without a barrier",
     "st.shared.u32 [%r9], %r0; xor.b32 %r1, %r9, 4; ld.shared.u32 %r2, [%r1];", "race: reads"},
    {"read of another warp's word with the warp's barrier",
     "st.shared.u32 [%r9], %r0; bar.warp.sync -1; setp.lt.u32 %p1, %r0, 32;"
     "@!%p1 ld.shared.u32 %r2, [%r9+-128];",
     "race: reads"},
    {"sum in words that nobody wrote", "atom.shared.add.u32 %r1, [%r9], 1;", "which nobody wrote"},
    {"sum over another lane's word without a barrier",
     "st.shared.u32 [%r9], %r0; xor.b32 %r1, %r9, 4; red.shared.add.u32 [%r1], 1;", "race: writes"},
    {"read of a sum that others may still add to",
     "mov.u32 %r1, memory; st.shared.u32 [%r9], 0; bar.sync 0; red.shared.add.u32 [%r1], 1;"
     "ld.shared.u32 %r2, [%r1];",
     "race: reads"},
    {"sum in a word that others read",
     "mov.u32 %r1, memory; st.shared.u32 [%r9], 0; bar.sync 0; ld.shared.u32 %r2, [%r1];"
     "red.shared.add.u32 [%r1], 1;",
     "race: writes"},
    {"write of another lane's word",
     "st.shared.u32 [%r9], %r0; xor.b32 %r1, %r9, 4;"
     "st.shared.u32 [%r1], %r0;",
     "race: writes"},
    {"write over what another lane read",
     "st.shared.u32 [%r9], %r0; bar.sync 0; xor.b32 %r1, %r9, 4; ld.shared.u32 %r2, [%r1];"
     "st.shared.u32 [%r9], %r0;",
     "with no barrier since"},
    {"a shuffle is no barrier",
     "st.shared.u32 [%r9], %r0; shfl.sync.idx.b32 %r3|%p2, %r0, 0, 31, -1; xor.b32 %r1, %r9, 4;"
     "ld.shared.u32 %r2, [%r1];",
     "race: reads"},
    {"sum of bf16 pairs", "fma.rn.bf16x2 %r1, %r0, %r0, %r0;", "only -0 is known"},
};

void test_wrong() {
    uint32_t out[OUT_WORDS];
    for (const wrong_case &which : wrong_cases) {
        const std::string said = run(std::string(which.body) + "\n", out);
        if (said.find(which.said) == std::string::npos) {
            printf("%s: \"%s\", where \"%s\" was expected\n", which.name, said.c_str(), which.said);
            failures++;
        }
    }
}

/* ---- what is right ---- */

uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* %r1 of every thread, as a function of it; of all threads the same where `each` is null. */
struct right_case {
    const char *body;
    uint32_t expected;
    uint32_t (*each)(uint32_t thread);
};

void check_right(const right_case &which) {
    uint32_t out[OUT_WORDS];
    const std::string said = run(std::string(which.body) + "\n  st.global.u32 [%rd2], %r1;\n", out);
    if (!said.empty()) {
        printf("`%s`: %s\n", which.body, said.c_str());
        failures++;
        return;
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint32_t expected = which.each != nullptr ? which.each(i) : which.expected;
        if (out[i] != expected) {
            printf("`%s`: thread %u has 0x%x, not 0x%x\n", which.body, i, out[i], expected);
            failures++;
            return;
        }
    }
}

const right_case integer_cases[] = {
    {"mov.u32 %r2, -1; add.s32 %r1, %r2, 3;", 2, nullptr},
    {"mov.u32 %r2, 3; sub.s32 %r1, %r2, 5;", 0xFFFFFFFEu, nullptr},
    {"mov.u32 %r2, 0x10001; mul.lo.s32 %r1, %r2, 0x10001;", 0x20001, nullptr},
    {"mov.u32 %r2, 0x80000000; mul.hi.u32 %r1, %r2, 6;", 3, nullptr},
    {"mov.u32 %r2, -2; mul.wide.u32 %rd4, %r2, 3; shr.u64 %rd4, %rd4, 32; cvt.u32.u64 %r1, %rd4;",
     2, nullptr},
    {"mov.u16 %rs1, 40000; mul.hi.u16 %rs2, %rs1, -13107; cvt.u32.u16 %r1, %rs2;", 32000, nullptr},
    {"mov.u16 %rs1, 65535; mul.wide.u16 %r1, %rs1, 2;", 0x1FFFE, nullptr},
    {"mov.u32 %r2, 7; mad.lo.s32 %r1, %r2, %r2, -50;", 0xFFFFFFFFu, nullptr},
    {"mov.u32 %r2, 100; div.u32 %r1, %r2, 7;", 14, nullptr},
    {"mov.u32 %r2, 100; rem.u32 %r1, %r2, 7;", 2, nullptr},
    {"mov.u32 %r2, -7; min.s32 %r1, %r2, 3;", (uint32_t)-7, nullptr},
    {"mov.u32 %r2, -7; max.u32 %r1, %r2, 3;", (uint32_t)-7, nullptr},
    {"mov.u32 %r2, 5; neg.s32 %r1, %r2;", (uint32_t)-5, nullptr},
    {"mov.u32 %r2, 1; shl.b32 %r1, %r2, 31;", 0x80000000u, nullptr},
    {"mov.u32 %r2, 1; shl.b32 %r1, %r2, 32;", 0, nullptr},
    {"mov.u32 %r2, 0x80000000; shr.s32 %r1, %r2, 40;", 0xFFFFFFFFu, nullptr},
    {"mov.u32 %r2, 0x80000000; shr.u32 %r1, %r2, 32;", 0, nullptr},
    {"mov.u16 %rs1, 0x8000; shr.s16 %rs2, %rs1, 15; cvt.u32.u16 %r1, %rs2;", 0xFFFF, nullptr},
    {"mov.u32 %r2, 0x12345678; bfe.u32 %r1, %r2, 8, 12;", 0x456, nullptr},
    {"mov.u32 %r2, 0x12345F78; bfe.s32 %r1, %r2, 8, 4;", 0xFFFFFFFFu, nullptr},
    {"mov.u32 %r2, 0xAB; mov.u32 %r3, -1; bfi.b32 %r1, %r2, %r3, 4, 8;", 0xFFFFFABFu, nullptr},
    {"mov.u32 %r2, 0x33221100; mov.u32 %r3, 0x77665544; prmt.b32 %r1, %r2, %r3, 0x7250;",
     0x77225500, nullptr},
    {"mov.u32 %r2, 0xF0; mov.u32 %r3, 0xCC; mov.u32 %r4, 0xAA; lop3.b32 %r1, %r2, %r3, %r4, 0xCA;",
     0xCA, nullptr},
    {"mov.u32 %r2, 1; mov.u32 %r3, 2; shf.l.wrap.b32 %r1, %r2, %r3, 33;", 4, nullptr},
    {"mov.u32 %r2, 0xF0; popc.b32 %r1, %r2;", 4, nullptr},
    {"mov.u32 %r2, 0xF0; clz.b32 %r1, %r2;", 24, nullptr},
    {"mov.u32 %r2, 0x180; cvt.u16.u32 %rs1, %r2; cvt.s16.s8 %rs2, %rs1; cvt.s32.s16 %r1, %rs2;",
     0xFFFFFF80u, nullptr},
    {"mov.u32 %r2, -1; cvt.s64.s32 %rd4, %r2; shr.u64 %rd4, %rd4, 60; cvt.u32.u64 %r1, %rd4;", 15,
     nullptr},
    {"mov.u32 %r2, 0x12345678; mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r1, {%rs2, %rs1};", 0x56781234,
     nullptr},
    {"mov.u32 %r2, 0x12345678; { .reg .b8 byte<4>; mov.b32 {byte0, byte1, byte2, byte3}, %r2;"
     "cvt.u32.u8 %r1, byte2; }",
     0x34, nullptr},
};

const right_case float_cases[] = {
    {"mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, 0f40000000; mov.b32 %r1, %f2;", 0x40400000,
     nullptr},
    {"mov.f32 %f1, 0f3F800001; mul.f32 %f2, %f1, %f1; mov.b32 %r1, %f2;", 0x3F800002, nullptr},
    {"mov.f32 %f1, 0f3F800001; fma.rn.f32 %f2, %f1, %f1, 0fBF800002; mov.b32 %r1, %f2;", 0x28800000,
     nullptr},
    {"mov.f32 %f1, 0f3F800000; div.rn.f32 %f2, %f1, 0f40400000; mov.b32 %r1, %f2;", 0x3EAAAAAB,
     nullptr},
    {"mov.f32 %f1, 0f7FC00000; max.f32 %f2, %f1, 0f3F800000; mov.b32 %r1, %f2;", 0x3F800000,
     nullptr},
    {"mov.f32 %f1, 0f80000000; max.f32 %f2, %f1, 0f00000000; mov.b32 %r1, %f2;", 0, nullptr},
    {"mov.f32 %f1, 0fC0400000; ex2.approx.ftz.f32 %f2, %f1; mov.b32 %r1, %f2;", 0x3E000000,
     nullptr},
    {"mov.f32 %f1, 0fBFC00000; cvt.rzi.s32.f32 %r1, %f1;", 0xFFFFFFFFu, nullptr},
    {"mov.f32 %f1, 0f4F800000; cvt.rzi.s32.f32 %r1, %f1;", 0x7FFFFFFF, nullptr},
    {"mov.u32 %r2, -3; cvt.rn.f32.s32 %f1, %r2; mov.b32 %r1, %f1;", 0xC0400000u, nullptr},
    {"mov.f32 %f1, 0f7FC00000; setp.lt.f32 %p1, %f1, %f1; setp.geu.f32 %p2, %f1, %f1;"
     "selp.u32 %r2, 4, 0, %p1; selp.u32 %r1, 3, %r2, %p2;",
     3, nullptr},
    {"mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; cvt.rn.f16x2.f32 %r1, %f2, %f1;",
     0x40003C00, nullptr},
    {"mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; cvt.rn.bf16x2.f32 %r1, %f2, %f1;",
     0x40003F80, nullptr},
    {"mov.u32 %r2, 0x40003C00; mul.rn.f16x2 %r1, %r2, %r2;", 0x44003C00, nullptr},
    {"mov.u16 %rs1, 0x3C00; cvt.f32.f16 %f1, %rs1; mov.b32 %r1, %f1;", 0x3F800000, nullptr},
    {"mov.u16 %rs1, 0x4038; cvt.rn.f16x2.e4m3x2 %r1, %rs1;", 0x40003C00, nullptr},
    {"{ .reg .b8 b<2>; mov.u16 %rs1, 0x0042; mov.b16 %rs2, %rs1; mov.u32 %r2, 0x42;"
     ".reg .b8 c<4>; mov.b32 {c0, c1, c2, c3}, %r2; cvt.rn.f16x2.e2m1x2 %r1, c0; }",
     0x40003C00, nullptr},
};

uint32_t sum_below(uint32_t thread) {
    return thread % 7 * (thread % 7 + 1) / 2;
}
uint32_t opposite(uint32_t thread) {
    return thread ^ 5;
}
uint32_t other_warp(uint32_t thread) {
    return thread ^ 32;
}
uint32_t warp_of(uint32_t thread) {
    return thread / 32;
}
uint32_t word_of(uint32_t thread) {
    return 0x3F800000u + thread;
}
uint32_t odd_or_even(uint32_t thread) {
    return thread % 2 == 1 ? 10 : 20;
}

const right_case control_cases[] = {
    /* lanes leave a loop one after the other and meet again */
    {"rem.u32 %r2, %r0, 7; mov.u32 %r1, 0; mov.u32 %r3, 0; L: add.s32 %r1, %r1, %r3;"
     "add.s32 %r3, %r3, 1; setp.le.u32 %p1, %r3, %r2; @%p1 bra L; bar.warp.sync -1;",
     0, sum_below},
    {"and.b32 %r2, %r0, 1; setp.eq.s32 %p1, %r2, 1; @%p1 bra L; mov.u32 %r1, 20; bra.uni M;"
     "L: mov.u32 %r1, 10; M: bar.warp.sync -1;",
     0, odd_or_even},
    {"and.b32 %r2, %r0, 1; setp.eq.s32 %p1, %r2, 1; mov.u32 %r1, 20; @!%p1 bra L; mov.u32 %r1, 10;"
     "L: shfl.sync.idx.b32 %r4|%p2, %r0, 3, 31, -1;",
     0, odd_or_even},
    {"shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;", 0, opposite},
    {"setp.eq.s32 %p1, %r0, 40; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;", 0,
     warp_of},
    {"st.shared.u32 [%r9], %r0; bar.sync 0; xor.b32 %r2, %r8, 128; mov.u32 %r3, memory;"
     "add.s32 %r3, %r3, %r2; ld.shared.u32 %r1, [%r3]; bar.sync 0; st.shared.u32 [%r9], %r1;",
     0, other_warp},
    {"cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.commit_group; cp.async.commit_group;"
     "cp.async.wait_group 1; ld.shared.u32 %r1, [%r9];",
     0, word_of},
    {"{ .reg .pred p; setp.eq.s32 p, %r0, %r0; cp.async.ca.shared.global [%r9], [%rd3+4096], 4, p;}"
     "cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r1, [%r9];",
     0, nullptr},
    {"mov.u64 %rd4, 1; setp.eq.s32 %p1, %r0, 0; @%p1 st.global.u64 [%rd0], 0; bar.sync 0;"
     "atom.global.add.u64 %rd5, [%rd0], %rd4; bar.sync 0; ld.global.u32 %r1, [%rd0]; bar.sync 0;",
     64, nullptr},
    {"mov.u32 %r2, memory; st.shared.u32 [%r9], 0; bar.sync 0; red.shared.add.u32 [%r2], 2;"
     "bar.sync 0; ld.shared.u32 %r1, [%r2];",
     128, nullptr},
    /* ones times ones on tensor cores: 16, and ldmatrix gets rows of equal numbers */
    {"mov.u32 %r2, 0x3C003C00; mov.f32 %f1, 0f00000000; mma.sync.aligned.m16n8k16.row.col.f32.f16."
     "f16.f32 {%f2, %f3, %f4, %f5}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, {%f1, %f1, %f1, %f1};"
     "mov.b32 %r1, %f5;",
     bits_of(16.0f), nullptr},
    {"mov.u32 %r2, 0x00070007; and.b32 %r3, %r8, 0x7c; shl.b32 %r3, %r3, 2; mov.u32 %r4, memory;"
     "add.s32 %r3, %r3, %r4; setp.lt.u32 %p1, %r0, 32; @!%p1 bra L;"
     "st.shared.v4.u32 [%r3], {%r2, %r2, %r2, %r2}; L: bar.sync 0;"
     "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r5, %r6, %r7}, [%r3];",
     0x00070007, nullptr},
    {"mov.u32 %r2, 0x00010001; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", 0x00010001,
     nullptr},
};

template <size_t count> void test_right(const right_case (&cases)[count]) {
    for (const right_case &which : cases)
        check_right(which);
}

} // namespace

int main() {
    test_wrong();
    test_right(integer_cases);
    test_right(float_cases);
    test_right(control_cases);
    printf("%u failures\n", failures);
    return failures == 0 ? 0 : 1;
}
