#include "checkpoint/tools/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/testing/faulty_file_system.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/safetensors.h"
#include "model.h"

namespace zero::checkpoint {
namespace {

using ::testing::ElementsAre;
using testing::Fault;
using testing::FaultyFileSystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFileSystem;
using ::testing::Pair;
using testing::PowerCut;
using testing::SimulatedCrash;

const std::string kFolder = "/out";
const std::string kPath = "/out/model.safetensors";

std::string safetensors_name(DType dtype) {
  const std::map<DType, std::string> names = {{DType::kFloat32, "F32"},
                                              {DType::kBFloat16, "BF16"},
                                              {DType::kFloat16, "F16"},
                                              {DType::kInt64, "I64"},
                                              {DType::kUInt8, "U8"}};
  return names.at(dtype);
}

DType target_of(const ParameterSpec& spec, std::optional<DType> dtype) {
  return dtype && is_floating(spec.dtype) ? *dtype : spec.dtype;
}

std::unique_ptr<Reader> saved(const Model& model, int world_size = 1) {
  const auto store = make_memory_store();
  model.save(*store, world_size);
  return store->open(9);
}

/// Empty if the file or index holds exactly the model, otherwise the first difference.
std::string difference(FileSystem& files, const std::string& path, const Model& model,
                       std::optional<DType> dtype) {
  const SafetensorsWeights weights(files, path);
  const auto aliases = weights.aliases();
  for (const ParameterSpec& spec : model.parameters) {
    const auto found = weights.find(spec.name);
    if (spec.alias_of != -1) {
      const auto& owner = model.parameters[static_cast<std::size_t>(spec.alias_of)];
      if (found.file != nullptr || aliases.at(spec.name) != owner.name) return "alias " + spec.name;
      continue;
    }
    if (found.file == nullptr) return spec.name + " is missing";
    const DType target = target_of(spec, dtype);
    if (found.entry->dtype != safetensors_name(target))
      return spec.name + ": " + found.entry->dtype;
    if (found.entry->shape != spec.shape) return spec.name + ": shape";
    std::vector<std::byte> bytes(found.entry->end - found.entry->begin);
    found.file->read(*found.entry, 0, bytes);
    if (bytes != expected_bytes(model, spec, target)) return spec.name + ": bytes";
  }
  return weights.names().size() + aliases.size() == model.parameters.size() ? "" : "too many";
}

class Export : public ::testing::Test {
 protected:
  Export() { files_->make_directory(kFolder); }

