#include "checkpoint/verify.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "checkpoint/common_file.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/file_writer.h"
#include "checkpoint/hdf5_check.h"
#include "checkpoint/names.h"
#include "checkpoint/place.h"
#include "checkpoint/view_file.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

/// Hashes a file from front to back, and each block and dataset on the way.
class FileVerifier {
 public:
  using Advance = std::function<bool(std::uint64_t)>;

  FileVerifier(File& file, const FileRecord& record, std::uint64_t block_bytes, Advance advance)
      : file_(file),
        record_(record),
        block_bytes_(block_bytes),
        advance_(std::move(advance)),
        buffer_(kChunk) {}

  /// False if it was told to stop.
  bool run(std::vector<Finding>& findings) {
    const std::size_t before = findings.size();
    std::uint64_t at = 0;
    for (const DatasetRecord& dataset : record_.datasets) {
      if (dataset.bytes > 0 && !skip(at, dataset.offset)) return false;
      if (!check_dataset(dataset, findings)) return false;
      if (dataset.bytes > 0) at = dataset.offset + dataset.bytes;
    }
    if (!skip(at, record_.size)) return false;
    if (whole_.value() == record_.hash) return true;
    if (findings.size() == before) {
      findings.push_back({record_.name, "", -1,
                          "bytes outside the datasets (HDF5 structure) are damaged: the file's "
                          "hash does not agree"});
    }
    return true;
  }

 private:
  template <class Visit>
  bool read(std::uint64_t begin, std::uint64_t end, Visit visit) {
    while (begin < end) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, end - begin));
      const auto chunk = std::span(buffer_).first(count);
      read_all(file_, chunk, begin, record_.name);
      whole_.add(chunk);
      visit(std::span<const std::byte>(chunk));
      begin += count;
      if (!advance_(count)) return false;
    }
    return true;
  }

  bool skip(std::uint64_t begin, std::uint64_t end) {
    return read(begin, end, [](auto) {});
  }

  bool check_dataset(const DatasetRecord& dataset, std::vector<Finding>& findings) {
    const DatasetRecord* blocks = record_.find(blocks_name(dataset.name));
    const bool in_blocks = blocks != nullptr && blocks != &dataset &&
                           dataset.name.ends_with("/data") && dataset.bytes > block_bytes_;
    if (in_blocks) return check_blocks(dataset, *blocks, findings);
    Hasher hasher;
    const auto add = [&](std::span<const std::byte> chunk) { hasher.add(chunk); };
    if (!read(dataset.offset, dataset.offset + dataset.bytes, add)) return false;
    if (hasher.value() != dataset.hash) {
      const bool is_data = dataset.name.ends_with("/data");
      findings.push_back({record_.name, dataset.name, is_data ? 0 : -1, "its hash does not agree"});
    }
    return true;
  }

  bool check_blocks(const DatasetRecord& data, const DatasetRecord& blocks,
                    std::vector<Finding>& findings) {
    require_stored(file_, record_.name, blocks);
    std::vector<std::byte> expected(blocks.bytes);
    read_all(file_, expected, blocks.offset, record_.name);
    // Damaged hashes name no block; where they are read as a dataset of their own, they are
    // reported.
    const bool reliable = hash_of(expected) == data.hash;
    std::vector<std::byte> found;
    for (std::uint64_t begin = 0; begin < data.bytes; begin += block_bytes_) {
      const std::uint64_t end = std::min(data.bytes, begin + block_bytes_);
      Hasher hasher;
      const auto add = [&](std::span<const std::byte> chunk) { hasher.add(chunk); };
      if (!read(data.offset + begin, data.offset + end, add)) return false;
      const Hash hash = hasher.value();
      const std::size_t row = found.size();
      found.insert(found.end(), hash.bytes.begin(), hash.bytes.end());
      const bool fits = row + 16 <= expected.size() &&
                        std::equal(hash.bytes.begin(), hash.bytes.end(),
                                   expected.begin() + static_cast<std::ptrdiff_t>(row));
      if (reliable && !fits) {
        findings.push_back({record_.name, data.name, static_cast<std::int64_t>(row / 16),
                            "the block's hash does not agree"});
      }
    }
    if (!reliable && hash_of(found) != data.hash) {
      findings.push_back({record_.name, data.name, -1,
                          "its hash does not agree, and its blocks' hashes are damaged, too"});
    }
    return true;
  }

  File& file_;
  const FileRecord& record_;
  std::uint64_t block_bytes_;
  Advance advance_;
  std::vector<std::byte> buffer_;
  Hasher whole_;
};

class DirectoryVerifier {
 public:
  DirectoryVerifier(FileSystem& files, const std::string& directory, const VerifyOptions& options)
      : files_(files), directory_(directory), options_(options) {}

  Verification run() {
    if (!load_manifest()) return std::move(result_);
    check_names();
    check_presence();
    if (!options_.quick) check_bytes();
    if (!result_.stopped) check_tables();
    const bool look_inside = options_.structure && !options_.quick;
    if (look_inside && !result_.stopped) check_structures();
    return std::move(result_);
  }

