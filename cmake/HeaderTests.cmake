# Each public header must compile alone, and twice.
#
#   zero_header_tests(<library> <header>...)   compiles one source per header, with <library>'s include path and options
#
# The objects of all LibTorch-free libraries are in the target zero_header_tests; those of a library that needs LibTorch
# are in zero_header_tests_<library>, since each costs seconds. Both are part of the default build.

function(zero_header_tests library)
  set(tests zero_header_tests)
  get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
  if(links MATCHES "zero::torch")
    set(tests zero_header_tests_${library})
  endif()
  if(NOT TARGET ${tests})
    add_library(${tests} OBJECT)
  endif()
  target_link_libraries(${tests} PRIVATE ${library})
  foreach(header IN LISTS ARGN)
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      message(FATAL_ERROR "public header is listed but does not exist: ${header}")
    endif()
    string(MAKE_C_IDENTIFIER "${header}" id)
    set(source ${PROJECT_BINARY_DIR}/header_tests/${id}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
    target_sources(${tests} PRIVATE ${source})
  endforeach()
endfunction()
