# Tests of the text: documents whose commands run, and a repository that speaks of the product alone.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_test(NAME documents.commands
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/docs_commands_test.py
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
set_tests_properties(documents.commands PROPERTIES TIMEOUT 600 LABELS integration)

add_test(NAME documents.checkers_can_fail
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/documents_selftest.py)
set_tests_properties(documents.checkers_can_fail PROPERTIES TIMEOUT 60 LABELS integration)

add_test(NAME documents.product_text
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_product_text ${PROJECT_SOURCE_DIR})
set_tests_properties(documents.product_text PROPERTIES TIMEOUT 60 SKIP_RETURN_CODE 77 LABELS integration)
