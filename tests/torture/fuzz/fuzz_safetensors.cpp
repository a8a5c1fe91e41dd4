#include "bytes.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/safetensors.h"
#include "checkpoint/tools/safetensors_header.h"
#include "fuzz_targets.h"

namespace zero::checkpoint::torture {
namespace {

std::vector<std::byte> as_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A header of that text before so many bytes of data.
std::vector<std::byte> file_of(std::string_view header, std::size_t data_bytes) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < 8; ++i)
    bytes.push_back(static_cast<std::byte>(header.size() >> 8 * i));
  const std::vector<std::byte> text = as_bytes(header);
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.resize(bytes.size() + data_bytes, std::byte{7});
  return bytes;
}

void read_all_of(const SafetensorsFile& file) {
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.end < entry.begin || entry.end - entry.begin > (1u << 20))
      broken("a tensor passes its file");
    std::vector<std::byte> bytes(entry.end - entry.begin);
    file.read(entry, 0, bytes);
    if (file.find(entry.name) == nullptr) broken("a tensor of the list cannot be found");
  }
}

void read_weights(testing::MemoryFileSystem& files, const std::string& path) {
  try {
    const SafetensorsWeights weights(files, path);
    for (const std::string& name : weights.names()) {
      const auto found = weights.find(name);
      if (found.file == nullptr || found.entry == nullptr)
        broken("a name of the list has no tensor");
      read_all_of(*found.file);
    }
    weights.aliases();
  } catch (const FormatError&) {
  } catch (const FileError&) {  // A part that is not there.
  }
}

/// What was read and is written again says the same.
void write_again(std::string_view header, std::size_t data_bytes) {
  try {
    const SafetensorsHeader read = parse_safetensors_header(header, data_bytes, "file");
    const std::string text = safetensors_header_text(read.entries, read.metadata);
    const SafetensorsHeader again = parse_safetensors_header(text, data_bytes, "again");
    if (again.metadata != read.metadata || again.entries.size() != read.entries.size()) {
      broken("a header is not what it was when written again");
    }
  } catch (const FormatError&) {
  }
}

}  // namespace

void fuzz_safetensors(Input input) {
  Bytes choices(input);
  testing::MemoryFileSystem files;
  const std::size_t mode = choices.below(3);
  const std::size_t data_bytes = choices.below(512);
  const Input rest = choices.rest();
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), rest.size());
  if (mode == 0) {
    files.set_content("/a.safetensors", as_bytes(text));
    return read_weights(files, "/a.safetensors");
  }
  const std::size_t split = std::min(text.find('\xff'), text.size());
  files.set_content("/a.safetensors", file_of(text.substr(0, split), data_bytes));
  if (mode == 1) write_again(text, data_bytes);
  if (mode == 1) return read_weights(files, "/a.safetensors");
  files.set_content("/a.safetensors.index.json",
                    as_bytes(text.substr(std::min(split + 1, text.size()))));
  read_weights(files, "/a.safetensors.index.json");
}

}  // namespace zero::checkpoint::torture
