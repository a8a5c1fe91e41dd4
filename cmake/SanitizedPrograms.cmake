# What every program of a sanitizer build links, whoever made it.
#
#   zero_prepare_programs_for_sanitizer()   call it once, when all targets exist; nothing without a sanitizer
#
# - The sanitizers' runtimes refuse RTLD_DEEPBIND. Plug-ins are therefore opened without it, and the Gloo that ours needs
#   has to come before the one inside LibTorch, which must then not be used. This is only a matter of order among shared
#   libraries: linking it is harmless where no plug-in is opened.
# - ThreadSanitizer is told which libraries come without instrumentation (tsan_suppressions.cpp).

function(_zero_programs_below folder result)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  set(programs "")
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      list(APPEND programs ${target})
    endif()
  endforeach()
  foreach(subfolder IN LISTS subfolders)
    _zero_programs_below(${subfolder} more)
    list(APPEND programs ${more})
  endforeach()
  set(${result} "${programs}" PARENT_SCOPE)
endfunction()

function(zero_prepare_programs_for_sanitizer)
  if(NOT LIBZERO_SANITIZE)
    return()
  endif()
  _zero_programs_below(${PROJECT_SOURCE_DIR} programs)
  if(LIBZERO_SANITIZE STREQUAL "thread")
    add_library(zero_tsan_suppressions OBJECT ${PROJECT_SOURCE_DIR}/cmake/tsan_suppressions.cpp)
  endif()
  foreach(program IN LISTS programs)
    if(TARGET gloo)
      # Link options stand before all objects and libraries.
      target_link_options(${program} PRIVATE LINKER:--no-as-needed $<TARGET_FILE:gloo> LINKER:--as-needed)
    endif()
    if(TARGET zero_tsan_suppressions)
      target_link_libraries(${program} PRIVATE zero_tsan_suppressions)
    endif()
  endforeach()
endfunction()
