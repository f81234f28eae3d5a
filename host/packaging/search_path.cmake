# Where what is installed finds libnxmem and libnxmem_policy: relative to itself, so that a prefix of somebody's own works without LD_LIBRARY_PATH. None below a
# prefix that ends in /usr, a system's or the picture of one that is packed: there the loader looks by itself. Under AT_SECURE the loader passes over such a path:
# a copy of the command that gains privileges finds the system's libraries or does not start.

# nxmem_finds_libraries(TARGET FOLDER COMPONENT): after its install(TARGETS). FOLDER: below the prefix.
function(nxmem_finds_libraries target folder component)
  file(RELATIVE_PATH path /${folder} /${CMAKE_INSTALL_LIBDIR})
  string(REGEX REPLACE "/$" "" path "\$ORIGIN/${path}")
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${path}")
  install(CODE "if(CMAKE_INSTALL_PREFIX MATCHES \"(^|/)usr/*$\")
  file(RPATH_REMOVE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\")
endif()" COMPONENT ${component})
endfunction()
