# Debian packages, by CPack: one for each component. `cmake --build FOLDER --target packages` writes them to FOLDER/packages.
set(NXMEM_PACKAGE_runtime libnxmem1)
set(NXMEM_PACKAGE_development libnxmem-dev)
set(NXMEM_PACKAGE_tools nxmem-tools)
set(NXMEM_PACKAGE_plugins nxmem-plugins)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL runtime development tools plugins)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF)
set(NXMEM_MAINTAINER "The nxmem authors <nxmem@localhost>" CACHE STRING "Who packs: name and address")
set(CPACK_PACKAGE_CONTACT "${NXMEM_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# What a package links is found in the files; libnxmem1 among it, which is not installed where this is packed.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(own_version "= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

# nxmem_package(COMPONENT SECTION DEPENDS SHORT LONG...)
function(nxmem_package component section depends short)
  string(TOUPPER ${component} upper)
  set(name ${NXMEM_PACKAGE_${component}})
  string(JOIN "\n" long ${ARGN})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${short}\n${long}" PARENT_SCOPE)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endfunction()

nxmem_package(runtime libs "" "host of memory plugins: the library"
  "Loads shared libraries that supply memory, judges every byte and number that"
  "they produce, and unloads them only when both sides hold nothing.")
nxmem_package(development libdevel "libnxmem1 (${own_version})" "host of memory plugins: headers and the judgements alone"
  "Headers of the library and of the wire contract between host and plugin, the"
  "judgements as a freestanding static library, and the manual pages of both.")
nxmem_package(tools utils "libnxmem1 (${own_version})" "host of memory plugins: the command nxmem"
  "Looks at a plugin's file without running it, runs one behind the boundary, and"
  "tries every rule of the contract on it.")
nxmem_package(plugins libs "libnxmem1 (${own_version})" "host of memory plugins: plugins and the PyTorch adapter"
  "Host memory, the CUDA driver's virtual memory (opened at run time), the smallest"
  "correct plugin, and an adapter for PyTorch's pluggable allocator.")

# dpkg's format, from the licence itself.
file(READ ${PROJECT_SOURCE_DIR}/LICENSE licence)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]+)" ignored "${licence}")
set(NXMEM_COPYRIGHT "${CMAKE_MATCH_1}")
string(REGEX REPLACE "^.*\n\n(Permission is)" "\\1" licence "${licence}")
string(REGEX REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REGEX REPLACE "\n(.)" "\n \\1" NXMEM_LICENCE "${licence}")
configure_file(copyright.in copyright @ONLY)

# For packages of others that link the library: which package has it, from which version on.
get_target_property(policy_soversion nxmem_policy SOVERSION)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/shlibs "libnxmem 1 libnxmem1 (>= ${PROJECT_VERSION})
libnxmem_policy ${policy_soversion} libnxmem1 (>= ${PROJECT_VERSION})
")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/shlibs)
include(CPack)

# The same bytes whoever packs, and when: modes and dates of archives are not left to the umask and the clock. A date from the environment is taken.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_target(packages VERBATIM USES_TERMINAL
  COMMAND sh -c "umask 022; SOURCE_DATE_EPOCH=\"\${SOURCE_DATE_EPOCH:-${NXMEM_EPOCH}}\"; export SOURCE_DATE_EPOCH; exec \"$0\" --config CPackConfig.cmake"
    ${CMAKE_CPACK_COMMAND}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/sbom.py --packages packages --version ${PROJECT_VERSION}
    --epoch ${NXMEM_EPOCH} --out packages/nxmem-${PROJECT_VERSION}.spdx.json
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  DEPENDS nxmem nxmem_policy nxmem_core nxmem_cli nxmem_minimal nxmem_hostvmm nxmem_cudavmm nxmem_torch)
if(TARGET nxmem_manual)
  add_dependencies(packages nxmem_manual)
endif()
