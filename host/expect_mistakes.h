/* The usual mistakes of cache calculators. Private to host/expect*.c. */
#ifndef EXPECT_MISTAKES_H
#define EXPECT_MISTAKES_H

#include "expect.h"

/* Writes the mistake that comes nearest to the figure, if one gives it within half a unit of its
 * last digit (or half a percent): "only K was counted"; "" when none does. */
void expect_mistake(const struct expect_case *one, const struct expect_figure *figure, char *out,
                    size_t bytes);

#endif