  std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
};

class ExportDType : public Export, public ::testing::WithParamInterface<std::optional<DType>> {};

TEST_P(ExportDType, ReadsBackAsTheSameBitsWhateverTheWorldSize) {
  const Model model = odd_model();
  std::vector<std::vector<std::byte>> contents;
  for (const int world_size : {1, 3}) {
    for (const bool in_memory : {true, false}) {
      SCOPED_TRACE(world_size);
      const auto store = in_memory ? make_memory_store()
                                   : make_hdf5_store(files_, "/store" + std::to_string(world_size));
      model.save(*store, world_size);
      ExportOptions options;
      options.dtype = GetParam();
      const auto result = export_parameters(*store->open(9), *files_, kPath, options);
      EXPECT_THAT(result.files, ElementsAre(kPath));
      EXPECT_THAT(result.aliases, ElementsAre("head", "no elements either"));
      EXPECT_EQ(result.bytes, files_->status(kPath).size);
      EXPECT_EQ(difference(*files_, kPath, model, GetParam()), "");
      contents.push_back(files_->content(kPath));
      files_->unlink(kPath);
    }
  }
  EXPECT_EQ(std::set(contents.begin(), contents.end()).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(DTypes, ExportDType,
                         ::testing::Values(std::nullopt, DType::kFloat32, DType::kBFloat16,
                                           DType::kFloat16),
                         [](const auto& each) {
                           return each.param ? std::string(name_of(*each.param)) : "Own";
                         });

TEST_F(Export, PlacesEveryTensorAtAMultipleOfItsWidthAndOtherwiseInTheModelsOrder) {
  const Model model = odd_model();
  export_parameters(*saved(model), *files_, kPath, {});
  const auto content = files_->content(kPath);
  std::uint64_t length = 0;
  std::memcpy(&length, content.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  const SafetensorsFile file(*files_, kPath);
  std::map<DType, std::uint64_t> last;
  for (const ParameterSpec& spec : model.parameters) {
    if (spec.alias_of != -1) continue;
    const SafetensorsEntry& entry = *file.find(spec.name);
    EXPECT_EQ(entry.begin % static_cast<std::uint64_t>(size_of(spec.dtype)), 0u) << spec.name;
    EXPECT_GE(entry.begin, last[spec.dtype]) << spec.name;
    last[spec.dtype] = entry.begin;
  }
  EXPECT_THAT(file.metadata(),
              ElementsAre(Pair("format", "pt"), Pair("libzero.alias.head", "block.0.weight"),
                          Pair("libzero.alias.no elements either", "empty"),
                          Pair("libzero.run_id", "odd-run"), Pair("libzero.step", "9")));
}

TEST_F(Export, IsCutIntoFilesOfTheAskedSizeWithAnIndex) {
  const Model model = odd_model();
  const auto reader = saved(model, 2);
  std::uint64_t all = 0;
  for (const ParameterSpec& spec : model.parameters) {
    if (spec.alias_of == -1) all += expected_bytes(model, spec, spec.dtype).size();
  }
  for (const std::uint64_t limit :
       {std::uint64_t{1}, std::uint64_t{40}, std::uint64_t{150}, all - 1}) {
    SCOPED_TRACE(limit);
    ExportOptions options;
    options.max_shard = limit;
    const auto result = export_parameters(*reader, *files_, kPath, options);
    ASSERT_GT(result.files.size(), 2u);
    EXPECT_EQ(result.files.back(), kPath + ".index.json");
    EXPECT_EQ(difference(*files_, result.files.back(), model, std::nullopt), "");
    const std::size_t parts = result.files.size() - 1;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      char name[64];
      std::snprintf(name, sizeof name, "/out/model-%05zu-of-%05zu.safetensors", i + 1, parts);
      EXPECT_EQ(result.files[i], name);
      std::uint64_t held = 0, tensors = 0;
      for (const SafetensorsEntry& entry : SafetensorsFile(*files_, name).entries()) {
        held += entry.end - entry.begin;
        tensors += entry.end > entry.begin;
      }
      EXPECT_TRUE(held <= limit || tensors == 1) << held;
    }
    for (const std::string& file : result.files) {
      bytes += files_->status(file).size;
      files_->unlink(file);
    }
    EXPECT_EQ(result.bytes, bytes);
    EXPECT_THAT(files_->list(kFolder), IsEmpty());
  }
  for (const std::uint64_t limit : {std::uint64_t{0}, all}) {
    ExportOptions options;
    options.max_shard = limit;
    EXPECT_THAT(export_parameters(*reader, *files_, kPath, options).files, ElementsAre(kPath));
    files_->unlink(kPath);
  }
}

TEST_F(Export, NeverOverwritesAnything) {
  const auto reader = saved(odd_model());
  ExportOptions options;
  options.max_shard = 100;
  const auto parts = export_parameters(*reader, *files_, kPath, options).files;
  for (const std::string& name : parts) files_->unlink(name);
  std::vector<std::string> taken = parts;
  taken.push_back(kPath);
  for (const std::string& name : taken) {
    files_->set_content(name, {});
    EXPECT_THROW(export_parameters(*reader, *files_, kPath, options), ContractError) << name;
    EXPECT_EQ(files_->list(kFolder).size(), 1u);
    EXPECT_EQ(files_->status(name).size, 0u);
    files_->unlink(name);
  }
  files_->set_content(kPath + ".index.json", {});
  EXPECT_THROW(export_parameters(*reader, *files_, kPath, {}), ContractError);
  files_->make_directory("/out/model.h5");
  options.format = ExportFormat::kHdf5;
  EXPECT_THROW(export_parameters(*reader, *files_, "/out/model.h5", options), ContractError);
}

TEST_F(Export, NeverOverwritesWhatAppearsMeanwhile) {
  const auto reader = saved(odd_model());
  for (const auto format : {ExportFormat::kSafetensors, ExportFormat::kHdf5}) {
    ExportOptions options;
    options.format = format;
    options.progress = [&](auto, auto) {
      files_->set_content(kPath, {std::byte{1}});
      return true;
    };
    EXPECT_THROW(export_parameters(*reader, *files_, kPath, options), ContractError);
    EXPECT_EQ(files_->content(kPath), std::vector{std::byte{1}});
    EXPECT_THAT(files_->list(kFolder), ElementsAre("model.safetensors"));
    files_->unlink(kPath);
  }
}

struct Way {
  ExportFormat format;
  std::uint64_t max_shard;
};

class ExportFails : public Export, public ::testing::WithParamInterface<Way> {
 protected:
  ExportOptions options() const {
    ExportOptions options;
    options.format = GetParam().format;
    options.max_shard = GetParam().max_shard;
    return options;
  }
};

TEST_P(ExportFails, WithAnErrorAtAnyCallAndLeavesNothing) {
  const auto reader = saved(odd_model(), 2);
  const auto faulty = std::make_shared<FaultyFileSystem>(files_);
  const auto first = export_parameters(*reader, *faulty, kPath, options());
  for (const std::string& name : first.files) files_->unlink(name);
  const auto calls = faulty->calls();
  EXPECT_GE(calls.at(""), 8);
  for (const int code : {ENOSPC, EIO}) {
    for (const bool persistent : {false, true}) {
      for (const auto& [operation, count] : calls) {
        for (int at = 1; at <= count; ++at) {
          // All calls failing from then on, unlink among them, is a dead disk: nothing helps.
          if (operation.empty() && persistent) continue;
          SCOPED_TRACE(operation + " " + std::to_string(at) + ", errno " + std::to_string(code));
          FaultyFileSystem files(files_);
          files.set_fault({operation, at, code, persistent});
          EXPECT_THROW(export_parameters(*reader, files, kPath, options()), FileError);
          EXPECT_TRUE(files.struck());
          ASSERT_THAT(files_->list(kFolder), IsEmpty());
        }
      }
    }
  }
}

TEST_P(ExportFails, ByDeathAtAnyCallAndLeavesWholeFilesOnly) {
  const Model model = odd_model();
  const auto reader = saved(model);
  bool finished = false;
  int whole = 0, at = 1;
  for (; !finished; ++at) {
    SCOPED_TRACE(at);
    for (const PowerCut cut : {PowerCut::kEverything, PowerCut::kEntries, PowerCut::kNothing}) {
      MemoryFileSystem disk;
      disk.make_directory(kFolder);
      disk.fsync_directory("/");
      FaultyFileSystem files(std::shared_ptr<FileSystem>(&disk, [](FileSystem*) {}));
      files.set_fault({"", at});
      try {
        export_parameters(*reader, files, kPath, options());
        finished = true;
      } catch (const SimulatedCrash&) {
      }
      disk.crash(cut);
      for (const std::string& name : disk.list(kFolder)) {
        if (name.starts_with(".zero-export-")) continue;
        const std::string path = join_path(kFolder, name);
        ++whole;
        if (name.ends_with(".index.json")) {
          ASSERT_EQ(difference(disk, path, model, std::nullopt), "");
        } else if (GetParam().format == ExportFormat::kSafetensors) {
          ASSERT_NO_THROW(SafetensorsFile(disk, path)) << name;
        } else {
          ASSERT_EQ(disk.content(path).at(0), std::byte{0x89});
        }
      }
    }
  }
  EXPECT_GT(at, 8);
  EXPECT_GT(whole, 0);
}

TEST_P(ExportFails, WhenToldToStopAndLeavesNothing) {
  const auto reader = saved(odd_model());
  std::uint64_t last = 0, total = 0;
  int calls = 0;
  ExportOptions counting = options();
  counting.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    return ++calls > 0;
  };
  for (const std::string& name : export_parameters(*reader, *files_, kPath, counting).files) {
    files_->unlink(name);
  }
  EXPECT_EQ(last, total);
  EXPECT_GT(calls, 5);
  for (int stop = 1; stop <= calls; ++stop) {
    int seen = 0;
    ExportOptions stopping = options();
    stopping.progress = [&](auto, auto) { return ++seen < stop; };
    EXPECT_THROW(export_parameters(*reader, *files_, kPath, stopping), Cancelled);
    EXPECT_THAT(files_->list(kFolder), IsEmpty());
  }
}

TEST_P(ExportFails, OnADamagedCheckpointAndLeavesNothing) {
  const auto store = make_hdf5_store(files_, "/store");
  odd_model().save(*store, 2);
  const auto reader = store->open(9);
  const std::string shard = "/store/step_000000000009/shard-00001-of-00002.h5";
  auto bytes = files_->content(shard);
  for (std::size_t at = 4000; at < bytes.size(); ++at) bytes[at] ^= std::byte{1};
  files_->set_content(shard, bytes);
  EXPECT_THROW(export_parameters(*reader, *files_, kPath, options()), FormatError);
  EXPECT_THAT(files_->list(kFolder), IsEmpty());
}

TEST_P(ExportFails, BeforeItWritesIfTheDiskHasNotTheRoom) {
  const auto reader = saved(odd_model());
  files_->set_free_bytes(200);
  FaultyFileSystem files(files_);
  EXPECT_THROW(export_parameters(*reader, files, kPath, options()), FileError);
  EXPECT_EQ(files.calls()["create"], 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, ExportFails,
                         ::testing::Values(Way{ExportFormat::kSafetensors, 0},
                                           Way{ExportFormat::kSafetensors, 100},
                                           Way{ExportFormat::kHdf5, 0}),
                         [](const auto& each) {
                           return each.param.format == ExportFormat::kHdf5 ? "Hdf5"
                                  : each.param.max_shard == 0              ? "OneFile"
                                                                           : "SeveralFiles";
                         });

TEST_F(Export, RefusesWhatTheFormatHasNoPlaceFor) {
  ExportOptions hdf5;
  hdf5.format = ExportFormat::kHdf5;
  for (const std::string name : {"/a", "a/", "a//b", "./a", "a/.", "a/./b", "/", "."}) {
    Model model;
    model.add(name, {1}, DType::kFloat32, {1});
    EXPECT_THROW(export_parameters(*saved(model), *files_, "/out/x.h5", hdf5), ContractError)
        << name;
    EXPECT_NO_THROW(export_parameters(*saved(model), *files_, kPath, {})) << name;
    files_->unlink(kPath);
  }
  Model inside;
  inside.add("a", {1}, DType::kFloat32, {1});
  inside.add("a/b", {1}, DType::kFloat32, {1});
  EXPECT_THROW(export_parameters(*saved(inside), *files_, "/out/x.h5", hdf5), ContractError);
  Model reserved;
  reserved.add("__metadata__", {1}, DType::kFloat32, {1});
  EXPECT_THROW(export_parameters(*saved(reserved), *files_, kPath, {}), ContractError);
  EXPECT_NO_THROW(export_parameters(*saved(reserved), *files_, "/out/x.h5", hdf5));
}

TEST_F(Export, RefusesIntegerTargetsAndOtherEndings) {
  Model model;
  model.add("w", {1}, DType::kFloat32, {1});
  const auto reader = saved(model);
  for (const DType dtype : {DType::kInt64, DType::kUInt8}) {
    ExportOptions options;
    options.dtype = dtype;
    EXPECT_THROW(export_parameters(*reader, *files_, kPath, options), ContractError);
  }
  for (const char* path : {"/out/model.bin", "/out/model", "/out/.safetensors", ".safetensors"}) {
    EXPECT_THROW(export_parameters(*reader, *files_, path, {}), ContractError) << path;
  }
  EXPECT_THAT(files_->list(kFolder), IsEmpty());
}

TEST_F(Export, RefusesAParameterWithoutWeights) {
  const auto store = make_memory_store();
  CommonState common;
  common.step = 1;
  common.parameters = {{"w", {2}, DType::kFloat32, -1, false, -1}};
  const std::vector<float> values = {1, 2};
  RankState state;
  state.states = {{"ema", DType::kFloat32, {{0, 0, 2}}, {std::as_bytes(std::span(values))}}};
  const auto writer = store->begin(common, 1);
  writer->put(0, state);
  writer->commit();
  try {
    export_parameters(*store->open(1), *files_, kPath, {});
    FAIL() << "something was exported";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("neither 'master' nor 'value'"));
  }
}

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

TEST_F(Export, HoldsAFewMebibytesOfAParameterOfAnySize) {
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
