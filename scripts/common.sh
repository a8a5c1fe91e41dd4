# Sourced by the scripts beside it: strict mode, the repository's root as working folder, and what several of them need.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly torch_version=2.11.0
readonly cache_dir="${XDG_CACHE_HOME:-$HOME/.cache}/libzero"
readonly torch_venv="$cache_dir/venv-torch-$torch_version"
readonly torch_unit_kib=2621440  # a translation unit on torch/torch.h needs up to 2.5 GiB

die() {
  printf '%s: %s\n' "scripts/${0##*/}" "$*" >&2
  exit 1
}

# Prints the comment at the head of the script that was called.
print_help() {
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
}

# The folder of LibTorch: ZERO_TORCH_ROOT, or the wheel that scripts/setup installs.
torch_root() {
  local roots=("$torch_venv"/lib/python3*/site-packages/torch)
  printf '%s\n' "${ZERO_TORCH_ROOT:-${roots[0]}}"
}

# Memory that a build may use, in KiB: what is free, or less where a control group says so.
available_kib() {
  local free limit used
  free=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [[ $limit =~ ^[0-9]+$ ]]; then
    used=$(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0)
    limit=$(((limit - used) / 1024))
    ((limit < free)) && free=$limit
  fi
  printf '%s\n' "$free"
}

# How many compilers to run at once: CMAKE_BUILD_PARALLEL_LEVEL, or as many as there are cores and memory for.
build_jobs() {
  local cores jobs
  cores=$(nproc)
  jobs=$(($(available_kib) / torch_unit_kib))
  ((jobs > cores)) && jobs=$cores
  ((jobs < 1)) && jobs=1
  printf '%s\n' "${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}"
}

is_preset() {
  cmake --list-presets=build | grep -qF "\"$1\""
}
