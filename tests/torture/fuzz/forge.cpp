#include "forge.h"

#include "checkpoint/file_reader.h"
#include "checkpoint/file_writer.h"
#include "checkpoint/hdf5_store.h"
#include "sample.h"

namespace zero::checkpoint::torture {
namespace {

/// Of each kind of table at least one, but no more: every execution writes and parses all of it.
Sample small_sample() {
  Sample sample(5, 2);
  sample.common().groups = {{{"lr", 0.5}}, {{"lr", 0.25}}};
  sample.common().counters = {{"applied_steps", 5}};
  sample.common().blobs.erase("empty");
  for (int rank = 0; rank < sample.world_size(); ++rank) {
    sample.rank(rank).blobs.erase("sampler");
    std::erase_if(sample.rank(rank).states,
                  [](const StateView& view) { return view.name.starts_with("exp_avg"); });
  }
  return sample;
}

Forgery take_apart() {
  const auto files = std::make_shared<testing::MemoryFileSystem>();
  Hdf5StoreOptions options;
  options.block_bytes = 64;
  options.new_attempt = [] { return std::string(16, '0'); };
  save(*make_hdf5_store(files, "/store", options), small_sample());
  const std::string folder = "/store/step_000000000005";
  Forgery forgery;
  forgery.head = read_manifest(*files, folder);
  for (const FileRecord& record : forgery.head.files) {
    const auto bytes = files->content(join_path(folder, record.name));
    ForgedFile& file = forgery.files.emplace_back(ForgedFile{record.name, record.rank, {}});
    for (const DatasetRecord& dataset : record.datasets) {
      const auto content = std::span(bytes).subspan(dataset.offset, dataset.bytes);
      file.datasets.push_back(
          {dataset.name, dataset.type, dataset.shape, {content.begin(), content.end()}});
    }
  }
  forgery.head.files.clear();
  return forgery;
}

std::vector<std::byte> block_hashes(std::span<const std::byte> data, std::uint64_t block_bytes) {
  std::vector<std::byte> hashes;
  while (!data.empty()) {
    const auto block = data.first(std::min<std::size_t>(block_bytes, data.size()));
    const Hash hash = hash_of(block);
    hashes.insert(hashes.end(), hash.bytes.begin(), hash.bytes.end());
    data = data.subspan(block.size());
  }
  return hashes;
}

/// Blocks that stand beside data hold what they must, if they have the room for it.
void correct_blocks(ForgedFile& file, std::uint64_t block_bytes) {
  for (const ForgedDataset& data : file.datasets) {
    if (!data.name.ends_with("/data")) continue;
    for (ForgedDataset& blocks : file.datasets) {
      if (blocks.name != blocks_name(data.name)) continue;
      const std::vector<std::byte> hashes = block_hashes(data.content, block_bytes);
      if (hashes.size() == blocks.content.size()) blocks.content = hashes;
    }
  }
}

Hash hash_in_manifest(const ForgedFile& file, const ForgedDataset& dataset,
                      std::uint64_t block_bytes) {
  if (dataset.name.ends_with("/data") && dataset.content.size() > block_bytes) {
    for (const ForgedDataset& blocks : file.datasets) {
      if (blocks.name == blocks_name(dataset.name)) return hash_of(blocks.content);
    }
  }
  return hash_of(dataset.content);
}

/// Datasets one after the other, the empty ones first, a byte between them.
FileRecord lay_out(ForgedFile file, std::uint64_t block_bytes, std::vector<std::byte>& bytes) {
  correct_blocks(file, block_bytes);
  FileRecord record{file.name, file.rank, 0, {}, {}};
  bytes.assign(8, std::byte{});
  for (const bool is_empty : {true, false}) {
    for (const ForgedDataset& dataset : file.datasets) {
      if (dataset.content.empty() != is_empty) continue;
      record.datasets.push_back({dataset.name, dataset.type, dataset.shape,
                                 is_empty ? 0 : bytes.size(), dataset.content.size(),
                                 hash_in_manifest(file, dataset, block_bytes)});
      bytes.insert(bytes.end(), dataset.content.begin(), dataset.content.end());
      bytes.push_back({});
    }
  }
  record.size = bytes.size();
  record.hash = hash_of(bytes);
  return record;
}

}  // namespace

Forgery genuine() {
  static const Forgery forgery = take_apart();
  return forgery;
}

Forged put_together(const Forgery& forgery) {
  Forged forged{forgery.head, {}};
  for (const ForgedFile& file : forgery.files) {
    std::vector<std::byte>& bytes = forged.files.emplace_back();
    forged.manifest.files.push_back(lay_out(file, forgery.head.block_bytes, bytes));
  }
  return forged;
}

void write(testing::MemoryFileSystem& files, const std::string& folder, const Forged& forged) {
  for (std::size_t i = 0; i < forged.files.size(); ++i) {
    const std::string& name = forged.manifest.files[i].name;
    const bool is_name = !name.empty() && name.find('/') == std::string::npos;
    if (is_name) files.set_content(join_path(folder, name), forged.files[i]);
  }
  const std::string text = to_text(forged.manifest);
  const auto bytes = std::as_bytes(std::span(text));
  files.set_content(join_path(folder, "MANIFEST.json"), {bytes.begin(), bytes.end()});
}

}  // namespace zero::checkpoint::torture
