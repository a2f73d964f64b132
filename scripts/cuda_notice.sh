#!/usr/bin/env bash
# Prints what bench.sh has to say first and last on a machine with an NVIDIA driver; elsewhere nothing.
set -euo pipefail

driver_is_here() {
    [ -e "${KVGAUGE_PROC:-/proc}/driver/nvidia/version" ] || command -v nvidia-smi >/dev/null
}
nvcc_is_here() {
    command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]
}

driver_is_here || exit 0
printf 'bench: an NVIDIA driver is here, but this version of kvgauge measures the CPU alone:'
printf ' the figures are the CPU'"'"'s.\n'
if ! nvcc_is_here; then
    printf 'bench: no nvcc, which the CUDA backend will need. It is installed by\n'
    printf 'bench:     sudo apt-get install nvidia-cuda-toolkit\n'
    printf 'bench: (Debian: non-free, Ubuntu: multiverse; CUDA 11.8 to 12.4, by release), or for GPUs'
    printf ' newer than it knows, from\nbench: NVIDIA'"'"'s own repository (see'
    printf ' docs.nvidia.com/cuda/cuda-installation-guide-linux):\n'
    printf 'bench:     sudo apt-get install cuda-toolkit\n'
fi
