# LIBZERO_WITH_CUDA: the compiler for .cu files. No GPU is needed to build.
if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "nvcc not found: install the CUDA toolkit, set CMAKE_CUDA_COMPILER, or build without LIBZERO_WITH_CUDA")
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # Code for Ampere and Hopper; what is newer compiles the latter's PTX when it starts.
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90")
endif()
enable_language(CUDA)
# CMake 3.25 knows nvcc's standards up to 17 only.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
