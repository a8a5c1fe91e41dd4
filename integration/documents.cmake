# Tests of the text: documents whose commands run, promises that can be broken, a repository that speaks of the product
# alone, includes that follow the arrows between folders.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

zero_integration_test(documents.commands TIMEOUT 600
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/docs_commands_test.py
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

zero_integration_test(documents.checkers_can_fail TIMEOUT 60
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/documents_selftest.py)

zero_integration_test(documents.options TIMEOUT 60
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/options_test.py ${PROJECT_SOURCE_DIR})

# What docs/performance.md promises is judged by these.
zero_integration_test(documents.figures_can_fail TIMEOUT 60
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/benchmarks/bench/figures_selftest.py)

zero_integration_test(documents.product_text TIMEOUT 60
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_product_text ${PROJECT_SOURCE_DIR})
set_tests_properties(documents.product_text PROPERTIES SKIP_RETURN_CODE 77)

get_target_property(torch_includes zero::torch INTERFACE_INCLUDE_DIRECTORIES)
zero_integration_test(documents.structure TIMEOUT 120
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/structure_test.py
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER} ${torch_includes})

if(TARGET docs)
  zero_integration_test(documents.reference TIMEOUT 120
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target docs)
  zero_integration_test(documents.docstrings TIMEOUT 60
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/docstrings_test.py
      ${DOXYGEN_EXECUTABLE} ${PROJECT_BINARY_DIR}/Doxyfile.docs)
else()
  # Run nowhere, so that their reason stands among the results.
  foreach(test documents.reference documents.docstrings)
    add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -E echo "skipped: there is no doxygen on this machine")
    set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " LABELS integration)
  endforeach()
endif()
