/* What a row makes of several ranks' figures, as far as no rank is needed for it: power and energy
 * of devices that some of them share. The rest: tests/scripts/ranks_test.sh. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "result_ranks.h"

static struct result_rank_energy drew(uint32_t machine, const char *bus, double power_w,
                                      double step_j) {
    struct result_rank_energy out = {
        .machine = machine, .known = true, .power_w = power_w, .step_j = step_j};
    (void)strcpy(out.pci_bus_id, bus);
    return out;
}

static void test_energy_of_all_devices(void **state) {
    (void)state;
    struct measure_energy energy = {0};
    struct result_rank_energy each[3] = {drew(0, "", 100, 2), drew(0, "", 110, 6),
                                         drew(2, "", 50, 4)};
    /* two readings of one counter, which saw 1/2 and 1/6 of their steps in a joule: 1/3 in the
     * mean */
    result_ranks_sum_energy(each, 2, &energy);
    assert_true(energy.has_power && energy.has_energy);
    assert_true(fabs(energy.power_w - 105) < 1e-9);
    assert_true(fabs(energy.step_j - 3) < 1e-9);
    /* and another machine */
    result_ranks_sum_energy(each, 3, &energy);
    assert_true(fabs(energy.power_w - 155) < 1e-9);
    assert_true(fabs(energy.step_j - 7) < 1e-9);
    /* GPUs of one machine, and of two with the same number */
    each[0] = drew(0, "0000:01:00.0", 300, 1);
    each[1] = drew(0, "0000:02:00.0", 310, 2);
    each[2] = drew(2, "0000:01:00.0", 320, 3);
    result_ranks_sum_energy(each, 3, &energy);
    assert_true(fabs(energy.power_w - 930) < 1e-9);
    assert_true(fabs(energy.step_j - 6) < 1e-9);
    /* a part of it is no figure */
    for (int r = 0; r < 3; r++) {
        each[r].known = false;
        result_ranks_sum_energy(each, 3, &energy);
        assert_false(energy.has_power || energy.has_energy);
        each[r].known = true;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_energy_of_all_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