 private:
  void report(const std::string& file, const std::string& problem) {
    result_.findings.push_back({file, "", -1, problem});
  }
  std::string path(const FileRecord& record) const { return join_path(directory_, record.name); }
  bool is_sound(const FileRecord& record) const { return !unsound_.contains(record.name); }

  bool load_manifest() {
    const FileKind kind = files_.status(directory_).kind;
    if (kind == FileKind::kMissing || kind == FileKind::kRegular) {
      report("", "there is no such directory: " + directory_);
      return false;
    }
    try {
      manifest_ = read_manifest(files_, directory_);
    } catch (const FormatError& error) {
      report(std::string(kManifestName), error.what());
      return false;
    }
    const std::string problem = problem_of_name(directory_, manifest_.step);
    if (!problem.empty()) report("", problem);
    return true;
  }

  void check_names() {
    std::set<std::string> known = {std::string(kManifestName)};
    for (const FileRecord& record : manifest_.files) known.insert(record.name);
    for (const std::string& name : files_.list(directory_)) {
      if (!known.contains(name)) report(name, "the manifest does not list this file");
    }
  }

  void check_presence() {
    for (const FileRecord& record : manifest_.files) {
      const FileStatus status = files_.status(path(record));
      total_ += record.size;
      if (status.kind == FileKind::kRegular && status.size == record.size) continue;
      unsound_.insert(record.name);
      report(record.name, status.kind == FileKind::kMissing ? "the file is missing"
                          : status.kind != FileKind::kRegular
                              ? "it is no regular file"
                              : "it has " + std::to_string(status.size) + " bytes instead of " +
                                    std::to_string(record.size));
    }
  }

  void check_bytes() {
    const auto advance = [this](std::uint64_t count) {
      result_.bytes += count;
      if (options_.progress && !options_.progress(result_.bytes, total_)) result_.stopped = true;
      return !result_.stopped;
    };
    for (const FileRecord& record : manifest_.files) {
      if (!is_sound(record)) continue;
      const std::size_t before = result_.findings.size();
      try {
        const std::unique_ptr<File> file = files_.open(path(record));
        FileVerifier verifier(*file, record, manifest_.block_bytes, advance);
        if (!verifier.run(result_.findings)) return;
      } catch (const FormatError& error) {
        report(record.name, error.what());
      }
      if (result_.findings.size() != before) unsound_.insert(record.name);
    }
  }

  void check_tables() {
    for (std::size_t i = 0; i <= static_cast<std::size_t>(manifest_.world_size); ++i) {
      const FileRecord& record = manifest_.files[i];
      if (!is_sound(record)) return;
      try {
        const std::unique_ptr<File> file = files_.open(path(record));
        if (i == 0) {
          parameters_ = decode_common(*file, record.name, manifest_).state.parameters;
        } else {
          add_shard(index_, *file, record.name, manifest_, i, parameters_);
        }
      } catch (const FormatError& error) {
        return report(record.name, error.what());
      }
    }
    const std::string gap = problem_of_tiling(index_, parameters_);
    if (!gap.empty()) return report("", gap);
    sort_segments(index_);
    tables_are_sound_ = true;
  }

  void check_structures() {
    for (const FileRecord& record : manifest_.files) {
      if (!is_sound(record)) continue;
      if (record.name == kViewName) {
        check_view(record);
        continue;
      }
      const auto attributes =
          root_attributes(manifest_.step, manifest_.run_id, manifest_.world_size, record.rank);
      const std::unique_ptr<File> file = files_.open(path(record));
      for (const std::string& difference : hdf5::check_structure(*file, record, attributes)) {
        report(record.name, "the HDF5 structure is not the manifest's: " + difference);
      }
    }
  }

  void check_view(const FileRecord& record) {
    if (!tables_are_sound_) return;
    std::string problem;
    try {
      problem = problem_of_view(record, manifest_, index_, parameters_);
    } catch (const FormatError& error) {
      problem = error.what();
    }
    if (!problem.empty()) report(record.name, problem);
  }

  FileSystem& files_;
  const std::string& directory_;
  const VerifyOptions& options_;
  Manifest manifest_;
  Verification result_;
  std::set<std::string> unsound_;
  std::uint64_t total_ = 0;
  std::vector<ParameterSpec> parameters_;
  ShardIndex index_;
  bool tables_are_sound_ = false;
};

}  // namespace

std::string to_text(const Finding& finding) {
  std::string text = finding.file;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (!finding.dataset.empty()) add(finding.dataset);
  if (finding.block >= 0) add("block " + std::to_string(finding.block));
  return text + (text.empty() ? "" : ": ") + finding.problem;
}

Verification verify(FileSystem& files, const std::string& directory, const VerifyOptions& options) {
  return DirectoryVerifier(files, directory, options).run();
}

}  // namespace zero::checkpoint
