/* Faults planted for layering_includes_bite: a layer above, CUDA outside its folders. */
#include "above.h"
#include <cuda_runtime.h>
