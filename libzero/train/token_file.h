#pragma once

/// Windows of a file of tokens, for language models.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "libzero/train/data_file.h"

namespace zero {

struct TokenFileOptions {
  std::int64_t context = 0;       ///< Tokens of a window less one: what a model is given.
  int bytes_per_token = 2;        ///< 1, 2 or 4; unsigned, least significant byte first.
  std::int64_t header_bytes = 0;  ///< Before the first token.
  std::int64_t vocabulary = 0;    ///< Tokens must be below; 0: any.
};

/// A file of tokens and nothing else, cut into windows of context + 1 tokens, one every `context`
/// tokens: the last token of a window is the first of the next. What is left at the end is no
/// window. A text file is one of 1 byte a token. Thread-safe.
class TokenFile {
 public:
  /// Throws ContractError for options out of range, IoError if the file cannot be read,
  /// FormatError, naming file and offset, if it ends within a token or holds no window.
  TokenFile(const std::string& path, const TokenFileOptions& options);

  /// Windows.
  std::int64_t count() const noexcept { return count_; }

  /// int64 [windows.size(), context + 1], read from the disk. Throws ContractError for an index
  /// outside [0, count()), FormatError naming file and offset for a token beyond the vocabulary or
  /// a file that has become shorter, IoError.
  at::Tensor windows(std::span<const std::int64_t> windows) const;

 private:
  void read_window(std::int64_t window, std::int64_t* tokens) const;

  TokenFileOptions options_;
  DataFile file_;
  std::int64_t count_ = 0;
};

}  // namespace zero
