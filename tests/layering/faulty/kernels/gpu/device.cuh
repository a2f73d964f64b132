/* No fault: device code may see CUDA. */
#include <cuda_fp16.h>
