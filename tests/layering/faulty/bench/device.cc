/* Downward, and a fault: CUDA outside its folders. */
#include "above.h"
#include <cuda_runtime.h>
