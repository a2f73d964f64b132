# Script mode: writes version_info.h, and only when it changes, so that nothing rebuilds for it.
set(git "")
find_program(GIT git)
# A tree without .git of its own may lie in another repository, whose revision says nothing of it.
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE git OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # A tag v1.2.3 names the version; commits behind it are counted (1.2.3-4-gabcdef).
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --tags --match "v[0-9]*"
                  OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(tag)
    string(SUBSTRING "${tag}" 1 -1 VERSION)
  endif()
endif()
file(WRITE ${OUT}.new
     "#define KVGAUGE_VERSION \"${VERSION}\"\n#define KVGAUGE_GIT \"${git}\"\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
