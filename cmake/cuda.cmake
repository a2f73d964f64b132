# CUDA found or not found: never required. This version has no CUDA backend, so that all there is to
# do is to say so; KVGAUGE_CUDA=ON asks for what cannot be had and is refused.
if(KVGAUGE_CUDA STREQUAL "AUTO")
  find_program(KVGAUGE_NVCC nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(KVGAUGE_NVCC)
  if(KVGAUGE_NVCC)
    message(STATUS "CUDA: ${KVGAUGE_NVCC} found; this version has no CUDA backend and leaves it alone")
  else()
    message(STATUS "CUDA: no nvcc found, none needed")
  endif()
elseif(KVGAUGE_CUDA)
  message(FATAL_ERROR "KVGAUGE_CUDA=ON: this version has no CUDA backend (use AUTO or OFF)")
endif()
