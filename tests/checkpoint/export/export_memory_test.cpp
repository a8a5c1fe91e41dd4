#include <gtest/gtest.h>

#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/export.h"

namespace zero::checkpoint {
namespace {

using testing::MemoryFileSystem;

/// One parameter of 2^26 elements that nobody holds in memory.
class LargeReader : public Reader {
 public:
  LargeReader() { common_.parameters = {{"w", {1 << 13, 1 << 13}, DType::kBFloat16, 0, true, -1}}; }
  const StepInfo& info() const override { return info_; }
  const CommonState& common() const override { return common_; }
  const std::map<std::string, Blob>& rank_blobs(int) const override { return blobs_; }
  std::vector<std::string> states(std::int32_t) const override { return {"master"}; }
  DType dtype(std::int32_t, std::string_view) const override { return DType::kFloat32; }
  std::vector<Extent> extents(int, std::string_view) const override { return {}; }
  void read(std::int32_t, std::string_view, std::int64_t, std::int64_t,
            std::span<std::byte> dst) const override {
    largest_ = std::max(largest_, dst.size());
  }
  std::size_t largest() const { return largest_; }

 private:
  StepInfo info_{1, "run", "", 1, 0, 0};
  CommonState common_;
  std::map<std::string, Blob> blobs_;
  mutable std::size_t largest_ = 0;
};

/// Forgets what is written, and remembers only how much at once.
class Sink : public MemoryFileSystem {
 public:
  class SinkFile : public File {
   public:
    explicit SinkFile(Sink& sink) : sink_(sink) {}
    std::size_t pwrite(std::span<const std::byte> data, std::uint64_t) override {
      sink_.largest = std::max(sink_.largest, data.size());
      sink_.total += data.size();
      return data.size();
    }
    std::size_t pread(std::span<std::byte>, std::uint64_t) override { return 0; }
    void fsync() override {}
    void close() override {}
    std::uint64_t size() override { return 0; }

   private:
    Sink& sink_;
  };
  std::unique_ptr<File> create(const std::string& path) override {
    MemoryFileSystem::create(path);
    return std::make_unique<SinkFile>(*this);
  }
  std::size_t largest = 0, total = 0;
};

TEST(ExportMemory, HoldsAFewMebibytesOfAParameterOfAnySize) {
  for (const auto format : {ExportFormat::kSafetensors, ExportFormat::kHdf5}) {
    const LargeReader reader;
    Sink files;
    ExportOptions options;
    options.format = format;
    const auto result = export_parameters(reader, files, "/large.safetensors", options);
    EXPECT_GT(result.bytes, std::uint64_t{1} << 27);
    EXPECT_EQ(files.total, result.bytes);
    EXPECT_LE(reader.largest(), std::size_t{8} << 20);
    EXPECT_LE(files.largest, std::size_t{8} << 20);
  }
}

}  // namespace
}  // namespace zero::checkpoint
