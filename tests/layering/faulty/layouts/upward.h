/* Faults planted for layering_includes_bite: a layer above, a path around the fence, CUDA. */
#include "above.h"
#include "../host/above.h"
#include <cuda_fp16.h>
