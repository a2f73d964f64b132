# `cmake --install`, and `cpack -G DEB`: the program, its man page and completion, both printed by the
# program itself from the text of --help. kvgauge_bench, where it was built, is a component and a
# package of its own: what it links nothing else needs.
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME kvgauge)

install(TARGETS kvgauge RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
# The Python programs find their modules beside themselves, behind the links.
file(GLOB modules CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/*.py)
install(PROGRAMS ${modules} DESTINATION ${CMAKE_INSTALL_DATADIR}/kvgauge)
foreach(script compare report)
  set(link ${CMAKE_BINARY_DIR}/documents/kvgauge-${script})
  file(RELATIVE_PATH target /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_DATADIR}/kvgauge/${script}.py)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/documents)
  file(CREATE_LINK ${target} ${link} SYMBOLIC)
  install(FILES ${link} DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()

if(TARGET kvgauge_bench)
  install(TARGETS kvgauge_bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT bench)
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}-bench
          RENAME copyright COMPONENT bench)
endif()

# What was built for another machine does not run here.
if(NOT CMAKE_CROSSCOMPILING)
  set(documents ${CMAKE_BINARY_DIR}/documents)
  add_custom_command(OUTPUT ${documents}/kvgauge.1 ${documents}/kvgauge.bash
    COMMAND ${CMAKE_COMMAND} -E make_directory ${documents}
    COMMAND kvgauge --man > ${documents}/kvgauge.1
    COMMAND kvgauge --completion > ${documents}/kvgauge.bash
    DEPENDS kvgauge COMMENT "Man page and completion" VERBATIM)
  add_custom_target(documents ALL DEPENDS ${documents}/kvgauge.1)
  install(FILES ${documents}/kvgauge.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${documents}/kvgauge.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kvgauge)
endif()

set(CPACK_PACKAGE_NAME kvgauge)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
find_program(KVGAUGE_GIT git)
if(KVGAUGE_GIT AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(COMMAND ${KVGAUGE_GIT} -C ${CMAKE_SOURCE_DIR} describe --tags --match "v[0-9]*"
                  OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${KVGAUGE_GIT} -C ${CMAKE_SOURCE_DIR} log -1 --date=format:%Y%m%d
                          --format=%cd.%h
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(tag)
    string(SUBSTRING "${tag}" 1 -1 CPACK_PACKAGE_VERSION)
  elseif(commit)
    # sorts before the release that it leads to
    set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION}~git${commit})
  endif()
endif()
set(CPACK_PACKAGE_CONTACT "kvgauge")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "what a KV cache really costs, measured")
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# A package for each component.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL kvgauge)
set(CPACK_DEBIAN_KVGAUGE_PACKAGE_NAME kvgauge)
# For kvgauge-compare and kvgauge-report; --weights-read opens the library when asked.
set(CPACK_DEBIAN_KVGAUGE_PACKAGE_RECOMMENDS "python3, libopenblas0")
if(TARGET kvgauge_bench)
  list(APPEND CPACK_COMPONENTS_ALL bench)
  set(CPACK_DEBIAN_BENCH_PACKAGE_NAME kvgauge-bench)
  set(CPACK_DEBIAN_BENCH_PACKAGE_RECOMMENDS libopenblas0)
  set(CPACK_COMPONENT_BENCH_DESCRIPTION "The same measurements as benchmarks of Google's library.")
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
