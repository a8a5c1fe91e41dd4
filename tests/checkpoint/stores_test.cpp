#include <atomic>
#include <filesystem>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "sample.h"
#include "store_conformance.h"

namespace zero::checkpoint {
namespace {

std::unique_ptr<Store> on_memory_file_system(std::uint64_t block_bytes) {
  Hdf5StoreOptions options;
  options.block_bytes = block_bytes;
  return make_hdf5_store(std::make_shared<testing::MemoryFileSystem>(), "/store", options);
}

std::unique_ptr<Store> with_short_transfers() {
  auto files =
      std::make_shared<testing::FaultyFileSystem>(std::make_shared<testing::MemoryFileSystem>());
  files->set_longest_transfer(7);
  return make_hdf5_store(files, "/store");
}

/// A folder of its own for each store, removed with it.
class TemporaryFiles {
 public:
  TemporaryFiles() {
    static std::atomic<int> count = 0;
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->name()) + std::to_string(::getpid()) + "-" +
                       std::to_string(count++) + " [\xc3\xbc]+";
    for (char& c : name) c = c == '/' ? '_' : c;
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directory(path_);
  }
  ~TemporaryFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

class DiskStore : public Store {
 public:
  Listing list() override { return store_->list(); }
  std::unique_ptr<Writer> begin(const CommonState& common, int world_size) override {
    return store_->begin(common, world_size);
  }
  std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                               int world_size) override {
    return store_->join(ticket, common, world_size);
  }
  std::unique_ptr<Reader> open(std::int64_t step) override { return store_->open(step); }
  void remove(std::int64_t step) override { store_->remove(step); }

 private:
  TemporaryFiles files_;
  std::unique_ptr<Store> store_ = make_hdf5_store(on_disk(), files_.path() + "/store/");
};

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreConformance,
    ::testing::Values(StoreMaker{"memory", make_memory_store},
                      StoreMaker{"hdf5", [] { return on_memory_file_system(8 << 20); }},
                      StoreMaker{"hdf5_small_blocks", [] { return on_memory_file_system(64); }},
                      StoreMaker{"hdf5_short_transfers", with_short_transfers},
                      StoreMaker{"hdf5_on_disk", [] { return std::make_unique<DiskStore>(); }}),
    [](const auto& each) { return each.param.name; });

TEST(Hdf5StoreOptions, TextsThatTheManifestCouldNotHoldAreRefusedBeforeAnythingIsWritten) {
  const auto files = std::make_shared<testing::MemoryFileSystem>();
  for (const std::string& text :
       {std::string("\xff"), std::string("a\nb"), std::string(257, 'x')}) {
    Hdf5StoreOptions created, writer;
    created.created = writer.writer = text;
    EXPECT_THROW(make_hdf5_store(files, "/store", created), ContractError);
    EXPECT_THROW(make_hdf5_store(files, "/store", writer), ContractError);
  }
  Hdf5StoreOptions fine;
  fine.created = "2026-01-01, \xc3\xbc";
  fine.writer = "";
  EXPECT_NO_THROW(save(*make_hdf5_store(files, "/store", fine), 5, 1));
}

TEST(Hdf5Store, WhatTheFileSystemRefusesToShowIsUnreadableAndWhatIsDamagedIsNot) {
  const auto memory = std::make_shared<testing::MemoryFileSystem>();
  const auto files = std::make_shared<testing::FaultyFileSystem>(memory);
  const auto store = make_hdf5_store(files, "/store");
  save(*store, 1, 1);
  save(*store, 2, 1);
  memory->set_content("/store/step_000000000001/MANIFEST.json", {});
  for (const int code : {EIO, EACCES, EMFILE, ESTALE}) {
    files->set_fault({.operation = "open", .at = files->calls().at("open") + 2, .code = code});
    const Listing listing = store->list();
    ASSERT_TRUE(listing.steps.empty());
    ASSERT_EQ(listing.damaged.size(), 2u);
    EXPECT_FALSE(listing.damaged[0].unreadable);
    EXPECT_TRUE(listing.damaged[1].unreadable) << code;
  }
}

TEST(Hdf5Store, ASaveWaitsForALockThatIsHeldForAMoment) {
  const auto memory = std::make_shared<testing::MemoryFileSystem>();
  const auto files = std::make_shared<testing::FaultyFileSystem>(memory);
  save(*make_hdf5_store(files, "/store"), 1, 1);
  const int before = files->calls().at("lock");
  std::unique_ptr<FileLock> held = memory->lock("/store/.lock");
  std::thread somebody([&] {
    while (files->calls().at("lock") < before + 3) std::this_thread::yield();
    held.reset();
  });
  Hdf5StoreOptions patient;
  patient.lock_wait = std::chrono::minutes(1);
  EXPECT_NO_THROW(save(*make_hdf5_store(files, "/store", patient), 2, 1));
  somebody.join();
}

TEST(Hdf5Store, ASaveThatHasWaitedLongEnoughIsRefused) {
  const auto files = std::make_shared<testing::MemoryFileSystem>();
  save(*make_hdf5_store(files, "/store"), 1, 1);
  const std::unique_ptr<FileLock> held = files->lock("/store/.lock");
  Hdf5StoreOptions patient;
  patient.lock_wait = std::chrono::milliseconds(30);
  EXPECT_THROW(save(*make_hdf5_store(files, "/store", patient), 2, 1), ContractError);
}

}  // namespace
}  // namespace zero::checkpoint
