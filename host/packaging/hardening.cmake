# What compilers and the linker offer against a bug that gets past everything else. Not beside sanitizers, coverage and
# fuzz engines, which instrument the same places. relro, now and noexecstack are set for every build, in the root.
set(NXMEM_HARDENED OFF)
if(NOT NXMEM_SANITIZE AND NOT NXMEM_COVERAGE AND NXMEM_FUZZ_ENGINE STREQUAL "replay")
  set(NXMEM_HARDENED ON)
endif()

if(NXMEM_HARDENED)
  include(CheckCCompilerFlag)
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER "NXMEM_HAS${flag}" has)
    check_c_compiler_flag(${flag} ${has})
    if(${has})
      add_compile_options(${flag})
    endif()
  endforeach()
  # Without optimisation the C library warns that it cannot. What a distribution's compiler sets by itself is replaced.
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  add_link_options(-Wl,--as-needed)
  # Executables as position independent as the libraries.
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES C)
endif()

# A package tells nothing of where it was built, and two builds in two folders give the same bytes.
if(NOT NXMEM_TESTS)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
  add_link_options(-s)
endif()
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
