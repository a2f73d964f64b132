# CUDA found or not found: never required. Sets KVGAUGE_HAS_CUDA and, with it, KVGAUGE_CUDA_VERSION,
# KVGAUGE_CUDA_BUILT (the targets in words), KVGAUGE_CUDA_INCLUDE, KVGAUGE_CUDART and the function
# kvgauge_cuda_objects. nvcc is called by commands of our own: CMake 3.25 does not know targets such
# as 120f, and the C parts need no second language.
#   KVGAUGE_CUDA=AUTO     with nvcc and a GPU here: built, for the GPUs here; otherwise said, and not
#   KVGAUGE_CUDA=ON       built, for KVGAUGE_CUDA_TARGETS; what is missing is an error
#   KVGAUGE_CUDA_TARGETS  80 86 ... 90a 100f (machine code), 90-ptx, or native; empty: see below
#   KVGAUGE_CUDA_SMALL    head dim 128 and one latent, same formats alone: for checks of the build
set(KVGAUGE_CUDA_TARGETS "" CACHE STRING "GPUs to build for: a list, native, or empty")
option(KVGAUGE_CUDA_SMALL "Build the attention kernels for head dim 128 and one latent alone" OFF)
set(KVGAUGE_HAS_CUDA OFF)

# With AUTO a build goes on without CUDA, with a warning; with ON it ends here.
function(kvgauge_cuda_problem)
  if(KVGAUGE_CUDA STREQUAL "AUTO")
    message(WARNING "CUDA: " ${ARGN} " Built without CUDA.")
  else()
    message(FATAL_ERROR "CUDA: " ${ARGN} " (-DKVGAUGE_CUDA=OFF builds without.)")
  endif()
endfunction()

