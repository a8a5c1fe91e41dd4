#include "tests/cli/checkpoint_root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "sample.h"

namespace zero::cli::testing {

Result zero(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ZERO_COMMAND);
  return Launched(std::move(arguments)).wait();
}

nlohmann::json zero_json(std::vector<std::string> arguments, int code) {
  arguments.push_back("--json");
  const Result result = zero(std::move(arguments));
  EXPECT_EQ(result.code, code) << result.err;
  return nlohmann::json::parse(result.out);
}

std::string save_steps(const std::string& root, const std::vector<std::int64_t>& steps,
                       int world_size) {
  checkpoint::Hdf5StoreOptions options;
  options.block_bytes = 64;
  const auto store = checkpoint::make_hdf5_store(checkpoint::on_disk(), root, options);
  for (const std::int64_t step : steps) checkpoint::save(*store, step, world_size);
  return root;
}

std::string save_large(const std::string& root, std::int64_t mebibytes) {
  checkpoint::CommonState common;
  common.parameters = {{"w", {mebibytes, 1 << 18}, DType::kFloat32, 0, true, -1}};
  common.groups = {{{"lr", 0.5}}};
  const std::int64_t numel = mebibytes << 18;
  std::vector<std::byte> memory(static_cast<std::size_t>(numel) * 4);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 31 >> 7);
  checkpoint::StateView view{"master", DType::kFloat32, {{0, 0, numel}}, {}};
  view.pieces.emplace_back(memory);
  checkpoint::RankState state;
  state.states.push_back(view);
  const auto store = checkpoint::make_hdf5_store(checkpoint::on_disk(), root);
  const auto writer = store->begin(common, 1);
  writer->put(0, state);
  writer->commit();
  return root;
}

std::string golden_root() {
  return ZERO_SOURCE_DIR "/tests/checkpoint/golden/v1.0";
}

std::string step_directory(const std::string& root, std::int64_t step) {
  return checkpoint::join_path(root, checkpoint::step_name(step));
}

void flip(const std::string& file, std::uintmax_t offset) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  if (byte < 0) throw std::runtime_error("nothing to flip in " + file);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(byte ^ 0x10));
}

void set_hashes(const std::string& directory) {
  const auto files = checkpoint::on_disk();
  checkpoint::Manifest manifest = checkpoint::read_manifest(*files, directory);
  for (checkpoint::FileRecord& record : manifest.files) {
    const std::string path = checkpoint::join_path(directory, record.name);
    std::vector<std::byte> bytes(std::filesystem::file_size(path));
    checkpoint::read_all(*files->open(path), bytes, 0, path);
    record.hash = checkpoint::hash_of(bytes);
  }
  std::ofstream(directory + "/MANIFEST.json", std::ios::trunc) << to_text(manifest);
}

std::string make_leftover(const std::string& root, std::int64_t step) {
  const std::string name = checkpoint::temporary_name(step, "0123456789abcdef");
  std::filesystem::create_directory(checkpoint::join_path(root, name));
  std::ofstream(checkpoint::join_path(root, name) + "/shard-00000-of-00001.h5")
      << std::string(100, 'x');
  return name;
}

std::vector<std::string> names_in(const std::string& directory) {
  return checkpoint::on_disk()->list(directory);
}

void expect_one_complaint(const Result& result, int code, const std::string& about) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, ::testing::StartsWith("zero: "));
  EXPECT_THAT(result.err, ::testing::HasSubstr(about));
}

}  // namespace zero::cli::testing
