#pragma once

/// What an export consists of, and its elements in the dtype that it shall have.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store.h"
#include "checkpoint/tools/export.h"
#include "checkpoint/tools/meter.h"

namespace zero::checkpoint {

struct ExportTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;  ///< As exported.
  std::int32_t parameter = 0;
  std::string state;  ///< That it is read from; empty without elements.
  std::int64_t numel = 0;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(numel * size_of(dtype)); }
};

struct ExportContent {
  std::vector<ExportTensor> tensors;                         ///< In the model's order.
  std::vector<std::pair<std::string, std::string>> aliases;  ///< And the names of their owners.
  std::uint64_t bytes = 0;
  std::string weights;  ///< What metadata say of them; empty for masters.
};

/// `options.dtype` for floating parameters and buffers, otherwise each one's own. Throws
/// ContractError for a dtype that is not floating, FormatError for a parameter without `master` and
/// `value` (of averages: without `ema`, if it is trainable), or with a dtype that does not fit.
ExportContent plan_export(const Reader& reader, const ExportOptions& options);

/// Hands out elements a few MiB at a time.
class ExportStream {
 public:
  ExportStream(const Reader& reader, std::uint64_t total_bytes, const Progress& progress);

  /// Calls `sink` with all bytes of the tensor, in order. Throws FormatError, IoError, Cancelled,
  /// what the sink throws.
  void read(const ExportTensor& tensor,
            const std::function<void(std::span<const std::byte>)>& sink);

 private:
  const Reader& reader_;
  Meter meter_;
  std::vector<std::byte> stored_, converted_;
};

}  // namespace zero::checkpoint
