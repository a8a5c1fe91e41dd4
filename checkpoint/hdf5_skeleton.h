#pragma once

/// The bytes of an HDF5 file around its data: the library writes them into memory, with the data's
/// places left free.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "checkpoint/element_type.h"

namespace zero::checkpoint::hdf5 {

struct AttributeSpec {
  std::string name;
  std::variant<std::int64_t, std::string> value;  ///< A text is not empty.
  friend bool operator==(const AttributeSpec&, const AttributeSpec&) = default;
};

struct DatasetSpec {
  std::string name;  ///< "/group/group/name": groups are made as needed.
  ElementType type;
  std::vector<std::int64_t> shape;
};

/// `count` elements of a one-dimensional dataset of another file, from `offset`, seen as a box of a
/// virtual one.
struct MappingSpec {
  std::string file;  ///< Without a path: it lies in the same folder.
  std::string dataset;
  std::int64_t size = 0;  ///< Of that dataset.
  std::int64_t offset = 0;
  std::vector<std::int64_t> start, extent;  ///< Of the box; one each for every dimension.
};

/// Shows elements of other files. Where there are none: NaN, 0 for integers.
struct VirtualSpec {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::vector<MappingSpec> mappings;
};

/// Another name of a dataset or group.
struct LinkSpec {
  std::string name;
  std::string target;
};

struct FileSpec {
  std::vector<AttributeSpec> attributes;   ///< Of the root.
  std::vector<DatasetSpec> datasets;       ///< Get their places in this order.
  std::vector<VirtualSpec> virtuals = {};  ///< Have no place.
  std::vector<LinkSpec> links = {};        ///< Hard ones.
  bool indexed_links = false;              ///< For groups of thousands of objects.
};

struct Skeleton {
  std::uint64_t size = 0;  ///< Of the whole file.
  std::map<std::uint64_t, std::vector<std::byte>>
      metadata;                        ///< By offset; disjoint, and none in a dataset's place.
  std::vector<std::uint64_t> offsets;  ///< Of the datasets; 0 for empty ones.
};

/// Of the library, "1.10.8" for instance.
std::string library_version();

/// Equal specs give equal skeletons, with one version of the library. Thread-safe. Throws
/// FormatError if the library refuses, for too many datasets of one group for instance.
Skeleton make_skeleton(const FileSpec& spec);

}  // namespace zero::checkpoint::hdf5
