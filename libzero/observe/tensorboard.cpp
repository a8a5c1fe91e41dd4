#include "libzero/observe/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "libzero/base/error.h"
#include "libzero/observe/crc32c.h"

namespace zero::observe {
namespace {

// Fields of the messages Event, Summary and Summary.Value (tensorflow/core/util/event.proto).
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr int kValue = 1;
constexpr int kTag = 1, kSimpleValue = 2;

template <typename Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xff);
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<std::uint64_t>(field << 3 | static_cast<int>(wire)));
}

void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_key(out, field, Wire::kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event_now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  append_key(event, kWallTime, Wire::kFixed64);
  append_little_endian(event,
                       std::bit_cast<std::uint64_t>(std::chrono::duration<double>(time).count()));
  return event;
}

std::string value_message(const Scalar& scalar) {
  std::string value;
  append_bytes(value, kTag, scalar.tag);
  append_key(value, kSimpleValue, Wire::kFixed32);
  append_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
  return value;
}

/// TensorBoard finds files by "tfevents", and orders those of one folder by name.
std::string new_path(const std::string& folder) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  const std::string name = folder + "/events.out.tfevents." + std::to_string(seconds) +
                           ".libzero." + std::to_string(::getpid());
  std::string path = name;
  for (int i = 1; std::filesystem::exists(path); ++i) path = name + "." + std::to_string(i);
  return path;
}

}  // namespace

TensorBoard::TensorBoard(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("a folder cannot be made: " + error.message() + ": " + folder);
  path_ = new_path(folder);
  file_.open(path_, std::ios::binary);
  if (!file_) throw IoError("an event file cannot be made, check the folder: " + path_);
  std::string event = event_now();
  append_bytes(event, kFileVersion, "brain.Event:2");
  write_event(event);
}

void TensorBoard::add(std::int64_t step, std::span<const Scalar> scalars) {
  std::string event = event_now();
  append_key(event, kStep, Wire::kVarint);
  append_varint(event, static_cast<std::uint64_t>(step));
  std::string summary;
  for (const Scalar& scalar : scalars) append_bytes(summary, kValue, value_message(scalar));
  append_bytes(event, kSummary, summary);
  write_event(event);
}

/// A TFRecord: length, its CRC, data, its CRC.
void TensorBoard::write_event(std::string_view event) {
  std::string record;
  append_little_endian(record, static_cast<std::uint64_t>(event.size()));
  append_little_endian(record, masked_crc32c(record));
  record += event;
  append_little_endian(record, masked_crc32c(event));
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  if (!file_) throw IoError("writing an event file failed, is the disk full?: " + path_);
}

}  // namespace zero::observe
