# Script mode: reads the #include lines below SOURCE. A file may include headers of its own layer and
# of those below, by plain name; CUDA's headers belong in kernels/gpu and kernels/cuda alone.
set(layers_layouts layouts)
set(layers_kernels kernels layouts)
set(layers_host host kernels layouts)
set(layers_bench bench host kernels layouts)
set(wrong 0)

foreach(layer layouts kernels host bench)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/${layer}/*.c ${SOURCE}/${layer}/*.h
       ${SOURCE}/${layer}/*.cc ${SOURCE}/${layer}/*.cu ${SOURCE}/${layer}/*.cuh
       ${SOURCE}/${layer}/*.def)
  if(NOT files)
    message(FATAL_ERROR "${SOURCE}/${layer} has no sources")
  endif()
  foreach(file IN LISTS files)
    file(STRINGS ${SOURCE}/${file} includes REGEX "^[ \t]*#[ \t]*include")
    foreach(line IN LISTS includes)
      if(line MATCHES "\"([^\"]+)\"")
        set(name ${CMAKE_MATCH_1})
        # backend.c names the backends as cpu/cpu.h: a folder of its own layer.
        set(found FALSE)
        # Written by the build.
        if((name STREQUAL "version_info.h" AND layer MATCHES "^(host|bench)$") OR
           (name STREQUAL "attend_pairs_list.h" AND layer STREQUAL "kernels"))
          set(found TRUE)
        endif()
        foreach(below IN LISTS layers_${layer})
          file(GLOB_RECURSE here ${SOURCE}/${below}/${name})
          if(here AND NOT name MATCHES "\\.\\.")
            set(found TRUE)
          endif()
        endforeach()
        if(NOT found)
          message("${file}: \"${name}\" is not of ${layers_${layer}}")
          math(EXPR wrong "${wrong} + 1")
        endif()
      elseif(line MATCHES "<(cuda|cublas|nvml|cooperative_groups|mma\\.h|crt/)"
             AND NOT file MATCHES "^kernels/(gpu|cuda)/")
        message("${file}: ${line} outside kernels/gpu and kernels/cuda")
        math(EXPR wrong "${wrong} + 1")
      endif()
    endforeach()
  endforeach()
endforeach()
if(wrong)
  message(FATAL_ERROR "${wrong} includes that the layering forbids")
endif()
