/* Arithmetic of fp32, and of pairs of 16-bit numbers. */
#include "gpu_model.h"
#include "ptx_lanes.h"

#include <cmath>

namespace {

struct add {
    float operator()(float a, float b) const {
        return a + b;
    }
};
struct subtract {
    float operator()(float a, float b) const {
        return a - b;
    }
};
struct multiply {
    float operator()(float a, float b) const {
        return a * b;
    }
};
struct divide {
    float operator()(float a, float b) const {
        return a / b;
    }
};
struct fused {
    float operator()(float a, float b, float c) const {
        return std::fma(a, b, c);
    }
};
struct reciprocal {
    float operator()(float a) const {
        return 1.0f / a;
    }
};
struct square_root {
    float operator()(float a) const {
        return std::sqrt(a);
    }
};
struct negate {
    uint32_t operator()(uint32_t a) const {
        return a ^ 0x80000000u;
    }
};
struct absolute {
    uint32_t operator()(uint32_t a) const {
        return a & 0x7FFFFFFFu;
    }
};
/* The number where the other is NaN; -0 is below +0. */
struct smaller {
    float operator()(float a, float b) const {
        if (a == b)
            return std::signbit(a) ? a : b;
        return b != b || a < b ? a : b;
    }
};
struct larger {
    float operator()(float a, float b) const {
        if (a == b)
            return std::signbit(a) ? b : a;
        return b != b || a > b ? a : b;
    }
};
struct exp2_flushed {
    float operator()(float a) const {
        return gpu_model_exp2(a);
    }
};
struct multiply_f16x2 {
    uint32_t operator()(uint32_t a, uint32_t b) const {
        return gpu_model_mul_f16x2(a, b);
    }
};

/* The model has the product alone, which is what the kernels use this instruction for. */
void execute_fused_bf16x2(ptx_warp &warp, const ptx_instruction &in) {
    uint32_t *const d = ptx_lanes<uint32_t>(warp, in.targets[0]);
    const uint32_t *const a = ptx_lanes<uint32_t>(warp, in.sources[0]);
    const uint32_t *const b = ptx_lanes<uint32_t>(warp, in.sources[1]);
    const uint32_t *const c = ptx_lanes<uint32_t>(warp, in.sources[2]);
    const uint32_t minus_zeros = 0x80008000u;
    ptx_each_lane(warp, [&](uint32_t i) {
        if (c[i] != minus_zeros)
            ptx_fail("adds 0x%x to a product of bf16: only -0 is known here", c[i]);
        d[i] = gpu_model_mul_bf16x2(a[i], b[i]);
    });
}

} // namespace

void ptx_add_float(ptx_opcodes &table) {
    for (const char *rounding : {"", ".rn"}) {
        const std::string tail = std::string(rounding) + ".f32";
        ptx_add_binary<add, float, float, float>(table, "add" + tail, PTX_FLOAT);
        ptx_add_binary<subtract, float, float, float>(table, "sub" + tail, PTX_FLOAT);
        ptx_add_binary<multiply, float, float, float>(table, "mul" + tail, PTX_FLOAT);
    }
    ptx_add_binary<divide, float, float, float>(table, "div.rn.f32", PTX_FLOAT);
    ptx_add_ternary<fused, float, float, float, float>(table, "fma.rn.f32", PTX_FLOAT);
    ptx_add_unary<reciprocal, float, float>(table, "rcp.rn.f32", PTX_FLOAT);
    ptx_add_unary<square_root, float, float>(table, "sqrt.rn.f32", PTX_FLOAT);
    ptx_add_unary<negate, uint32_t, uint32_t>(table, "neg.f32", PTX_FLOAT);
    ptx_add_unary<absolute, uint32_t, uint32_t>(table, "abs.f32", PTX_FLOAT);
    ptx_add_binary<smaller, float, float, float>(table, "min.f32", PTX_FLOAT);
    ptx_add_binary<larger, float, float, float>(table, "max.f32", PTX_FLOAT);
    ptx_add_unary<exp2_flushed, float, float>(table, "ex2.approx.ftz.f32", PTX_FLOAT);
    ptx_add_binary<multiply_f16x2, uint32_t, uint32_t, uint32_t>(table, "mul.rn.f16x2", PTX_FLOAT);
    table["fma.rn.bf16x2"] = {execute_fused_bf16x2, "=wwww", PTX_FLOAT};
}
