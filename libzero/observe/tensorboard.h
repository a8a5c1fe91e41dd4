#pragma once

/// Scalars for TensorBoard: an event file of TFRecords with protocol buffers in them, written
/// without either library.

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace zero::observe {

struct Scalar {
  std::string_view tag;  ///< "loss/training": what stands before the slash groups charts.
  double value = 0;      ///< Stored in single precision, NaN and infinities too.
};

/// One event file in a folder. Not thread-safe.
class TensorBoard {
 public:
  /// Makes the folder if it is missing, and a file in it that no other run has. Throws IoError.
  explicit TensorBoard(const std::string& folder);

  /// Throws IoError. What is written can be seen by TensorBoard when it returns.
  void add(std::int64_t step, std::span<const Scalar> scalars);

  /// Of the file: FOLDER/events.out.tfevents...
  const std::string& path() const noexcept { return path_; }

 private:
  void write_event(std::string_view event);

  std::string path_;
  std::ofstream file_;
};

}  // namespace zero::observe
