# zero_test(NAME sources... [LINK libraries...] [PROCESSORS n] [TIMEOUT seconds]): one test program, its cases listed by
# ctest.
#
# ZERO_TEST_SLOWDOWN is how many times longer a test may take than in a build without sanitizer. It multiplies TIMEOUT,
# which is written for the latter; tests that bound times themselves get it as a macro or in their environment.
set(ZERO_TEST_SLOWDOWN 1)
if(LIBZERO_SANITIZE)
  set(ZERO_TEST_SLOWDOWN 5)
endif()

# zero_scaled_timeout(<variable> <seconds>)
function(zero_scaled_timeout variable seconds)
  math(EXPR scaled "${seconds} * ${ZERO_TEST_SLOWDOWN}")
  set(${variable} ${scaled} PARENT_SCOPE)
endfunction()

function(zero_test name)
  cmake_parse_arguments(ARG "" "PROCESSORS;TIMEOUT" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock_main)
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  zero_scaled_timeout(timeout ${ARG_TIMEOUT})
  # PRE_TEST: listing cases at build time would start every program once more on each link.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES PROCESSORS ${ARG_PROCESSORS} TIMEOUT ${timeout})
endfunction()
