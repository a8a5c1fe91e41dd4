#include "checkpoint/tools/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/safetensors.h"
#include "weights.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFileSystem;
using ::testing::Pair;
using ::testing::ThrowsMessage;

const std::string kFolder = "/out";
const std::string kPath = "/out/model.safetensors";

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
  for (const auto& content : contents) EXPECT_EQ(content, contents[0]);
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
      const std::string name = "/out/model-" + five_digits(static_cast<int>(i) + 1) + "-of-" +
                               five_digits(static_cast<int>(parts)) + ".safetensors";
      EXPECT_EQ(result.files[i], name);
      std::uint64_t held = 0, tensors = 0;
      const SafetensorsFile file(*files_, name);
      for (const SafetensorsEntry& entry : file.entries()) {
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

TEST_F(Export, RefusesIntegerTargets) {
  Model model;
  model.add("w", {1}, DType::kFloat32, {1});
  const auto reader = saved(model);
  for (const DType dtype : {DType::kInt64, DType::kUInt8}) {
    ExportOptions options;
    options.dtype = dtype;
    EXPECT_THROW(export_parameters(*reader, *files_, kPath, options), ContractError);
  }
  EXPECT_THAT(files_->list(kFolder), IsEmpty());
}

TEST_F(Export, IntoSeveralFilesNeedsANameThatPartsCanHave) {
  const auto reader = saved(odd_model());
  ExportOptions options;
  options.max_shard = 100;
  for (const std::string path : {"/out/model.bin", "/out/model", "/out/.safetensors"}) {
    EXPECT_THROW(export_parameters(*reader, *files_, path, options), ContractError) << path;
    EXPECT_THAT(files_->list(kFolder), IsEmpty());
    EXPECT_THAT(export_parameters(*reader, *files_, path, {}).files, ElementsAre(path));
    files_->unlink(path);
  }
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

/// Everything that a model can have, and where each one's export comes from.
std::unique_ptr<Reader> averaged(bool has_average = true) {
  static const std::vector<float> masters = {1, 2}, averages = {3, 4}, values = {5, 6};
  const auto bytes = [](const std::vector<float>& of) { return std::as_bytes(std::span(of)); };
  CommonState common;
  common.step = 1;
  common.parameters = {{"first", {2}, DType::kFloat32, 0, true, -1},
                       {"second", {2}, DType::kBFloat16, 0, true, -1},
                       {"frozen", {2}, DType::kFloat32, 0, false, -1},
                       {"buffer", {2}, DType::kFloat32, -1, false, -1}};
  common.groups = {{{"lr", 0.1}}};
  const Extent first{0, 0, 2}, second{1, 0, 2}, frozen{2, 0, 2}, buffer{3, 0, 2};
  RankState state;
  state.states = {{"master", DType::kFloat32, {first, second}, {bytes(masters), bytes(masters)}},
                  {"value", DType::kFloat32, {frozen, buffer}, {bytes(values), bytes(values)}}};
  if (has_average)
    state.states.push_back(
        {"ema", DType::kFloat32, {first, second}, {bytes(averages), bytes(averages)}});
  const auto store = make_memory_store();
  const auto writer = store->begin(common, 1);
  writer->put(0, state);
  writer->commit();
  return store->open(1);
}

TEST_F(Export, OfTheAverageTakesItWhereThereIsOneToBeAndValuesElsewhere) {
  ExportOptions options;
  options.weights = ExportWeights::kAverage;
  options.dtype = DType::kFloat32;
  export_parameters(*averaged(), *files_, kPath, options);
  const SafetensorsFile file(*files_, kPath);
  const auto content = files_->content(kPath);
  const auto value = [&](const char* name) {
    float first = 0;
    std::uint64_t header = 0;
    std::memcpy(&header, content.data(), sizeof header);
    std::memcpy(&first, content.data() + 8 + header + file.find(name)->begin, sizeof first);
    return first;
  };
  EXPECT_EQ(value("first"), 3);
  EXPECT_EQ(value("second"), 3);
  EXPECT_EQ(value("frozen"), 5);
  EXPECT_EQ(value("buffer"), 5);
  EXPECT_EQ(file.metadata().at("libzero.weights"), "ema");
}

TEST_F(Export, OfAnAverageThatTheCheckpointLacksIsRefused) {
  ExportOptions options;
  options.weights = ExportWeights::kAverage;
  EXPECT_THAT([&] { export_parameters(*averaged(false), *files_, kPath, options); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("no average"), HasSubstr("first"))));
  EXPECT_THAT(files_->list(kFolder), IsEmpty());
}

}  // namespace
}  // namespace zero::checkpoint
