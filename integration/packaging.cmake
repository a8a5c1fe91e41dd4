# Tests that an outside project can use what libzero installs, and libzero's folder itself.

set(stage ${PROJECT_BINARY_DIR}/stage)
set(consumer_options
  -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
  -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
  -DZERO_TORCH_ROOT=${ZeroTorch_ROOT})
# A library with a sanitizer needs a program with it.
if(LIBZERO_SANITIZE STREQUAL "address")
  list(APPEND consumer_options -DCMAKE_CXX_FLAGS=-fsanitize=address,undefined)
elseif(LIBZERO_SANITIZE STREQUAL "thread")
  list(APPEND consumer_options -DCMAKE_CXX_FLAGS=-fsanitize=thread)
endif()

# zero_consumer_test(<name> <option>...): configures, builds and runs integration/consumer in a fresh folder.
function(zero_consumer_test name)
  add_test(NAME packaging.${name}
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumer ${PROJECT_BINARY_DIR}/consumer/${name}
      --build-generator ${CMAKE_GENERATOR} --build-makeprogram ${CMAKE_MAKE_PROGRAM}
      --build-target consumer --build-noclean
      --build-options ${consumer_options} ${ARGN}
      --test-command consumer)
  set_tests_properties(packaging.${name} PROPERTIES TIMEOUT 300 LABELS integration)
endfunction()

if(LIBZERO_INSTALL)
  add_test(NAME packaging.install
    COMMAND ${CMAKE_COMMAND}
      -DBUILD=${PROJECT_BINARY_DIR} -DSTAGE=${stage} -DSOURCE=${PROJECT_SOURCE_DIR} -DTORCH=${ZeroTorch_ROOT}
      -P ${CMAKE_CURRENT_SOURCE_DIR}/check_install.cmake)
  set_tests_properties(packaging.install PROPERTIES FIXTURES_SETUP installed TIMEOUT 120 LABELS integration)
  zero_consumer_test(find_package -DCMAKE_PREFIX_PATH=${stage} -DLIBZERO_SOURCE=)
  set_tests_properties(packaging.find_package PROPERTIES FIXTURES_REQUIRED installed)
endif()
zero_consumer_test(add_subdirectory -DLIBZERO_SOURCE=${PROJECT_SOURCE_DIR})
