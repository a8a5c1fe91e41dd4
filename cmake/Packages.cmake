# What `cpack` makes: two Debian packages, into <build>/packages.
#
#   libzero-cli   the command zero; needs no LibTorch
#   libzero-dev   headers, libraries, backends, CMake and pkg-config files; LibTorch is no Debian package of a fixed
#                 version, so whoever builds a trainer brings it
#
# They install below CMAKE_INSTALL_PREFIX, where libzero also looks for its backends.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libzero)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The libzero authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dev)
if(LIBZERO_BUILD_CLI)
  list(PREPEND CPACK_COMPONENTS_ALL cli)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CLI_PACKAGE_NAME libzero-cli)
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_CLI_DESCRIPTION "The command zero: starts ranks, looks after checkpoints")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libzero-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libhwy-dev")
if(LIBZERO_WITH_HDF5)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libhdf5-dev")
endif()
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and libraries for trainers")
include(CPack)
