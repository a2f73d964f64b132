# gpu_pair_sources(OUT EXTENSION): writes one source file per row of pairs.def and puts their names in
# OUT. Beside them attend_pairs_list.h, which names the same pairs for C: the targets of the calling
# folder see it.
# KVGAUGE_PAIRS: default; same: those with K and V in one format; all: every combination of formats;
# or a list of formats (BF16;NVFP4), each with itself. Formats: those of mma_formats.def. KVGAUGE_CUDA_SMALL makes same of default.
set(KVGAUGE_PAIRS default CACHE STRING "K and V formats that mma kernels combine: default, same, all, or formats")
set(gpu_pair_folder ${CMAKE_CURRENT_LIST_DIR})

function(gpu_pair_rows out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${gpu_pair_folder}/pairs.def)
  file(STRINGS ${gpu_pair_folder}/pairs.def lines REGEX "^PAIR\\(")
  set(asked ${KVGAUGE_PAIRS})
  if(asked STREQUAL "default" AND KVGAUGE_CUDA_SMALL)
    set(asked same)
  endif()
  set(rows "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^PAIR\\(([A-Z0-9_]+), ([A-Z0-9_]+), (ALL|MIXED)\\)$")
      message(FATAL_ERROR "pairs.def: cannot read '${line}'")
    endif()
    set(same OFF)
    if(CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_2)
      set(same ON)
    endif()
    if(asked STREQUAL "default" OR asked STREQUAL "all" OR
       (same AND (asked STREQUAL "same" OR CMAKE_MATCH_1 IN_LIST asked)))
      list(APPEND rows "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}/${CMAKE_MATCH_3}")
    endif()
  endforeach()
  if(NOT rows)
    message(FATAL_ERROR "KVGAUGE_PAIRS=${KVGAUGE_PAIRS}: default, same, all or formats such as BF16;NVFP4")
  endif()
  if(asked STREQUAL "all")
    file(STRINGS ${gpu_pair_folder}/mma_formats.def formats REGEX "^MMA_FORMAT\\([A-Z]")
    list(TRANSFORM formats REPLACE "^MMA_FORMAT\\(([A-Z0-9_]+),.*" "\\1")
    foreach(k IN LISTS formats)
      foreach(v IN LISTS formats)
        if(NOT rows MATCHES "(^|;)${k}/${v}/")
          list(APPEND rows "${k}/${v}/MIXED")
        endif()
      endforeach()
    endforeach()
  endif()
  set(${out} "${rows}" PARENT_SCOPE)
endfunction()

function(gpu_pair_sources out extension)
  gpu_pair_rows(rows)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/gpu_pairs)
  set(sources "")
  set(list "/* Written by pairs.cmake from pairs.def. */\n")
  foreach(row IN LISTS rows)
    string(REPLACE "/" ";" parts ${row})
    list(GET parts 0 k)
    list(GET parts 1 v)
    list(GET parts 2 dims)
    set(source ${folder}/attend_pair_${k}_${v}.${extension})
    file(CONFIGURE OUTPUT ${source} CONTENT
"/* Written by pairs.cmake from pairs.def. */
#define PAIR_K ${k}
#define PAIR_V ${v}
#define PAIR_DIMS_${dims} 1
#include \"attend_pair.cuh\"
" @ONLY)
    list(APPEND sources ${source})
    string(APPEND list "ATTEND_PAIR(${k}, ${v})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/attend_pairs_list.h CONTENT "${list}" @ONLY)
  include_directories(${folder})
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()
