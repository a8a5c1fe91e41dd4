// Hashing behind the writer's back gives the hashes that hashing in one piece gives.

#include "checkpoint/file_hasher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::vector<std::byte> bytes_of(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t word = 1;
  for (std::byte& byte : bytes) {
    word = word * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(word >> 24);
  }
  return bytes;
}

std::vector<std::byte> hashes_of_blocks(std::span<const std::byte> data, std::size_t block) {
  std::vector<std::byte> hashes;
  for (; !data.empty(); data = data.subspan(std::min(block, data.size()))) {
    const Hash hash = hash_of(data.first(std::min(block, data.size())));
    hashes.insert(hashes.end(), hash.bytes.begin(), hash.bytes.end());
  }
  return hashes;
}

/// A file of three datasets with something before each, handed over in pieces of at most `piece`.
void expect_right_hashes(std::span<const std::byte> file, std::size_t announced, std::size_t piece,
                         std::size_t block) {
  FileHasher hasher(announced, block);
  std::span<const std::byte> rest = file;
  const std::size_t third = file.size() / 3;
  for (int dataset = 0; dataset < 3; ++dataset) {
    const std::size_t gap = std::min<std::size_t>(third, 77);
    hasher.add(rest.first(gap));
    std::span<const std::byte> data = rest.subspan(gap, third - gap);
    rest = rest.subspan(third);
    const bool in_blocks = dataset != 1;
    hasher.begin_dataset(data.size(), in_blocks);
    for (auto left = data; !left.empty(); left = left.subspan(std::min(piece, left.size()))) {
      hasher.add_data(left.first(std::min(piece, left.size())));
    }
    const FileHasher::Dataset hashed = hasher.finish_dataset();
    const auto blocks = in_blocks ? hashes_of_blocks(data, block) : std::vector<std::byte>();
    ASSERT_EQ(hashed.blocks, blocks);
    ASSERT_EQ(hashed.hash, in_blocks ? hash_of(blocks) : hash_of(data));
  }
  hasher.add(rest);
  ASSERT_EQ(hasher.finish(), hash_of(file));
}

RC_GTEST_PROP(FileHasher, GivesTheHashesOfOnePassWhateverThePieces, ()) {
  static const std::vector<std::byte> bytes = bytes_of(5 * kMiB);
  const auto size = *rc::gen::inRange<std::size_t>(0, bytes.size());
  const auto piece = *rc::gen::element<std::size_t>(1000, 4097, 131072, 200001, 3 * kMiB);
  const auto block = *rc::gen::element<std::size_t>(64, 4096, 65536, kMiB);
  const auto announced =
      *rc::gen::element<std::size_t>(0, 5 * kMiB);  // Without a thread, with one.
  expect_right_hashes(std::span(bytes).first(size), announced, piece, block);
}

TEST(FileHasher, MayBeDroppedWhileItHashes) {
  const std::vector<std::byte> bytes = bytes_of(4 * kMiB);
  for (std::size_t size = 0; size <= bytes.size(); size += kMiB / 2) {
    FileHasher hasher(bytes.size(), 4096);
    hasher.begin_dataset(bytes.size(), true);
    for (std::size_t at = 0; at < size; at += kMiB / 4) {
      hasher.add_data(std::span(bytes).subspan(at, kMiB / 4));
    }
  }
}

/// One rank with 3 MiB in two parameters.
struct LargeState {
  LargeState() : bytes(bytes_of(3 * kMiB)) {
    const auto count = static_cast<std::int64_t>(bytes.size() / 2 / sizeof(float));
    common.step = 1;
    common.groups = {{{"lr", 0.5}}};
    StateView view{"master", DType::kFloat32, {}, {}};
    for (std::int32_t row = 0; row < 2; ++row) {
      common.parameters.push_back(
          {"p" + std::to_string(row), {count}, DType::kFloat32, 0, true, -1});
      view.extents.push_back({row, 0, count});
      view.pieces.push_back(std::span(bytes).subspan(
          static_cast<std::size_t>(row) * bytes.size() / 2, bytes.size() / 2));
    }
    part.states.push_back(std::move(view));
  }
  void save(std::shared_ptr<FileSystem> files) const {
    Hdf5StoreOptions options;
    options.block_bytes = 65536;
    const auto writer = make_hdf5_store(std::move(files), "/runs", options)->begin(common, 1);
    writer->put(0, part);
    writer->commit();
  }

  std::vector<std::byte> bytes;
  CommonState common;
  RankState part;
};

TEST(LargeFile, IsWhatItsManifestSays) {
  const LargeState state;
  auto disk = std::make_shared<testing::MemoryFileSystem>();
  state.save(disk);
  const Verification found = verify(*disk, "/runs/step_000000000001");
  ASSERT_EQ(found.findings.size(), 0u) << to_text(found.findings[0]);
  EXPECT_GT(found.bytes, state.bytes.size());
}

TEST(LargeFile, IsTheSameWhetherMemoryOrAFunctionGivesItsBytes) {
  LargeState state;
  auto disk = std::make_shared<testing::MemoryFileSystem>();
  state.save(disk);
  const std::string shard = "/runs/step_000000000001/shard-00000-of-00001.h5";
  StateView& view = state.part.states[0];
  view.fill = [pieces = std::move(view.pieces)](const Extent& part, std::span<std::byte> dst) {
    ASSERT_LE(dst.size(), kMaxPartBytes);
    const auto& piece = pieces[static_cast<std::size_t>(part.parameter)];
    const auto from = piece.subspan(static_cast<std::size_t>(part.begin) * sizeof(float));
    std::copy_n(from.begin(), dst.size(), dst.begin());
  };
  view.pieces.clear();
  auto other = std::make_shared<testing::MemoryFileSystem>();
  state.save(other);
  EXPECT_TRUE(disk->content(shard) == other->content(shard));
  EXPECT_EQ(verify(*other, "/runs/step_000000000001").findings.size(), 0u);
}

TEST(LargeFile, WhoseWritingFailsAnywhereIsAnErrorAndNothingElse) {
  const LargeState state;
  auto counter =
      std::make_shared<testing::FaultyFileSystem>(std::make_shared<testing::MemoryFileSystem>());
  state.save(counter);
  const int writes = counter->calls()["pwrite"] - 1;  // The last is LATEST's: a warning.
  ASSERT_GT(writes, 5);
  for (int at = 1; at <= writes; ++at) {
    for (const int code : {EIO, 0}) {
      auto files = std::make_shared<testing::FaultyFileSystem>(
          std::make_shared<testing::MemoryFileSystem>());
      files->set_fault({"pwrite", at, code, false});
      if (code == 0) {
        EXPECT_THROW(state.save(files), testing::SimulatedCrash);
      } else {
        EXPECT_THROW(state.save(files), FileError);
      }
    }
  }
}

TEST(LargeFile, IsWrittenByTheSameCallsEveryTime) {
  const LargeState state;
  std::map<std::string, int> first;
  for (int round = 0; round < 5; ++round) {
    testing::FaultyFileSystem files(std::make_shared<testing::MemoryFileSystem>());
    state.save({std::shared_ptr<void>(), &files});
    if (round == 0) first = files.calls();
    EXPECT_EQ(files.calls(), first);
  }
}

}  // namespace
}  // namespace zero::checkpoint