# Compute capabilities of the GPUs here, as 90 or 121; empty without any.
function(kvgauge_cuda_native out)
  set(found "")
  get_filename_component(folder ${KVGAUGE_NVCC} REALPATH)
  get_filename_component(folder ${folder} DIRECTORY)
  if(EXISTS ${folder}/__nvcc_device_query)
    execute_process(COMMAND ${folder}/__nvcc_device_query RESULT_VARIABLE code OUTPUT_VARIABLE text
                    ERROR_QUIET)
    if(code EQUAL 0)
      string(REGEX MATCHALL "[0-9]+" found "${text}")
    endif()
  endif()
  find_program(KVGAUGE_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(KVGAUGE_NVIDIA_SMI)
  if(NOT found AND KVGAUGE_NVIDIA_SMI)
    execute_process(COMMAND ${KVGAUGE_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_QUIET)
    if(code EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" found "${text}")
      string(REPLACE "." "" found "${found}")
    endif()
  endif()
  list(REMOVE_DUPLICATES found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# The targets of the GPUs here; empty, with a reason, where this nvcc or the kernels cannot serve them.
function(kvgauge_cuda_native_targets natives out out_why)
  execute_process(COMMAND ${KVGAUGE_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  set(targets "")
  set(why "no GPU answers here.")
  foreach(capability IN LISTS natives)
    if(capability LESS 80)
      set(why "a GPU of compute capability ${capability} (in tenths), where the kernels need 80.")
    elseif(NOT known MATCHES "sm_${capability}[^0-9]")
      set(why "CUDA ${KVGAUGE_CUDA_VERSION} does not know sm_${capability}, the GPU here.")
    elseif(capability GREATER_EQUAL 100)
      # From 10.0 on, the 4-bit conversions exist in a chip's own target alone.
      list(APPEND targets ${capability}a)
    else()
      list(APPEND targets ${capability})
    endif()
  endforeach()
  set(${out} "${targets}" PARENT_SCOPE)
  set(${out_why} "${why}" PARENT_SCOPE)
endfunction()

# KVGAUGE_CUDA_TARGETS, or its default, as a list of targets; empty when there are none to serve.
function(kvgauge_cuda_choose natives out out_why)
  set(targets ${KVGAUGE_CUDA_TARGETS})
  set(why "")
  if("${targets}" STREQUAL "" AND KVGAUGE_CUDA STREQUAL "AUTO")
    set(targets native)
  endif()
  if("${targets}" STREQUAL "native")
    kvgauge_cuda_native_targets("${natives}" targets why)
  elseif("${targets}" STREQUAL "")
    set(targets 80 86 89 90)
    if(KVGAUGE_CUDA_VERSION VERSION_GREATER_EQUAL 12.9)
      list(APPEND targets 100f 120f) # f: all of the family, 103 and 121 with it
    elseif(KVGAUGE_CUDA_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND targets 100a 120a)
    endif()
    list(APPEND targets 90-ptx)
  endif()
  set(${out} "${targets}" PARENT_SCOPE)
  set(${out_why} "${why}" PARENT_SCOPE)
endfunction()

# 120f -> -gencode arch=compute_120f,code=sm_120f
function(kvgauge_cuda_gencode targets out out_words)
  set(options "")
  set(words "")
  foreach(target IN LISTS targets)
    if(NOT target MATCHES "^([0-9]+[af]?)(-ptx)?$")
      message(FATAL_ERROR "KVGAUGE_CUDA_TARGETS: ${target}: 80, 90a, 120f, 90-ptx or native is expected")
    endif()
    set(code sm_${CMAKE_MATCH_1})
    if(CMAKE_MATCH_2)
      set(code compute_${CMAKE_MATCH_1})
    endif()
    list(APPEND options -gencode arch=compute_${CMAKE_MATCH_1},code=${code})
    string(APPEND words " ${code}")
  endforeach()
  string(STRIP "${words}" words)
  set(${out} ${options} PARENT_SCOPE)
  set(${out_words} ${words} PARENT_SCOPE)
endfunction()

# What nvcc belongs to: its version, the runtime's headers and static library. out_why: what is wrong.
function(kvgauge_cuda_toolkit out_why)
  execute_process(COMMAND ${KVGAUGE_NVCC} --version OUTPUT_VARIABLE text RESULT_VARIABLE code ERROR_QUIET)
  set(${out_why} "" PARENT_SCOPE)
  if(NOT code EQUAL 0 OR NOT text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${out_why} "${KVGAUGE_NVCC} --version does not tell a release." PARENT_SCOPE)
    return()
  endif()
  set(KVGAUGE_CUDA_VERSION ${CMAKE_MATCH_1} PARENT_SCOPE)
  get_filename_component(root ${KVGAUGE_NVCC} REALPATH)
  get_filename_component(root ${root} DIRECTORY)
  get_filename_component(root ${root} DIRECTORY)
  file(GLOB platforms ${root}/targets/*)
  find_path(KVGAUGE_CUDA_INCLUDE cuda_runtime_api.h HINTS ${root} ${platforms} /usr/local/cuda
            PATH_SUFFIXES include)
  find_library(KVGAUGE_CUDART cudart_static HINTS ${root} ${platforms} /usr/local/cuda
               PATH_SUFFIXES lib64 lib)
  mark_as_advanced(KVGAUGE_CUDA_INCLUDE KVGAUGE_CUDART)
  if(CMAKE_MATCH_1 VERSION_LESS 11.8)
    set(${out_why} "${KVGAUGE_NVCC} is ${CMAKE_MATCH_1}, where 11.8 or newer is needed." PARENT_SCOPE)
  elseif(NOT KVGAUGE_CUDA_INCLUDE OR NOT KVGAUGE_CUDART)
    set(${out_why} "${KVGAUGE_NVCC} is here, cuda_runtime_api.h and libcudart_static.a are not."
        PARENT_SCOPE)
  elseif(NOT EXISTS ${KVGAUGE_CUDA_INCLUDE}/cublasLt.h)
    set(${out_why} "cublas_v2.h and cublasLt.h are not beside cuda_runtime_api.h (libcublas-dev)."
        PARENT_SCOPE)
  endif()
endfunction()

# Everything above, in order.
function(kvgauge_cuda_configure)
  find_program(KVGAUGE_NVCC nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(KVGAUGE_NVCC)
  if(NOT KVGAUGE_NVCC)
    if(KVGAUGE_CUDA STREQUAL "AUTO")
      message(STATUS "CUDA: no nvcc found, none needed")
    else()
      kvgauge_cuda_problem("no nvcc in PATH, CUDA_HOME or /usr/local/cuda.")
    endif()
    return()
  endif()
  kvgauge_cuda_native(natives)
  if(KVGAUGE_CUDA STREQUAL "AUTO" AND NOT natives)
    message(STATUS "CUDA: ${KVGAUGE_NVCC} found but no GPU here, built without it "
                   "(-DKVGAUGE_CUDA=ON builds for GPUs elsewhere)")
    return()
  endif()
  kvgauge_cuda_toolkit(why)
  if(NOT why)
    kvgauge_cuda_choose("${natives}" targets why)
  endif()
  if(NOT targets)
    kvgauge_cuda_problem(${why})
    return()
  endif()
  kvgauge_cuda_gencode("${targets}" gencode built)
  set(cost "")
  if(NOT KVGAUGE_CUDA_SMALL)
    # 11.5 minutes of processor time for sm_90 and sm_120f together (AMD EPYC, nvcc 13.0).
    set(cost "; each takes some 6 minutes of one core")
  endif()
  message(STATUS "CUDA: ${KVGAUGE_NVCC}, ${KVGAUGE_CUDA_VERSION}, building for ${built}${cost}")
  set(KVGAUGE_HAS_CUDA ON PARENT_SCOPE)
  set(KVGAUGE_CUDA_VERSION ${KVGAUGE_CUDA_VERSION} PARENT_SCOPE)
  set(KVGAUGE_CUDA_GENCODE "${gencode}" PARENT_SCOPE)
  set(KVGAUGE_CUDA_BUILT "${built}" PARENT_SCOPE)
endfunction()
if(KVGAUGE_CUDA AND NOT CMAKE_CROSSCOMPILING)
  kvgauge_cuda_configure()
endif()

# kvgauge_cuda_objects(OUT INCLUDES FILES...): compiles .cu files for every target; OUT gets the objects.
# What ptxas says of registers and spills stays beside each object, in NAME.ptxas.
function(kvgauge_cuda_objects out includes)
  # 186: a template's loop that has no round for one of its types.
  # The host's side of a kernel is never called (it is launched by address), so that it can do without
  # exceptions and guards, and the program without the C++ library.
  set(options -std=c++17 -O3 -t2 -lineinfo -Xptxas -v -diag-suppress 186
      -Xcompiler=-Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics)
  if(KVGAUGE_WERROR)
    list(APPEND options -Werror all-warnings)
  endif()
  if(KVGAUGE_CUDA_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND options --compress-mode=size)
  endif()
  if(KVGAUGE_CUDA_SMALL)
    list(APPEND options -DGPU_SMALL=1)
  endif()
  list(TRANSFORM includes PREPEND -I)
  set(objects "")
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o)
    # A codec's rounding rule is IEEE operation by operation: nothing may be fused there.
    set(exact "")
    if(name MATCHES "^(append|attend_expand)")
      set(exact -fmad=false)
    endif()
    add_custom_command(
      OUTPUT ${object}
      COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/nvcc_run.sh ${CMAKE_CURRENT_BINARY_DIR}/${name}.ptxas
              ${KVGAUGE_NVCC} ${options} ${exact} ${KVGAUGE_CUDA_GENCODE} ${includes}
              -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} ${CMAKE_SOURCE_DIR}/cmake/nvcc_run.sh
      DEPFILE ${object}.d
      COMMENT "nvcc ${name}.cu"
      VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
