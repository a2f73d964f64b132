/* What the C side says of rows, for test_fit.py to compare with what the scripts say of them.
 *   fit_words < LINES      of: setting, format, 1 for the baseline, tokens, median, low, high
 * (tabs) fit_words rank COUNT   ranks of the median's interval for 0 to COUNT samples, a line each
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit_rows.h"
#include "measure_order.h"

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "rank") == 0) {
        const uint64_t last = strtoull(argv[2], NULL, 10);
        for (uint64_t count = 0; count <= last; count++)
            (void)printf("%llu\n", (unsigned long long)measure_order_rank(count));
        return 0;
    }
    struct fit_rows rows = {0};
    char line[512], setting[160], format[48];
    while (fgets(line, sizeof line, stdin) != NULL) {
        int baseline;
        struct fit_point point;
        if (sscanf(line, "%159[^\t]\t%47[^\t]\t%d\t%lf\t%lf\t%lf\t%lf", setting, format, &baseline,
                   &point.tokens, &point.ns, &point.low_ns, &point.high_ns) != 7 ||
            !fit_rows_add(&rows, setting, format, baseline != 0, &point)) {
            (void)fprintf(stderr, "fit_words: %s", line);
            return 2;
        }
    }
    fit_rows_say(&rows, stdout);
    fit_rows_free(&rows);
    return 0;
}
