#include "checkpoint/receipt.h"

#include <charconv>

#include "checkpoint/names.h"
#include "checkpoint/training_state.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

[[noreturn]] void refuse() {
  throw FormatError("a receipt is damaged, or none: pass on what put() returned, byte by byte");
}

void append(std::string& out, std::string_view part) {
  out.append(std::to_string(part.size())).append(1, ' ').append(part);
}

std::string_view take(std::string_view& in) {
  std::size_t size = 0;
  const auto result = std::from_chars(in.data(), in.data() + in.size(), size);
  const auto digits = static_cast<std::size_t>(result.ptr - in.data());
  if (result.ec != std::errc() || digits >= in.size() || in[digits] != ' ') refuse();
  in.remove_prefix(digits + 1);
  if (size > in.size()) refuse();
  const std::string_view part = in.substr(0, size);
  in.remove_prefix(size);
  return part;
}

}  // namespace

std::string to_bytes(const Receipt& receipt) {
  std::string body;
  append(body, receipt.attempt);
  append(body, to_text(receipt.file));
  for (const auto& [key, blob] : receipt.blobs) {
    append(body, key);
    append(body, {reinterpret_cast<const char*>(blob.data()), blob.size()});
  }
  return to_text(hash_of(body)) + body;
}

Receipt parse_receipt(std::string_view bytes) {
  Hash hash;
  if (bytes.size() < 32 || !parse_hash(bytes.substr(0, 32), hash)) refuse();
  bytes.remove_prefix(32);
  if (hash_of(bytes) != hash) refuse();
  Receipt receipt;
  receipt.attempt = std::string(take(bytes));
  receipt.file = parse_file_record(take(bytes));
  while (!bytes.empty()) {
    const std::string key(take(bytes));
    const auto blob = std::as_bytes(std::span(take(bytes)));
    if (!is_key(key)) refuse();
    receipt.blobs[key] = Blob(blob.begin(), blob.end());
  }
  return receipt;
}

}  // namespace zero::checkpoint
