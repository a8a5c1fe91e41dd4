// Writes a checkpoint and its exports in all ways into a new folder, for readers in other
// languages.

#include <filesystem>
#include <iostream>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/tools/export.h"
#include "weights.h"

int main(int count, char** arguments) {
  using namespace zero::checkpoint;
  if (count != 2) {
    std::cerr << "usage: " << arguments[0] << " NEW_FOLDER\n";
    return 2;
  }
  const std::string folder = arguments[1];
  std::filesystem::create_directory(folder);
  const auto files = on_disk();
  const auto store = make_hdf5_store(files, folder + "/store");
  Model model = odd_model();
  model.add("slash/ed", {2}, zero::DType::kFloat32, {1, 2});
  model.add_alias("slash/alias", "slash/ed");
  model.save(*store, 3);
  const auto reader = store->open(9);
  const auto write = [&](const std::string& name, std::optional<zero::DType> dtype) {
    ExportOptions options;
    options.dtype = dtype;
    export_parameters(*reader, *files, folder + "/" + name + ".safetensors", options);
    options.format = ExportFormat::kHdf5;
    export_parameters(*reader, *files, folder + "/" + name + ".h5", options);
  };
  write("own", std::nullopt);
  write("float32", zero::DType::kFloat32);
  write("bfloat16", zero::DType::kBFloat16);
  write("float16", zero::DType::kFloat16);
  ExportOptions options;
  options.max_shard = 150;
  export_parameters(*reader, *files, folder + "/parts.safetensors", options);
}
