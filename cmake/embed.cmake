# kvgauge_embed(OUT SYMBOL FILES...): a C file with the files' names and bytes in one sorted table,
#   const struct embed_entry SYMBOL[]; const size_t SYMBOL_count;
# so that models and suites travel inside the program. Run again whenever a file changes.
function(kvgauge_embed out symbol)
  set(files ${ARGN})
  list(SORT files)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} "-DFILES=${files}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_write.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_write.cmake
    COMMENT "Embedding ${symbol}"
    VERBATIM)
endfunction()
