/* A device that counts its own clock: where one can, the figure is one a device may have, and the
 * exact one where the clocks are tests/gpu_model's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "conformance_devices.h"

static void test_clock(void **state) {
    (void)state;
    for (size_t d = 0; d < conformance_devices_count; d++) {
        const struct backend_ops *ops = conformance_devices[d].ops;
        if (ops->clock_mhz == NULL) {
            (void)printf("skipped: backend %s counts no clock\n", ops->name);
            continue;
        }
        for (int again = 0; again < 2; again++) {
            double mhz = -1;
            struct status_text text = {""};
            if (ops->clock_mhz(conformance_devices[d].device, &mhz, &text) != STATUS_OK)
                fail_msg("%s: %s", ops->name, text.line);
#ifdef CONFORMANCE_CLOCK_MHZ
            if (fabs(mhz - CONFORMANCE_CLOCK_MHZ) > 0.1)
                fail_msg("%s: %.3f MHz", ops->name, mhz);
#else
            if (mhz != 0 && (mhz < 1 || mhz > 10000))
                fail_msg("%s: %.3f MHz", ops->name, mhz);
#endif
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clock)};
    return cmocka_run_group_tests(tests, conformance_devices_open, conformance_devices_close);
}
