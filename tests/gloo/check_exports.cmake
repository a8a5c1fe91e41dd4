# Fails unless the plug-in defines exactly two dynamic symbols.
execute_process(COMMAND ${NM} -DC --defined-only ${PLUGIN}
  OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "cannot list the symbols of ${PLUGIN}")
endif()
string(REGEX REPLACE "[0-9a-f]+ . " "" names "${symbols}")
string(STRIP "${names}" names)
if(NOT names STREQUAL "zero_backend_abi_version\nzero_backend_create")
  message(FATAL_ERROR "${PLUGIN} exports more or less than its two functions:\n${symbols}")
endif()
