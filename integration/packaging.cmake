# Tests that an outside project can use what libzero installs, and libzero's folder itself.

set(stage ${PROJECT_BINARY_DIR}/stage)
set(consumer_options
  -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
  -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
  -DZERO_TORCH_ROOT=${ZeroTorch_ROOT})
if(CCACHE_PROGRAM)
  list(APPEND consumer_options -DCMAKE_CXX_COMPILER_LAUNCHER=${CCACHE_PROGRAM})
endif()
# A library with a sanitizer needs a program with it.
if(LIBZERO_SANITIZE STREQUAL "address")
  list(APPEND consumer_options -DCMAKE_CXX_FLAGS=-fsanitize=address,undefined)
elseif(LIBZERO_SANITIZE STREQUAL "thread")
  list(APPEND consumer_options -DCMAKE_CXX_FLAGS=-fsanitize=thread)
endif()

# zero_consumer_test(<name> <program> <option>...): configures integration/consumer, builds <program> and runs it.
function(zero_consumer_test name program)
  zero_integration_test(packaging.${name}.${program} TIMEOUT 600
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumer ${PROJECT_BINARY_DIR}/consumer/${name}
      --build-generator ${CMAKE_GENERATOR} --build-makeprogram ${CMAKE_MAKE_PROGRAM}
      --build-target ${program} --build-noclean
      --build-options ${consumer_options} ${ARGN}
      --test-command ${program})
  # Both programs share a build folder.
  set_tests_properties(packaging.${name}.${program} PROPERTIES RESOURCE_LOCK consumer_${name})
endfunction()

if(LIBZERO_INSTALL)
  zero_integration_test(packaging.install TIMEOUT 120
    COMMAND ${CMAKE_COMMAND}
      -DBUILD=${PROJECT_BINARY_DIR} -DSTAGE=${stage} -DSOURCE=${PROJECT_SOURCE_DIR} -DTORCH=${ZeroTorch_ROOT}
      -P ${CMAKE_CURRENT_SOURCE_DIR}/check_install.cmake)
  set_tests_properties(packaging.install PROPERTIES FIXTURES_SETUP installed)
  foreach(program without_torch with_torch)
    zero_consumer_test(find_package ${program} -DCMAKE_PREFIX_PATH=${stage} -DLIBZERO_SOURCE=)
    set_tests_properties(packaging.find_package.${program} PROPERTIES FIXTURES_REQUIRED installed)
  endforeach()
endif()
# The library's sources are compiled once more here; one program without LibTorch shows that the way works.
zero_consumer_test(add_subdirectory without_torch -DLIBZERO_SOURCE=${PROJECT_SOURCE_DIR})
