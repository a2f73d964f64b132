/* What a file of layouts/ must not be able to do: headers_fence expects this not to compile. */
#include "pool.h"

int upward_unused;
