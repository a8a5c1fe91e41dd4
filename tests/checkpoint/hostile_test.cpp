// Tables that lie under hashes that are right: what somebody could make who knows the format.

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

const std::string kFolder = "/store/step_000000000005";

void read_everything(const Reader& reader) {
  const auto& parameters = reader.common().parameters;
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const auto parameter = static_cast<std::int32_t>(row);
    for (const std::string& state : reader.states(parameter)) {
      const std::int64_t numel = parameters[row].numel();
      ASSERT_LT(numel, 1000) << "no lie makes a parameter larger than what the file holds";
      std::vector<std::byte> bytes(
          static_cast<std::size_t>(numel * size_of(reader.dtype(parameter, state))));
      reader.read(parameter, state, 0, numel, bytes);
    }
  }
}

/// One to three words or bytes of datasets become something else, mostly something extreme.
void lie(std::vector<std::byte>& bytes, const FileRecord& record, std::mt19937_64& random) {
  static constexpr std::int64_t kExtremes[] = {0,
                                               1,
                                               -1,
                                               2,
                                               7,
                                               35,
                                               std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::int64_t>::min(),
                                               std::int64_t{1} << 62,
                                               std::int64_t{1} << 31,
                                               std::int64_t{1} << 32};
  for (std::uint64_t n = random() % 3 + 1; n > 0; --n) {
    const DatasetRecord& dataset = record.datasets[random() % record.datasets.size()];
    if (dataset.bytes == 0) continue;
    const std::uint64_t at = random() % dataset.bytes;
    if (dataset.bytes >= 8 && random() % 4 != 0) {
      const std::int64_t value = kExtremes[random() % std::size(kExtremes)];
      const std::uint64_t word = std::min(at / 8 * 8, dataset.bytes - 8);
      std::memcpy(bytes.data() + dataset.offset + word, &value, sizeof value);
    } else {
      bytes[dataset.offset + at] = static_cast<std::byte>(random());
    }
  }
}

TEST(HostileTables, AreRefusedOrHarmless) {
  auto files = std::make_shared<testing::MemoryFileSystem>();
  Hdf5StoreOptions options;
  options.view = false;  // It would give away lies that are harmless without it.
  save(*make_hdf5_store(files, "/store", options), 5, 2);
  const auto text = files->content(kFolder + "/MANIFEST.json");
  const Manifest original =
      parse_manifest({reinterpret_cast<const char*>(text.data()), text.size()});
  std::mt19937_64 random(7);
  int refused = 0;
  constexpr int kCount = 3000;
  for (int i = 0; i < kCount; ++i) {
    Manifest manifest = original;
    FileRecord& record = manifest.files[random() % manifest.files.size()];
    const auto whole = files->content(kFolder + "/" + record.name);
    auto bytes = whole;
    lie(bytes, record, random);
    for (DatasetRecord& dataset : record.datasets) {
      dataset.hash =
          hash_of(std::span<const std::byte>(bytes).subspan(dataset.offset, dataset.bytes));
    }
    record.hash = hash_of(bytes);
    const std::string changed = to_text(manifest);
    const auto raw = std::as_bytes(std::span(changed));
    files->set_content(kFolder + "/MANIFEST.json", {raw.begin(), raw.end()});
    files->set_content(kFolder + "/" + record.name, bytes);
    bool opened = true;
    try {
      read_everything(*open_checkpoint(files, kFolder));
    } catch (const FormatError&) {
      opened = false;
      ++refused;
    }
    // What opens verifies, and the other way round.
    if (i % 20 == 0) {
      EXPECT_EQ(verify(*files, kFolder).findings.empty(), opened);
    }
    files->set_content(kFolder + "/" + record.name, whole);
  }
  EXPECT_GT(refused, kCount / 10);
  EXPECT_LT(refused, kCount);
}

}  // namespace
}  // namespace zero::checkpoint
