# One precompiled torch/torch.h for everything that includes it: examples and the tests of the optimizer.
#
#   zero_use_torch_pch(<target>)   the target links zero::torch and starts each source from the precompiled header
#
# The header is compiled only when a target that uses it is built. All users share its flags (CompileOptions.cmake), so
# a target that needs other ones, a -D that LibTorch's headers read for instance, must include torch/torch.h itself.

function(_zero_add_torch_pch)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/torch_pch.cpp
    CONTENT "// Owner of the precompiled header; it has no code of its own.\n")
  add_library(zero_torch_pch OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/torch_pch.cpp)
  target_link_libraries(zero_torch_pch PRIVATE zero::torch)
  target_precompile_headers(zero_torch_pch PRIVATE <torch/torch.h>)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Templates that the header itself uses are instantiated once, here, instead of in every user.
    target_compile_options(zero_torch_pch PRIVATE -fpch-instantiate-templates)
  endif()
endfunction()

function(zero_use_torch_pch target)
  if(NOT TARGET zero_torch_pch)
    _zero_add_torch_pch()
  endif()
  target_link_libraries(${target} PRIVATE zero::torch)
  target_precompile_headers(${target} REUSE_FROM zero_torch_pch)
endfunction()
