# Trainers in several real processes. Each script gets the folder of programs as its first argument.
if(NOT LIBZERO_WITH_GLOO OR NOT LIBZERO_BUILD_CLI OR NOT LIBZERO_BUILD_EXAMPLES)
  message(STATUS "integration: the tests with several processes need Gloo, the command line and the examples")
  return()
endif()

add_executable(toy_trainer toy_trainer.cpp)
target_link_libraries(toy_trainer PRIVATE zero::zero)
zero_use_torch_pch(toy_trainer)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(script equal_bits dead_rank minigpt mlp observe offload)
  zero_integration_test(integration.${script} TIMEOUT 300
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script}_test.py ${PROJECT_BINARY_DIR}/bin)
  set_tests_properties(integration.${script} PROPERTIES PROCESSORS 2)
endforeach()

if(LIBZERO_WITH_HDF5)
  foreach(script elastic resume restart leaving resnet_cifar10)
    zero_integration_test(integration.${script} TIMEOUT 400
      COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script}_test.py ${PROJECT_BINARY_DIR}/bin)
    set_tests_properties(integration.${script} PROPERTIES PROCESSORS 2)
  endforeach()
  # Minutes long: only `ctest -C soak` knows it (scripts/test --soak).
  zero_scaled_timeout(timeout 7200)
  add_test(NAME soak.elastic_processes
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/elastic_test.py ${PROJECT_BINARY_DIR}/bin
      Elastic.test_the_same_bytes_on_every_world_stage_precision_bucket_and_backend
    CONFIGURATIONS soak)
  set_tests_properties(soak.elastic_processes PROPERTIES
    LABELS soak TIMEOUT ${timeout} RUN_SERIAL ON
    ENVIRONMENT "ZERO_TEST_SLOWDOWN=${ZERO_TEST_SLOWDOWN};ZERO_ELASTIC_ROWS=all")
else()
  message(STATUS "integration: the tests of checkpoints need HDF5")
endif()

if(NOT LIBZERO_SANITIZE)
  zero_integration_test(integration.estimate TIMEOUT 300
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/estimate_test.py ${PROJECT_BINARY_DIR}/bin)
  set_tests_properties(integration.estimate PROPERTIES PROCESSORS 2)
else()
  message(STATUS "integration: estimates are not compared with real memory under a sanitizer, which takes more of it")
endif()

if(NOT LIBZERO_SANITIZE)  # 1600 backward calls and five validations would take a sanitizer half an hour
  add_test(NAME integration.full_run
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/full_run_test.py ${PROJECT_BINARY_DIR}/bin)
  set_tests_properties(integration.full_run PROPERTIES PROCESSORS 2 TIMEOUT 600 LABELS integration)
else()
  message(STATUS "integration: the full training run is left out under a sanitizer: it would take too long")
endif()
