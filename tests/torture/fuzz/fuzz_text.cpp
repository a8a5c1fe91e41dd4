// Readers of text: names, manifests, receipts.

#include <nlohmann/json.hpp>

#include "bytes.h"
#include "checkpoint/names.h"
#include "checkpoint/receipt.h"
#include "fuzz_targets.h"
#include "libzero/base/error.h"

namespace zero::checkpoint::torture {
namespace {

std::string_view as_text(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// The same JSON as the format spells it, if it is JSON; deep nesting is left to the raw mode.
std::string canonical(std::string_view text) {
  const auto depth =
      std::count_if(text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; });
  if (depth > 500) return std::string(text);
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::string(text);
  json.erase("xxh3_of_above");
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// `body` is an object without its last member; "\n}" at its end is replaced.
std::string with_hash(std::string body) {
  if (body.ends_with("\n}")) body.resize(body.size() - 2);
  body += ",\n";
  return body + " \"xxh3_of_above\": \"" + to_text(hash_of(body)) + "\"\n}\n";
}

void read_manifest_text(std::string_view text) {
  Manifest manifest;
  try {
    manifest = parse_manifest(text);
  } catch (const FormatError&) {
    return;
  }
  if (parse_manifest(to_text(manifest)) != manifest)
    broken("a manifest is not what it was when written again");
  manifest.common();
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    if (manifest.shard(rank).rank != rank) broken("a shard has another rank");
  }
  manifest.bytes();
}

void read_receipt(std::string_view bytes) {
  Receipt receipt;
  try {
    receipt = parse_receipt(bytes);
  } catch (const FormatError&) {
    return;
  }
  const Receipt again = parse_receipt(to_bytes(receipt));
  if (again.file != receipt.file || again.blobs != receipt.blobs ||
      again.attempt != receipt.attempt) {
    broken("a receipt is not what it was when written again");
  }
}

/// "12 " in front of each part: attempt, the file's record, keys and blobs.
std::string with_sizes(Bytes& bytes) {
  std::string body;
  std::string_view rest = as_text(bytes.rest());
  for (bool is_record = false; !rest.empty(); is_record = true) {
    const std::size_t end = std::min(rest.find('\xff'), rest.size());
    std::string part(rest.substr(0, end));
    if (is_record && part.starts_with('{')) part = canonical(part) + "\n";
    body += std::to_string(part.size()) + " " + part;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return body;
}

}  // namespace

void fuzz_names(Input input) {
  const std::string_view text = as_text(input);
  if (const auto step = parse_step_name(text); step && step_name(*step) != text) {
    broken("a step's name has two spellings");
  }
  if (const auto type = parse_element_type(text); type && to_text(*type) != text) {
    broken("a type has two spellings");
  }
  Hash hash;
  if (parse_hash(text, hash) && to_text(hash) != text) broken("a hash has two spellings");
  const bool is_ours = is_leftover_name(text) || is_checkpoint_file_name(text);
  if (is_ours && text.find('/') != std::string_view::npos) broken("a name is a path");
  is_key(text);
  is_state_name(text);
  is_parameter_name(text);
}

void fuzz_manifest(Input input) {
  Bytes bytes(input);
  const std::uint8_t mode = bytes.byte();
  const std::string_view text = as_text(bytes.rest());
  if (mode % 3 == 0) return read_manifest_text(text);
  read_manifest_text(with_hash(mode % 3 == 1 ? std::string(text) : canonical(text)));
}

void fuzz_receipt(Input input) {
  Bytes bytes(input);
  const std::uint8_t mode = bytes.byte();
  if (mode % 3 == 0) return read_receipt(as_text(bytes.rest()));
  const std::string body = mode % 3 == 1 ? std::string(as_text(bytes.rest())) : with_sizes(bytes);
  read_receipt(to_text(hash_of(body)) + body);
}

}  // namespace zero::checkpoint::torture
