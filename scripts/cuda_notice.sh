#!/usr/bin/env bash
# Prints what bench.sh has to say first and last on a machine with an NVIDIA driver but without nvcc;
# elsewhere nothing. With nvcc the build takes the GPU, or says itself why it does not.
set -euo pipefail

driver_is_here() {
    [ -e "${KVGAUGE_PROC:-/proc}/driver/nvidia/version" ] || command -v nvidia-smi >/dev/null
}
nvcc_is_here() {
    command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]
}

driver_is_here || exit 0
! nvcc_is_here || exit 0
printf 'bench: an NVIDIA driver is here but no nvcc, which builds the kernels for the GPU:'
printf ' the figures are the CPU'"'"'s.\n'
printf 'bench: nvcc is installed by\n'
printf 'bench:     sudo apt-get install nvidia-cuda-toolkit\n'
printf 'bench: (Debian: non-free, Ubuntu: multiverse; CUDA 11.8 to 12.4, by release), or for GPUs'
printf ' newer than it knows, from\nbench: NVIDIA'"'"'s own repository (see'
printf ' docs.nvidia.com/cuda/cuda-installation-guide-linux):\n'
printf 'bench:     sudo apt-get install cuda-toolkit\n'
