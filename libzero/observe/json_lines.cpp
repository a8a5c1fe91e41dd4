#include "libzero/observe/json_lines.h"

#include <filesystem>
#include <system_error>

#include "libzero/base/error.h"

namespace zero::observe {
namespace {

/// Bytes of the file up to the end of its last whole line.
std::uintmax_t whole_lines(const std::string& path, std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  for (std::uintmax_t end = size; end > 0; --end) {  // a line is short: so is the way
    file.seekg(static_cast<std::streamoff>(end - 1));
    if (file.get() == '\n') return end;
  }
  return 0;
}

/// A run that was killed may have left half a line.
void cut_unfinished_line(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return;
  const std::uintmax_t whole = whole_lines(path, size);
  if (whole < size) std::filesystem::resize_file(path, whole, error);
  if (error) throw IoError("half a line cannot be cut off: " + error.message() + ": " + path);
}

}  // namespace

JsonLines::JsonLines(const std::string& path, bool append) : path_(path) {
  if (append) cut_unfinished_line(path_);
  file_.open(path_, append ? std::ios::app : std::ios::trunc);
  if (!file_) throw IoError("the log cannot be written, check its folder: " + path_);
}

void JsonLines::write(const JsonObject& line) {
  file_ << line.text() << '\n' << std::flush;
  if (!file_) throw IoError("writing the log failed, is the disk full?: " + path_);
}

void add_to(JsonObject& line, const StepResult& result) {
  line.add("loss", result.loss)
      .add("applied", result.applied)
      .add("reason", result.reason)
      .add("grad_norm", result.grad_norm)
      .add("clip_factor", result.clip_factor)
      .add("loss_scale", result.loss_scale)
      .add("comm_s", result.comm_seconds)
      .add("host_bytes", result.host_bytes);
  if (result.device_bytes > 0) line.add("device_bytes", result.device_bytes);
}

void add_to(JsonObject& line, const StepTimes& times) {
  line.add("forward_s", times.forward)
      .add("backward_s", times.backward)
      .add("wait_s", times.wait)
      .add("update_s", times.update)
      .add("other_s", times.other)
      .add("reduce_s", times.reduce)
      .add("gather_s", times.gather);
}

}  // namespace zero::observe
