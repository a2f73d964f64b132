/* The pace of the cores: integer operations in registers, as many side by side as a core does. Who
 * shares a core's second thread takes that from it, and from a decode step as much; memory is no
 * part of it, and plain reading hardly feels it. */
#include "cpu_device.h"

enum { PACE_PIECE = 65536 }; /* rounds: long beside starting a piece, short beside being held up */

/* Six chains of one or two operations a round. The empty statement has the compiler keep every one
 * of them and bring none together. */
uint64_t cpu_pace_rounds(uint64_t rounds) {
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    for (uint64_t k = 0; k < rounds; k++) {
        a = (a << 1) ^ k;
        b = (b + a) | 1;
        c ^= k;
        d += c;
        e = (e >> 1) + k;
        f ^= e;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
    return a ^ b ^ c ^ d ^ e ^ f;
}

enum status cpu_pace(struct backend_device *device, uint64_t rounds, struct status_text *text) {
    (void)text;
    const uint64_t pieces = (rounds + PACE_PIECE - 1) / PACE_PIECE;
    uint64_t all = 0;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads) reduction(+ : all)
    for (uint64_t piece = 0; piece < pieces; piece++)
        all += cpu_pace_rounds(piece + 1 < pieces ? PACE_PIECE : rounds - piece * PACE_PIECE);
    device->pace_result = all;
    return STATUS_OK;
}
