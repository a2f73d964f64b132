#!/usr/bin/env bash
# cuda_config_test.sh CMAKE SOURCE: what cmake/cuda.cmake decides for fake toolkits and GPUs.
set -u
cmake=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

mkdir -p "$work/tree" "$work/cuda/bin" "$work/cuda/include" "$work/cuda/lib64"
cat >"$work/tree/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(probe NONE)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
include(${CUDA_CMAKE})
message(STATUS "has=${KVGAUGE_HAS_CUDA} built=${KVGAUGE_CUDA_BUILT}.")
EOF
cat >"$work/cuda/bin/nvcc" <<'EOF'
#!/bin/sh
case $1 in
--version) echo "Cuda compilation tools, release $FAKE_RELEASE, V$FAKE_RELEASE.1" ;;
--list-gpu-code) printf 'sm_80\nsm_86\nsm_90\nsm_100\nsm_120\n' ;;
esac
EOF
cat >"$work/cuda/bin/__nvcc_device_query" <<'EOF'
#!/bin/sh
[ -n "$FAKE_GPU" ] && echo "$FAKE_GPU"
EOF
chmod +x "$work"/cuda/bin/*
touch "$work/cuda/include/cuda_runtime_api.h" "$work/cuda/include/cublasLt.h" "$work/cuda/lib64/libcudart_static.a"

# expect CODE PATTERN RELEASE GPU OPTIONS...
expect() {
    local code=$1 pattern=$2 got
    export FAKE_RELEASE=$3 FAKE_GPU=$4
    shift 4
    rm -rf "$work/build"
    "$cmake" -S "$work/tree" -B "$work/build" -DCUDA_CMAKE="$source/cmake/cuda.cmake" \
        -DKVGAUGE_NVCC="$work/cuda/bin/nvcc" -DKVGAUGE_NVIDIA_SMI="$work/none" "$@" \
        >"$work/out" 2>&1
    got=$?
    # CMake breaks its messages into lines.
    if [ "$got" -ne "$code" ] || ! tr -s '\n ' ' ' <"$work/out" | grep -qE -- "$pattern"; then
        printf 'failed: CUDA %s, GPU %s, %s: exit %s, no match of %s\n' "$FAKE_RELEASE" \
            "${FAKE_GPU:-none}" "$*" "$got" "$pattern"
        head -20 "$work/out"
        failed=1
    fi
}
auto=-DKVGAUGE_CUDA=AUTO on=-DKVGAUGE_CUDA=ON native=-DKVGAUGE_CUDA_TARGETS=native
expect 0 'found but no GPU here.*has=OFF' 13.0 '' $auto
expect 0 'has=ON built=sm_90\.' 13.0 90 $auto
expect 0 'has=ON built=sm_86 sm_120a\.' 13.0 '86 120' $auto
expect 0 'has=ON built=sm_80 sm_90\.' 13.0 86 $auto '-DKVGAUGE_CUDA_TARGETS=80;90'
expect 0 'does not know sm_121.*has=OFF' 12.8 121 $auto
expect 0 'capability 75.*has=OFF' 13.0 75 $auto
expect 0 'is 11\.2, where 11\.8.*has=OFF' 11.2 80 $auto
expect 0 'has=OFF' 13.0 90 -DKVGAUGE_CUDA=OFF
expect 0 'built=sm_80 sm_86 sm_89 sm_90 compute_90\.' 12.6 '' $on
expect 0 'built=sm_80 sm_86 sm_89 sm_90 sm_100a sm_120a compute_90\.' 12.8 '' $on
expect 0 'built=sm_80 sm_86 sm_89 sm_90 sm_100f sm_120f compute_90\.' 13.0 '' $on
expect 0 'built=sm_100a\.' 13.0 100 $on $native
expect 1 'no GPU answers here' 13.0 '' $on $native
expect 1 'is 11\.2, where 11\.8' 11.2 '' $on
expect 1 'x90: 80, 90a, 120f' 13.0 '' $on -DKVGAUGE_CUDA_TARGETS=x90
expect 1 'does not tell a release' '' '' $on

# Without any nvcc; one in a folder that also holds make cannot be hidden.
real=$(type -ap nvcc | xargs -r -n 1 dirname | paste -sd ';')
if [ ! -x /usr/bin/nvcc ]; then
    hidden="-DCMAKE_IGNORE_PATH=/usr/local/cuda/bin;$real"
    none=-DKVGAUGE_NVCC=KVGAUGE_NVCC-NOTFOUND
    export CUDA_HOME=$work/none
    expect 1 'no nvcc in PATH' 13.0 '' $on $none "$hidden"
    expect 0 'no nvcc found, none needed.*has=OFF' 13.0 90 $auto $none "$hidden"
fi

[ $failed -eq 0 ] && echo 'cuda.cmake: all checks passed'
exit $failed
