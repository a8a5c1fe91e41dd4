#include "libzero/train/token_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kLongestContext = std::int64_t{1} << 30;

TokenFileOptions checked(const TokenFileOptions& options) {
  ZERO_REQUIRE(options.context >= 1 && options.context <= kLongestContext,
               "TokenFile: context must lie in [1, 2^30]: " + std::to_string(options.context));
  const int width = options.bytes_per_token;
  ZERO_REQUIRE(width == 1 || width == 2 || width == 4,
               "TokenFile: bytes_per_token must be 1, 2 or 4: " + std::to_string(width));
  ZERO_REQUIRE(options.header_bytes >= 0, "TokenFile: header_bytes must not be negative: " +
                                              std::to_string(options.header_bytes));
  ZERO_REQUIRE(options.vocabulary >= 0,
               "TokenFile: vocabulary must not be negative: " + std::to_string(options.vocabulary));
  return options;
}

std::int64_t token_of(const std::byte* bytes, int width) {
  std::int64_t token = 0;
  for (int i = 0; i < width; ++i) token |= std::to_integer<std::int64_t>(bytes[i]) << (8 * i);
  return token;
}

}  // namespace

TokenFile::TokenFile(const std::string& path, const TokenFileOptions& options)
    : options_(checked(options)), file_(path) {
  const std::int64_t width = options_.bytes_per_token;
  const std::int64_t bytes = std::max<std::int64_t>(0, file_.size() - options_.header_bytes);
  if (bytes % width != 0) {
    throw FormatError("TokenFile: " +
                      file_.at(file_.size() - bytes % width, "the file ends within a token of " +
                                                                 std::to_string(width) + " bytes"));
  }
  count_ = std::max<std::int64_t>(0, (bytes / width - 1) / options_.context);
  if (count_ == 0) {
    throw FormatError("TokenFile: " +
                      file_.at(file_.size(), "the file ends before its first window; it holds " +
                                                 std::to_string(bytes / width) + " tokens, and " +
                                                 std::to_string(options_.context + 1) +
                                                 " are needed"));
  }
}

at::Tensor TokenFile::windows(std::span<const std::int64_t> windows) const {
  for (const std::int64_t window : windows) {
    ZERO_REQUIRE(window >= 0 && window < count_, "TokenFile: a window must lie in [0, " +
                                                     std::to_string(count_) +
                                                     "): " + std::to_string(window));
  }
  const auto rows = static_cast<std::int64_t>(windows.size());
  at::Tensor result = at::empty({rows, options_.context + 1}, at::kLong);
  auto* tokens = result.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t window : windows) {
    read_window(window, tokens);
    tokens += options_.context + 1;
  }
  return result;
}

void TokenFile::read_window(std::int64_t window, std::int64_t* tokens) const {
  const std::int64_t width = options_.bytes_per_token;
  const std::int64_t begin = options_.header_bytes + window * options_.context * width;
  std::vector<std::byte> bytes(static_cast<std::size_t>((options_.context + 1) * width));
  file_.read(begin, bytes);
  for (std::int64_t i = 0; i <= options_.context; ++i) {
    tokens[i] = token_of(bytes.data() + i * width, options_.bytes_per_token);
    if (options_.vocabulary > 0 && tokens[i] >= options_.vocabulary) {
      throw FormatError(
          "TokenFile: " +
          file_.at(begin + i * width, "token " + std::to_string(tokens[i]) +
                                          " lies beyond the vocabulary of " +
                                          std::to_string(options_.vocabulary) +
                                          "; is it another file, or bytes_per_token another?"));
    }
  }
}

}  // namespace zero
