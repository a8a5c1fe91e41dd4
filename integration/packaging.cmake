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
  # Programs of one way share a build folder; ways that build libzero's own sources share what they compile.
  set_tests_properties(packaging.${name}.${program} PROPERTIES RESOURCE_LOCK consumer_${name}
    ENVIRONMENT "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1")
endfunction()

# A rank alone that is told to use Gloo.
set(plugin_environment ZERO_TEST_SLOWDOWN=${ZERO_TEST_SLOWDOWN} ZERO_BACKEND=gloo ZERO_PLUGIN_PATH= RANK=0 WORLD_SIZE=1
  LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500)

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

  if(TARGET zero_gloo)
    # Installed code finds no plug-in in the folder that it was built in, code of the build folder does.
    if(EXISTS ${CMAKE_INSTALL_FULL_LIBDIR}/libzero_gloo.so)
      message(STATUS "packaging.find_package.plugin is left out: a plug-in is installed in ${CMAKE_INSTALL_FULL_LIBDIR}")
    else()
      zero_consumer_test(find_package plugin -DCMAKE_PREFIX_PATH=${stage} -DLIBZERO_SOURCE=)
      set_tests_properties(packaging.find_package.plugin PROPERTIES
        FIXTURES_REQUIRED installed ENVIRONMENT "${plugin_environment}"
        PASS_REGULAR_EXPRESSION "there is no such plug-in")
    endif()
    zero_consumer_test(build_tree plugin -DCMAKE_PREFIX_PATH=${PROJECT_BINARY_DIR} -DLIBZERO_SOURCE=)
    set_tests_properties(packaging.build_tree.plugin PROPERTIES ENVIRONMENT "${plugin_environment}")
  endif()

  # Without an install, and without a word of LibTorch: the build folder knows which one it was built with.
  set(named_options ${consumer_options})
  list(FILTER consumer_options EXCLUDE REGEX "^-DZERO_TORCH_ROOT=")
  zero_consumer_test(build_tree with_torch -DCMAKE_PREFIX_PATH=${PROJECT_BINARY_DIR} -DLIBZERO_SOURCE=)
  set_tests_properties(packaging.build_tree.with_torch PROPERTIES
    ENVIRONMENT "ZERO_TEST_SLOWDOWN=${ZERO_TEST_SLOWDOWN};HOME=${PROJECT_BINARY_DIR}/consumer;VIRTUAL_ENV=;XDG_CACHE_HOME=")
  set(consumer_options ${named_options})

  set(flags -ffp-contract=off)
  if(LIBZERO_SANITIZE STREQUAL "address")
    string(APPEND flags " -fsanitize=address,undefined")
  elseif(LIBZERO_SANITIZE STREQUAL "thread")
    string(APPEND flags " -fsanitize=thread")
  endif()
  foreach(program without_torch with_torch)
    set(package libzero)
    set(torch ${ZeroTorch_ROOT})
    if(program STREQUAL "without_torch")
      set(package libzero-core)
      set(torch "")
    endif()
    zero_integration_test(packaging.pkg_config.${program} TIMEOUT 300
      COMMAND ${CMAKE_COMMAND}
        -DSTAGE=${stage} -DPACKAGE=${package} -DTORCH=${torch} -DPROGRAM=${program} -DCOMPILER=${CMAKE_CXX_COMPILER}
        -DFLAGS=${flags} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}/consumer -DOUTPUT=${PROJECT_BINARY_DIR}/consumer/pkg_config
        -P ${CMAKE_CURRENT_SOURCE_DIR}/check_pkg_config.cmake)
    set_tests_properties(packaging.pkg_config.${program} PROPERTIES
      FIXTURES_REQUIRED installed SKIP_REGULAR_EXPRESSION "skipped: ")
  endforeach()

  if(LIBZERO_BUILD_CLI AND NOT LIBZERO_SANITIZE)
    zero_integration_test(packaging.debs TIMEOUT 300
      COMMAND ${CMAKE_COMMAND}
        -DBUILD=${PROJECT_BINARY_DIR} -DCPACK=${CMAKE_CPACK_COMMAND} -DOUTPUT=${PROJECT_BINARY_DIR}/packages_test
        -DVERSION=${PROJECT_VERSION} -P ${CMAKE_CURRENT_SOURCE_DIR}/check_debs.cmake)
    set_tests_properties(packaging.debs PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " FIXTURES_SETUP debs)
    find_program(DPKG_DEB dpkg-deb)
    find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
    if(DPKG_DEB AND DPKG_SHLIBDEPS)
      zero_consumer_test(debs without_torch
        -DCMAKE_PREFIX_PATH=${PROJECT_BINARY_DIR}/packages_test/dev${CMAKE_INSTALL_PREFIX} -DLIBZERO_SOURCE=)
      set_tests_properties(packaging.debs.without_torch PROPERTIES FIXTURES_REQUIRED debs)
    else()
      message(STATUS "integration: nobody builds against the Debian package: there is no dpkg-deb or no dpkg-shlibdeps")
    endif()
  else()
    message(STATUS "integration: no test of the Debian packages without the command, or with a sanitizer in it")
  endif()
endif()
# The library's sources are compiled once more here; one program without LibTorch shows that the way works.
zero_consumer_test(add_subdirectory without_torch -DLIBZERO_SOURCE=${PROJECT_SOURCE_DIR})
zero_consumer_test(fetch_content without_torch -DLIBZERO_FETCH=${PROJECT_SOURCE_DIR})
# One after the other: what the first has compiled is in the cache.
set_tests_properties(packaging.fetch_content.without_torch PROPERTIES DEPENDS packaging.add_subdirectory.without_torch)
