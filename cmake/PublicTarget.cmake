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
  set_property(GLOBAL APPEND PROPERTY LIBZERO_PUBLIC_HEADERS ${ARGN})
  set_property(GLOBAL APPEND PROPERTY LIBZERO_PUBLIC_LIBRARIES $<TARGET_FILE_BASE_NAME:${target}>)
  if(LIBZERO_BUILD_TESTS)
    zero_header_tests(${target} ${ARGN})
  endif()
  if(LIBZERO_INSTALL)
    install(TARGETS ${target} EXPORT libzeroTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
      INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    foreach(header IN LISTS ARGN)
      cmake_path(GET header PARENT_PATH folder)
      install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder}
        COMPONENT dev)
    endforeach()
  endif()
endfunction()

function(zero_installed_plugin target)
  if(LIBZERO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  endif()
endfunction()

function(zero_installed_program target)
  if(LIBZERO_INSTALL)
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cli)
  endif()
endfunction()

# Files for builds without CMake.
function(_zero_install_pkg_config)
  set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH LIBZERO_PC_TO_PREFIX /prefix/${folder} /prefix)
  string(REGEX REPLACE "/$" "" LIBZERO_PC_TO_PREFIX "${LIBZERO_PC_TO_PREFIX}")
  set(LIBZERO_PC_REQUIRES "")
  if(LIBZERO_WITH_HDF5)
    set(LIBZERO_PC_REQUIRES ", hdf5")
  endif()
  get_property(libraries GLOBAL PROPERTY LIBZERO_PUBLIC_LIBRARIES)
  list(TRANSFORM libraries PREPEND "-l")
  list(JOIN libraries " " LIBZERO_PC_LIBS)
  foreach(name libzero-core libzero)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc.half @ONLY)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${name}.pc INPUT ${PROJECT_BINARY_DIR}/${name}.pc.half
      TARGET zero_core)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${folder} COMPONENT dev)
  endforeach()
endfunction()

# find_package(libzero) with the build folder as prefix, before anything is installed. What lies there may name this
# machine's folders: a consumer that names no LibTorch gets the one that libzero was built with.
function(_zero_build_tree_package)
  export(EXPORT libzeroTargets NAMESPACE zero:: FILE ${PROJECT_BINARY_DIR}/libzeroTargets.cmake)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/FindZeroTorch.cmake ${PROJECT_BINARY_DIR}/FindZeroTorch.cmake COPYONLY)
  # Private, header-only dependencies ($<BUILD_INTERFACE:...>) stay in what a build folder exports.
  file(WRITE ${PROJECT_BINARY_DIR}/libzeroBuildTree.cmake
    "set(ZERO_TORCH_DEFAULT_ROOT \"${ZeroTorch_ROOT}\")\nfind_dependency(Boost)\nfind_dependency(nlohmann_json)\n")
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
  install(EXPORT libzeroTargets NAMESPACE zero:: DESTINATION ${folder} COMPONENT dev)
  install(FILES
    ${PROJECT_BINARY_DIR}/libzeroConfig.cmake
    ${PROJECT_BINARY_DIR}/libzeroConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/FindZeroTorch.cmake
    DESTINATION ${folder} COMPONENT dev)
  _zero_install_pkg_config()
  _zero_build_tree_package()
endfunction()
