# zero_public_target(<target> <name> <header>...)   <target> is zero::<name>, inside this build and once installed
# zero_installed_plugin(<target>)                   a backend, into <prefix>/lib, where zero::connect looks
# zero_installed_program(<target>)                  a command, into <prefix>/bin
# zero_install_package()                            the files that find_package(libzero) reads; call it last
#
# Linking zero::<name> from find_package(libzero) or from add_subdirectory is the same thing.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(HeaderTests)

function(zero_public_target target name)
  if(NOT TARGET zero::${name})
    add_library(zero::${name} ALIAS ${target})
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(LIBZERO_BUILD_TESTS)
    zero_header_tests(${target} ${ARGN})
  endif()
  if(LIBZERO_INSTALL)
    install(TARGETS ${target} EXPORT libzeroTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    foreach(header IN LISTS ARGN)
      cmake_path(GET header PARENT_PATH folder)
      install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
    endforeach()
  endif()
endfunction()

function(zero_installed_plugin target)
  if(LIBZERO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

function(zero_installed_program target)
  if(LIBZERO_INSTALL)
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

function(zero_install_package)
  if(NOT LIBZERO_INSTALL)
    return()
  endif()
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/libzero)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" LIBZERO_TORCH_VERSION "${ZeroTorch_VERSION}")
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/libzeroConfig.cmake.in
    ${PROJECT_BINARY_DIR}/libzeroConfig.cmake INSTALL_DESTINATION ${folder})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/libzeroConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  install(EXPORT libzeroTargets NAMESPACE zero:: DESTINATION ${folder})
  install(FILES
    ${PROJECT_BINARY_DIR}/libzeroConfig.cmake
    ${PROJECT_BINARY_DIR}/libzeroConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/FindZeroTorch.cmake
    DESTINATION ${folder})
endfunction()
