# Warnings and sanitizers, once, for every target of ours.
add_library(kvgauge_options INTERFACE)
target_compile_options(kvgauge_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<BOOL:${KVGAUGE_WERROR}>:-Werror>)
if(KVGAUGE_SANITIZE)
  target_compile_options(kvgauge_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(kvgauge_options INTERFACE -fsanitize=address,undefined)
endif()
