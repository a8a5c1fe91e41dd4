#pragma once

/// Training states whose every element is known, saved at any world size as a trainer saves them.

#include "checkpoint/ownership.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

struct Model {
  CommonState common;
  bool moments = true;
  bool further_states =
      true;  ///< "average" of some trainable parameters, "scratch" of some frozen.
};

/// One trainable parameter of each size, and with `extras` frozen ones, buffers, aliases, one
/// without elements and a scalar.
Model make_model(const std::vector<std::int64_t>& sizes, const LayoutOptions& options,
                 bool extras = true);

/// States of a parameter that is no alias, with their dtypes, sorted.
std::vector<std::pair<std::string, DType>> kinds_of(const Model& model, std::size_t row);

/// The elements of an extent of a state.
std::vector<std::byte> elements(const Model& model, const std::string& state, DType dtype,
                                const Extent& extent);

/// As Ownership demands. Blobs: rank r has "rng" of r
/// bytes and "sampler" of 3.
void save_as_trainer(Store& store, const Model& model, int world_size);

/// The blobs that save_as_trainer gives a rank.
std::map<std::string, Blob> blobs_of(int rank);

/// Empty if the reader gives every element of the model, whatever its world size, otherwise the
/// first difference.
std::string difference(const Reader& reader, const Model& model);

}  // namespace zero::checkpoint
