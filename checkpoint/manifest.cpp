#include "checkpoint/manifest.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/names.h"
#include "checkpoint/training_state.h"
#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

using Json =
    nlohmann::json;  // Objects are sorted maps: the canonical order, and no quadratic insertion.

constexpr std::string_view kTailBegin = "\n \"xxh3_of_above\": \"";
constexpr std::string_view kTailEnd = "\"\n}\n";
constexpr std::size_t kTailSize = kTailBegin.size() + 32 + kTailEnd.size();
constexpr std::size_t kMaxValues = std::size_t{1} << 22;
constexpr std::size_t kMaxDatasets = 65536;
constexpr int kMaxDepth = 8;

[[noreturn]] void refuse(const std::string& what, std::string_view where) {
  throw FormatError("the manifest is damaged or foreign, use another checkpoint: " + what +
                    (where.empty() ? "" : ": " + std::string(where)));
}

const Json& member(const Json& object, const char* key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) refuse("member '" + std::string(key) + "' is missing", where);
  return *found;
}

std::int64_t integer(const Json& object, const char* key, std::int64_t low, std::int64_t high,
                     std::string_view where) {
  const Json& value = member(object, key, where);
  const bool too_large = value.is_number_unsigned() &&
                         value.get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || too_large) {
    refuse("member '" + std::string(key) + "' is no integer of 64 bits", where);
  }
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) {
    refuse("member '" + std::string(key) + "' is out of range: " + std::to_string(number), where);
  }
  return number;
}

std::string text(const Json& object, const char* key, std::size_t longest, std::string_view where) {
  const Json& value = member(object, key, where);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > longest) {
    refuse("member '" + std::string(key) + "' is no text, or too long", where);
  }
  return value.get<std::string>();
}

Hash hash(const Json& object, std::string_view where) {
  Hash result;
  if (!parse_hash(text(object, "xxh3", 32, where), result)) refuse("a hash is malformed", where);
  return result;
}

const Json& array(const Json& object, const char* key, std::size_t longest,
                  std::string_view where) {
  const Json& value = member(object, key, where);
  if (!value.is_array() || value.size() > longest) {
    refuse("member '" + std::string(key) + "' is no array, or too long", where);
  }
  return value;
}

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

DatasetRecord dataset_from(const Json& json, std::string_view file) {
  if (!json.is_object()) refuse("a dataset is no object", file);
  DatasetRecord record;
  record.name = text(json, "name", 512, file);
  const std::string where = std::string(file) + record.name;
  const bool printable = std::all_of(record.name.begin(), record.name.end(),
                                     [](char c) { return c > 0x20 && c < 0x7f; });
  if (!record.name.starts_with('/') || !printable) refuse("a dataset's name is malformed", file);
  const auto type = parse_element_type(text(json, "type", 32, where));
  if (!type) refuse("a type is unknown", where);
  record.type = *type;
  for (const Json& dimension : array(json, "shape", kMaxDimensions, where)) {
    if (!dimension.is_number_unsigned()) refuse("a dimension is no number", where);
    record.shape.push_back(
        static_cast<std::int64_t>(std::min<std::uint64_t>(dimension.get<std::uint64_t>(), kMax)));
  }
  record.offset = static_cast<std::uint64_t>(integer(json, "offset", 0, kMax, where));
  record.bytes = static_cast<std::uint64_t>(integer(json, "bytes", 0, kMax, where));
  const std::int64_t count = checked_product(record.shape);
  if (count < 0 || count > kMax / record.type.width ||
      static_cast<std::uint64_t>(count * record.type.width) != record.bytes) {
    refuse("shape, type and bytes do not agree", where);
  }
  record.hash = hash(json, where);
  return record;
}

