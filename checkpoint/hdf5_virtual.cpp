#include "checkpoint/hdf5_virtual.h"

#include <cstring>
#include <vector>

#include "checkpoint/hdf5_types.h"
#include "libzero/base/dtype.h"

namespace zero::checkpoint::hdf5 {
namespace {

using Shape = std::vector<hsize_t>;

Shape shape_of(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

Handle make_space(const Shape& shape) {
  return {H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose,
          "make a shape"};
}

/// What a reader sees where a source is missing; integers have their default, 0.
void set_fill(hid_t creation, const ElementType& type, hid_t file_type) {
  std::uint32_t nan = 0;  // Little-endian: its first bytes are those of a 16-bit type.
  if (type == ElementType::of(DType::kFloat32)) nan = 0x7fc00000u;
  if (type == ElementType::of(DType::kBFloat16)) nan = 0x7fc0u;
  if (type == ElementType::of(DType::kFloat16)) nan = 0x7e00u;
  if (nan != 0) check(H5Pset_fill_value(creation, file_type, &nan), "set what is missing");
}

void map(hid_t creation, hid_t space, const VirtualSpec& spec, const MappingSpec& mapping) {
  hsize_t count = 1;
  for (const std::int64_t n : mapping.extent) count *= static_cast<hsize_t>(n);
  if (!spec.shape.empty()) {
    const Shape start = shape_of(mapping.start), extent = shape_of(mapping.extent);
    check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr),
          "select a box of " + spec.name);
  }
  const Handle source = make_space({static_cast<hsize_t>(mapping.size)});
  const auto offset = static_cast<hsize_t>(mapping.offset);
  check(H5Sselect_hyperslab(source.get(), H5S_SELECT_SET, &offset, nullptr, &count, nullptr),
        "select a part of " + mapping.dataset);
  check(
      H5Pset_virtual(creation, space, mapping.file.c_str(), mapping.dataset.c_str(), source.get()),
      "map " + mapping.dataset + " into " + spec.name);
}

}  // namespace

void make_virtual(hid_t file, const VirtualSpec& spec) {
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make dataset properties");
  check(H5Pset_obj_track_times(creation.get(), false), "switch times off");
  const Handle type = make_type(spec.type);
  set_fill(creation.get(), spec.type, type.get());
  const Handle space = make_space(shape_of(spec.shape));
  for (const MappingSpec& mapping : spec.mappings) {
    map(creation.get(), space.get(), spec, mapping);
  }
  check(H5Sselect_all(space.get()), "select everything");
  const Handle link = make_link_creation(spec.name);
  Handle dataset(H5Dcreate2(file, spec.name.c_str(), type.get(), space.get(), link.get(),
                            creation.get(), H5P_DEFAULT),
                 H5Dclose, "make virtual dataset " + spec.name);
  dataset.close("close virtual dataset " + spec.name);
}

}  // namespace zero::checkpoint::hdf5
