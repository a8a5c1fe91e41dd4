# Finds LibTorch (the PyPI wheel or an unpacked archive) without find_package(Torch), which would pull CUDA in.
#
# Looks, in this order, for a folder that holds include/ATen/core/Tensor.h:
#   -DZERO_TORCH_ROOT, $ENV{ZERO_TORCH_ROOT}, CMAKE_PREFIX_PATH (the torch folder itself or a virtual environment),
#   $ENV{VIRTUAL_ENV}, ZERO_TORCH_DEFAULT_ROOT (the one that a build folder used as package was built with), where
#   scripts/setup installs the wheel, the Python that CMake finds.
# Defines zero::torch (libtorch_cpu) and zero::c10, ZeroTorch_VERSION and ZeroTorch_ROOT.

set(_candidates ${ZERO_TORCH_ROOT} $ENV{ZERO_TORCH_ROOT})
set(_cache "$ENV{XDG_CACHE_HOME}")
if(NOT _cache)
  set(_cache "$ENV{HOME}/.cache")
endif()
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH ITEMS $ENV{VIRTUAL_ENV} "${ZERO_TORCH_DEFAULT_ROOT}"
    "${_cache}/libzero/venv-torch-2.11.0")
  file(GLOB _wheels "${_prefix}/lib/python3*/site-packages/torch")
  list(APPEND _candidates "${_prefix}" ${_wheels})
endforeach()
set(ZeroTorch_ROOT "")
foreach(_candidate IN LISTS _candidates)
  if(EXISTS "${_candidate}/include/ATen/core/Tensor.h")
    set(ZeroTorch_ROOT "${_candidate}")
    break()
  endif()
endforeach()
if(NOT ZeroTorch_ROOT)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_FOUND)
    # find_spec imports nothing: `import torch` needs Python packages that a C++ build does not.
    execute_process(
      COMMAND "${Python3_EXECUTABLE}" -c
        "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _candidate OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(_candidate AND EXISTS "${_candidate}/include/ATen/core/Tensor.h")
      set(ZeroTorch_ROOT "${_candidate}")
    endif()
  endif()
endif()

set(ZeroTorch_VERSION "")
if(ZeroTorch_ROOT)
  if(EXISTS "${ZeroTorch_ROOT}/version.py")
    file(STRINGS "${ZeroTorch_ROOT}/version.py" _line REGEX "^__version__")
  elseif(EXISTS "${ZeroTorch_ROOT}/build-version")
    file(STRINGS "${ZeroTorch_ROOT}/build-version" _line)
  endif()
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" ZeroTorch_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZeroTorch
  REQUIRED_VARS ZeroTorch_ROOT
  VERSION_VAR ZeroTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup, or pass -DZERO_TORCH_ROOT=<the folder that holds include/ATen>")

if(ZeroTorch_FOUND AND NOT TARGET zero::torch)
  set(_includes "${ZeroTorch_ROOT}/include" "${ZeroTorch_ROOT}/include/torch/csrc/api/include")
  add_library(zero::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(zero::c10 PROPERTIES
    IMPORTED_LOCATION "${ZeroTorch_ROOT}/lib/libc10.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_includes}")
  add_library(zero::torch SHARED IMPORTED GLOBAL)
  set_target_properties(zero::torch PROPERTIES
    IMPORTED_LOCATION "${ZeroTorch_ROOT}/lib/libtorch_cpu.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_includes}"
    INTERFACE_LINK_LIBRARIES zero::c10)
endif()