void check_places(const FileRecord& file) {
  std::uint64_t end = 0;
  std::set<std::string_view> names;
  for (const DatasetRecord& dataset : file.datasets) {
    const std::string where = file.name + dataset.name;
    if (!names.insert(dataset.name).second) refuse("a dataset is listed twice", where);
    if (dataset.bytes == 0 && dataset.offset != 0) refuse("an empty dataset has an offset", where);
    if (dataset.offset < end) refuse("datasets overlap or are not sorted by offset", where);
    if (dataset.offset > file.size || dataset.bytes > file.size - dataset.offset) {
      refuse("a dataset passes the end of its file", where);
    }
    end = dataset.offset + dataset.bytes;
  }
}

FileRecord file_from(const Json& json) {
  if (!json.is_object()) refuse("a file is no object", "");
  FileRecord record;
  record.name = text(json, "name", 64, "");
  if (!is_checkpoint_file_name(record.name) || record.name == kManifestName) {
    refuse("a file's name is not one of a checkpoint", "");
  }
  record.rank = static_cast<int>(integer(json, "rank", -1, kMaxWorldSize - 1, record.name));
  record.size = static_cast<std::uint64_t>(integer(json, "size", 0, kMax, record.name));
  record.hash = hash(json, record.name);
  if (json.contains("hdf5")) record.hdf5_version = text(json, "hdf5", 32, record.name);
  for (const Json& dataset : array(json, "datasets", kMaxDatasets, record.name)) {
    record.datasets.push_back(dataset_from(dataset, record.name));
  }
  check_places(record);
  return record;
}

Json to_json(const FileRecord& file) {
  Json datasets = Json::array();
  for (const DatasetRecord& dataset : file.datasets) {
    datasets.push_back({{"bytes", dataset.bytes},
                        {"name", dataset.name},
                        {"offset", dataset.offset},
                        {"shape", dataset.shape},
                        {"type", to_text(dataset.type)},
                        {"xxh3", to_text(dataset.hash)}});
  }
  Json json = {{"datasets", std::move(datasets)},
               {"name", file.name},
               {"rank", file.rank},
               {"size", file.size},
               {"xxh3", to_text(file.hash)}};
  if (!file.hdf5_version.empty()) json["hdf5"] = file.hdf5_version;
  return json;
}

void check_files(const Manifest& manifest) {
  const auto& files = manifest.files;
  const auto expected = static_cast<std::size_t>(manifest.world_size) + 1;
  if (files.size() < expected) refuse("files are missing from the list", "");
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!names.insert(files[i].name).second) refuse("a file is listed twice", files[i].name);
    const bool is_shard = i > 0 && i < expected;
    const int rank = is_shard ? static_cast<int>(i) - 1 : -1;
    const bool named = i == 0     ? files[i].name == kCommonName
                       : is_shard ? files[i].name == shard_name(rank, manifest.world_size)
                                  : files[i].name == kViewName;
    if (!named || files[i].rank != rank) {
      refuse("a file is out of order, or has another rank than its name says", files[i].name);
    }
  }
}

/// Parses, and refuses depth, number of values, duplicate keys and every other spelling than the
/// canonical one.
Json parse_canonical(std::string_view body) {
  std::size_t values = 0;
  const Json::parser_callback_t count = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) refuse("it is nested too deeply", "");
    if (++values > kMaxValues) refuse("it has too many values", "");
    return true;
  };
  Json json;
  try {
    json = Json::parse(body, count);
    if (!json.is_object()) refuse("it is no object", "");
    if (json.dump(1) + "\n" != body) refuse("it is not in canonical form", "");
  } catch (const Json::exception& error) {
    refuse("it is no JSON", error.what());
  }
  return json;
}

std::string_view checked_body(std::string_view text_with_hash) {
  if (text_with_hash.size() > kMaxManifestBytes) refuse("it is larger than 64 MiB", "");
  if (text_with_hash.size() < kTailSize) refuse("it is too short", "");
  const std::size_t split = text_with_hash.size() - kTailSize;
  const std::string_view tail = text_with_hash.substr(split);
  Hash claimed;
  if (!tail.starts_with(kTailBegin) || !tail.ends_with(kTailEnd) ||
      !parse_hash(tail.substr(kTailBegin.size(), 32), claimed)) {
    refuse("its last lines do not hold its hash", "");
  }
  const std::string_view above = text_with_hash.substr(0, split + 1);
  if (hash_of(above) != claimed) refuse("its hash does not agree with its text", "");
  return above;
}

