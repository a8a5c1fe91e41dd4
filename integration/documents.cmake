# Tests of the text: documents whose commands run, a repository that speaks of the product alone, includes that follow
# the arrows between folders.
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

get_target_property(torch_includes zero::torch INTERFACE_INCLUDE_DIRECTORIES)
add_test(NAME documents.structure
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/structure_test.py
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER} ${torch_includes})
set_tests_properties(documents.structure PROPERTIES TIMEOUT 120 LABELS integration)
