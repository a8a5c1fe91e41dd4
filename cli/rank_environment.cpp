#include "cli/rank_environment.h"

#include <unistd.h>

#include <string_view>

namespace zero::cli {
namespace {

// LibTorch allocates every gradient and temporary anew. Above its thresholds the C library maps
// such blocks and gives them back at once, and the kernel clears and faults them in again, 4 KiB at
// a time.
constexpr const char* kMallocThreshold = "1073741824";
// An aligned block leaves a splinter in front of it. The threads' caches of small blocks keep
// splinters from being joined with what lies beside them, so that the place of a freed gradient
// does not fit the next one, and the heap grows by one gradient after the other.
constexpr const char* kMallocTunables = "glibc.malloc.tcache_count=0";

}  // namespace

Variables rank_environment(Variables base, const RunSettings& settings, const TryIdentity& identity,
                           int rank) {
  Variables variables = std::move(base);
  const std::string size = std::to_string(identity.ranks);
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = size;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(identity.master_port);
  variables["TORCHELASTIC_RUN_ID"] = identity.run_id;
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(identity.restart_count);
  variables["ZERO_STORE"] = "127.0.0.1:" + std::to_string(identity.store_port);
  variables["ZERO_SECRET"] = identity.secret;
  variables["OMP_NUM_THREADS"] = variables["MKL_NUM_THREADS"] = std::to_string(settings.threads);
  if (settings.backend) variables["ZERO_BACKEND"] = *settings.backend;
  if (settings.timeout_seconds) {
    variables["ZERO_TIMEOUT"] = std::to_string(*settings.timeout_seconds);
  }
  variables.erase("ZERO_RUN_TERMINAL");
  if (identity.terminal) variables["ZERO_RUN_TERMINAL"] = "1";
  variables.emplace("MALLOC_MMAP_THRESHOLD_", kMallocThreshold);
  variables.emplace("MALLOC_TRIM_THRESHOLD_", kMallocThreshold);
  variables.emplace("GLIBC_TUNABLES", kMallocTunables);
  return variables;
}

Variables current_environment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != text.npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace zero::cli
