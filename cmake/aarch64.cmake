# Cross build for aarch64 with the distribution's compiler. cJSON and cmocka for aarch64 lie in
# build-aarch64-root, where scripts/cross_packages.sh puts them; tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(KVGAUGE_CROSS_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build-aarch64-root)
set(CMAKE_FIND_ROOT_PATH ${KVGAUGE_CROSS_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${KVGAUGE_CROSS_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${KVGAUGE_CROSS_ROOT})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
