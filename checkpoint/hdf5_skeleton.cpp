#include "checkpoint/hdf5_skeleton.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "checkpoint/hdf5_driver.h"
#include "checkpoint/hdf5_types.h"
#include "checkpoint/hdf5_virtual.h"
#include "libzero/base/error.h"

namespace zero::checkpoint::hdf5 {
namespace {

constexpr std::uint64_t kPage = 4096;

/// Keeps the pages that were written; the data between them cost nothing.
class SparseMemory : public Medium {
 public:
  void read(std::uint64_t offset, std::span<std::byte> data) override {
    for_each_page(offset, data.size(), [&](auto page, auto in_page, auto at, auto count) {
      const auto found = pages_.find(page);
      if (found == pages_.end()) {
        std::memset(data.data() + at, 0, count);
      } else {
        std::memcpy(data.data() + at, found->second.data() + in_page, count);
      }
    });
  }
  void write(std::uint64_t offset, std::span<const std::byte> data) override {
    size_ = std::max(size_, offset + data.size());
    for_each_page(offset, data.size(), [&](auto page, auto in_page, auto at, auto count) {
      std::vector<std::byte>& bytes = pages_[page];
      bytes.resize(kPage);
      std::memcpy(bytes.data() + in_page, data.data() + at, count);
    });
  }
  std::uint64_t size() override { return size_; }
  void resize(std::uint64_t size) override { size_ = size; }

  std::map<std::uint64_t, std::vector<std::byte>> take_pages() { return std::move(pages_); }

 private:
  template <class Visit>
  static void for_each_page(std::uint64_t offset, std::size_t size, Visit visit) {
    for (std::size_t at = 0; at < size;) {
      const std::uint64_t in_page = (offset + at) % kPage;
      const std::size_t count = std::min<std::size_t>(size - at, kPage - in_page);
      visit(offset + at - in_page, in_page, at, count);
      at += count;
    }
  }

  std::map<std::uint64_t, std::vector<std::byte>> pages_;
  std::uint64_t size_ = 0;
};

void write_attribute(hid_t root, const AttributeSpec& spec) {
  const auto* text = std::get_if<std::string>(&spec.value);
  const Handle type = make_type(text ? ElementType::string(static_cast<std::int64_t>(text->size()))
                                     : ElementType::of(DType::kInt64));
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "make a scalar");
  Handle attribute(
      H5Acreate2(root, spec.name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, "make attribute " + spec.name);
  const void* data = text ? static_cast<const void*>(text->data())
                          : static_cast<const void*>(std::get_if<std::int64_t>(&spec.value));
  check(H5Awrite(attribute.get(), type.get(), data), "write attribute " + spec.name);
  attribute.close("close attribute " + spec.name);
}

/// The library would make missing groups itself, but with times.
class Groups {
 public:
  Groups(hid_t file, bool indexed_links) : file_(file), indexed_links_(indexed_links) {}

  /// Those above an object of this name.
  void make_above(const std::string& object) {
    for (std::size_t slash = object.find('/', 1); slash != std::string::npos;
         slash = object.find('/', slash + 1)) {
      const std::string name = object.substr(0, slash);
      if (made_.insert(name).second) make(name);
    }
  }

 private:
  void make(const std::string& name) {
    const Handle link = make_link_creation(name);
    const Handle creation = make_group_creation(indexed_links_);
    Handle group(H5Gcreate2(file_, name.c_str(), link.get(), creation.get(), H5P_DEFAULT), H5Gclose,
                 "make group " + name);
    group.close("close group " + name);
  }

  hid_t file_;
  bool indexed_links_;
  std::set<std::string> made_;
};

std::uint64_t make_dataset(hid_t file, const DatasetSpec& spec) {
  std::vector<hsize_t> shape(spec.shape.begin(), spec.shape.end());
  const Handle type = make_type(spec.type);
  const Handle link = make_link_creation(spec.name);
  const Handle creation = make_dataset_creation();
  const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                     H5Sclose, "make the shape of " + spec.name);
  Handle dataset(H5Dcreate2(file, spec.name.c_str(), type.get(), space.get(), link.get(),
                            creation.get(), H5P_DEFAULT),
                 H5Dclose, "make dataset " + spec.name);
  const haddr_t offset = H5Dget_offset(dataset.get());
  dataset.close("close dataset " + spec.name);
  if (offset != HADDR_UNDEF) return offset;
  H5Eclear2(H5E_DEFAULT);
  if (std::find(shape.begin(), shape.end(), hsize_t{0}) == shape.end()) {
    throw FormatError("the HDF5 library gave a dataset no place: " + spec.name);
  }
  return 0;
}

void make_link(hid_t file, const LinkSpec& spec) {
  const Handle creation = make_link_creation(spec.name);
  check(H5Lcreate_hard(file, spec.target.c_str(), file, spec.name.c_str(), creation.get(),
                       H5P_DEFAULT),
        "make link " + spec.name);
}

}  // namespace

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  const Session session;
  check(H5get_libversion(&major, &minor, &release), "tell its version");
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

Skeleton make_skeleton(const FileSpec& spec) {
  const Session session;
  SparseMemory memory;
  Skeleton skeleton;
  const Handle access = make_access();
  use_medium(access.get(), memory);
  const Handle creation = make_file_creation(spec.indexed_links);
  Handle file(H5Fcreate("skeleton", H5F_ACC_TRUNC, creation.get(), access.get()), H5Fclose,
              "make a file");
  Groups groups(file.get(), spec.indexed_links);
  for (const AttributeSpec& attribute : spec.attributes) write_attribute(file.get(), attribute);
  for (const DatasetSpec& dataset : spec.datasets) {
    groups.make_above(dataset.name);
    skeleton.offsets.push_back(make_dataset(file.get(), dataset));
  }
  for (const VirtualSpec& dataset : spec.virtuals) {
    groups.make_above(dataset.name);
    make_virtual(file.get(), dataset);
  }
  for (const LinkSpec& link : spec.links) {
    groups.make_above(link.name);
    make_link(file.get(), link);
  }
  check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush a file");
  file.close("close a file");
  skeleton.size = memory.size();
  skeleton.metadata = memory.take_pages();
  return skeleton;
}

}  // namespace zero::checkpoint::hdf5
