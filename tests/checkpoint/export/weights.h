#pragma once

/// A model whose weights are chosen by the test, in a checkpoint.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/store.h"
#include "libzero/base/float16.h"

namespace zero::checkpoint {

/// Parameters with fp32 masters, frozen ones and buffers with values of their own dtype.
struct Model {
  std::vector<ParameterSpec> parameters;
  std::map<std::string, std::vector<std::byte>> weights;  ///< By name; as stored.

  /// A trainable parameter; its master are `values`.
  void add(const std::string& name, std::vector<std::int64_t> shape, DType dtype,
           const std::vector<float>& values);
  /// A buffer of these bytes.
  void add_buffer(const std::string& name, std::vector<std::int64_t> shape, DType dtype,
                  const std::vector<std::byte>& bytes);
  void add_alias(const std::string& name, const std::string& owner);

  /// Saved under step 9, cut in equal parts, without moments.
  CommitResult save(Store& store, int world_size) const;
};

/// Numbers that are hard to round: ties, halves of the smallest, overflow, NaN, infinity, zeros.
std::vector<float> hard_numbers();

/// Many kinds of names, shapes and dtypes.
Model odd_model();

/// What an export must hold of a parameter of the model.
std::vector<std::byte> expected_bytes(const Model& model, const ParameterSpec& spec, DType dtype);

/// The model in a Store that is gone already.
std::unique_ptr<Reader> saved(const Model& model, int world_size = 1);

/// Empty if the safetensors file or index holds exactly the model, otherwise the first difference.
std::string difference(FileSystem& files, const std::string& path, const Model& model,
                       std::optional<DType> dtype);

}  // namespace zero::checkpoint