Manifest manifest_from(const Json& json) {
  if (text(json, "format", 64, "") != "libzero-manifest") refuse("'format' is another one", "");
  const Json& version = array(json, "version", 2, "");
  if (version.size() != 2 || !version[0].is_number_unsigned() || !version[1].is_number_unsigned()) {
    refuse("'version' is malformed", "");
  }
  if (version[0].get<std::uint64_t>() != kFormatMajor) {
    throw FormatError(
        "the checkpoint has a version that this libzero does not read, use the one that wrote it: "
        "major version " +
        version[0].dump() + ", known: " + std::to_string(kFormatMajor));
  }
  Manifest manifest;
  manifest.attempt = text(json, "attempt", 16, "");
  if (!is_attempt(manifest.attempt)) refuse("'attempt' is malformed", "");
  manifest.created = text(json, "created", 64, "");
  manifest.run_id = text(json, "run_id", 64, "");
  if (!is_key(manifest.run_id)) refuse("'run_id' is malformed", "");
  manifest.writer = text(json, "writer", 256, "");
  manifest.step = integer(json, "step", 0, kMaxStep, "");
  manifest.world_size = static_cast<int>(integer(json, "world_size", 1, kMaxWorldSize, ""));
  manifest.stage = static_cast<int>(integer(json, "stage", 0, 2, ""));
  manifest.parameters = integer(json, "parameters", 1, kMaxParameters, "");
  manifest.groups = integer(json, "groups", 0, kMaxGroups, "");
  manifest.block_bytes = static_cast<std::uint64_t>(integer(json, "block_bytes", 64, 1 << 30, ""));
  if (!std::has_single_bit(manifest.block_bytes)) refuse("'block_bytes' is no power of two", "");
  for (const Json& file : array(json, "files", kMaxWorldSize + 2, "")) {
    manifest.files.push_back(file_from(file));
  }
  check_files(manifest);
  return manifest;
}

}  // namespace

std::int64_t checked_product(const std::vector<std::int64_t>& shape) noexcept {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < 0; })) return -1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension > kLimit / product) return -1;
    product *= dimension;
  }
  return product;
}

const DatasetRecord* FileRecord::find(std::string_view dataset) const noexcept {
  const auto found = std::find_if(datasets.begin(), datasets.end(),
                                  [&](const DatasetRecord& d) { return d.name == dataset; });
  return found == datasets.end() ? nullptr : &*found;
}

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = 0;
  for (const FileRecord& file : files) sum += file.size;
  return sum;
}

std::string to_text(const Manifest& manifest) {
  Json json = {{"attempt", manifest.attempt},
               {"block_bytes", manifest.block_bytes},
               {"created", manifest.created},
               {"files", Json::array()},
               {"format", "libzero-manifest"},
               {"groups", manifest.groups},
               {"parameters", manifest.parameters},
               {"run_id", manifest.run_id},
               {"stage", manifest.stage},
               {"step", manifest.step},
               {"version", {kFormatMajor, kFormatMinor}},
               {"world_size", manifest.world_size},
               {"writer", manifest.writer}};
  for (const FileRecord& file : manifest.files) json["files"].push_back(to_json(file));
  std::string body = json.dump(1);
  body.resize(body.size() - 2);  // "\n}"
  body += ",\n";
  const std::string digits = to_text(hash_of(body));
  body.pop_back();  // kTailBegin starts with that newline.
  return body.append(kTailBegin).append(digits).append(kTailEnd);
}

Manifest parse_manifest(std::string_view text_with_hash) {
  checked_body(text_with_hash);
  return manifest_from(parse_canonical(text_with_hash));
}

std::string to_text(const FileRecord& record) {
  return to_json(record).dump(1) + "\n";
}

FileRecord parse_file_record(std::string_view text_of_record) {
  return file_from(parse_canonical(text_of_record));
}

}  // namespace zero::checkpoint
