# Installs BUILD into STAGE and checks that the package carries no path of this machine: neither the source folder, the
# build folder, the prefix nor LibTorch's.
file(REMOVE_RECURSE ${STAGE})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${STAGE} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE package_files ${STAGE}/*.cmake ${STAGE}/*.pc)
if(NOT package_files)
  message(FATAL_ERROR "no CMake package was installed below ${STAGE}")
endif()
foreach(file IN LISTS package_files)
  file(READ ${file} text)
  foreach(path IN ITEMS ${SOURCE} ${BUILD} ${STAGE} ${TORCH})
    string(FIND "${text}" "${path}" position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "an installed file holds a path of the machine that built it: ${path} in ${file}")
    endif()
  endforeach()
endforeach()
