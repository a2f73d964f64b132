/* No fault: downward. */
#include "upward.h"
