# Script mode: fails if ARCHIVE calls an allocator or does I/O. NM is the toolchain's nm.
execute_process(COMMAND ${NM} --undefined-only ${ARCHIVE} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL
       "U (malloc|calloc|realloc|free|aligned_alloc|posix_memalign|mmap|fopen|fread|fwrite|fputs|fputc|puts|putchar|printf|fprintf|vfprintf|__printf_chk|__fprintf_chk|open|read|write)\n"
       found "${symbols}")
if(found)
  list(TRANSFORM found STRIP)
  message(FATAL_ERROR "${ARCHIVE} calls ${found}")
endif()
