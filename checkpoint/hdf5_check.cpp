#include "checkpoint/hdf5_check.h"

#include <set>

#include "checkpoint/hdf5_driver.h"
#include "checkpoint/hdf5_types.h"
#include "libzero/base/error.h"

namespace zero::checkpoint::hdf5 {
namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxLinks = 200000;
constexpr std::size_t kMaxDifferences = 100;

class ReadOnly : public Medium {
 public:
  explicit ReadOnly(File& file) : file_(file), size_(file.size()) {}
  void read(std::uint64_t offset, std::span<std::byte> data) override {
    read_all(file_, data, offset, "an HDF5 file");
  }
  void write(std::uint64_t, std::span<const std::byte>) override {
    throw IoError("a file that is only read was written");
  }
  std::uint64_t size() override { return size_; }
  void resize(std::uint64_t) override { throw IoError("a file that is only read was resized"); }

 private:
  File& file_;
  std::uint64_t size_;
};

class Walk {
 public:
  Walk(hid_t file, const FileRecord& record, std::vector<std::string>& differences)
      : file_(file), record_(record), differences_(differences) {}

  void group(const std::string& path, int depth) {
    if (depth > kMaxDepth) return differ(path, "groups are nested too deeply");
    const Handle opened(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), H5Gclose, "open " + path);
    H5G_info_t info;
    check(H5Gget_info(opened.get(), &info), "look at " + path);
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      link(opened.get(), i, path == "/" ? path : path + "/", depth);
    }
  }

  std::size_t datasets() const noexcept { return seen_.size(); }

 private:
  void differ(const std::string& object, const std::string& what) {
    differences_.push_back(object + ": " + what);
    if (differences_.size() >= kMaxDifferences) throw FormatError("there are more differences");
  }

  void link(hid_t group_id, hsize_t index, const std::string& folder, int depth) {
    // Hard links can make few groups look like very many.
    if (++visited_ > kMaxLinks) throw FormatError("the file has too many links");
    char name[513];
    const ssize_t length = check(H5Lget_name_by_idx(group_id, ".", H5_INDEX_NAME, H5_ITER_INC,
                                                    index, name, sizeof name, H5P_DEFAULT),
                                 "read a name in " + folder);
    if (static_cast<std::size_t>(length) >= sizeof name)
      return differ(folder, "a name is too long");
    const std::string path = folder + name;
    H5L_info_t info;
    check(H5Lget_info(group_id, name, &info, H5P_DEFAULT), "look at " + path);
    if (info.type != H5L_TYPE_HARD) return differ(path, "it is no hard link");
    const Handle object(H5Oopen(group_id, name, H5P_DEFAULT), H5Oclose, "open " + path);
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_GROUP) return group(path, depth + 1);
    if (type != H5I_DATASET) return differ(path, "it is neither group nor dataset");
    dataset(object.get(), path);
  }

  void dataset(hid_t id, const std::string& path) {
    const DatasetRecord* record = record_.find(path);
    if (record == nullptr) return differ(path, "the manifest does not list it");
    if (!seen_.insert(path).second) return differ(path, "it is there twice");
    const Handle creation(H5Dget_create_plist(id), H5Pclose, "look at " + path);
    if (H5Pget_layout(creation.get()) != H5D_CONTIGUOUS) return differ(path, "not contiguous");
    if (H5Pget_external_count(creation.get()) != 0) return differ(path, "stored in other files");
    if (H5Pget_nfilters(creation.get()) != 0) return differ(path, "it has filters");
    const Handle type(H5Dget_type(id), H5Tclose, "read the type of " + path);
    const Handle wanted = make_type(record->type);
    if (check(H5Tequal(type.get(), wanted.get()), "compare types") == 0) {
      differ(path, "its type is not the manifest's");
    }
    compare_shape(id, *record);
    const haddr_t offset = H5Dget_offset(id);
    if (record->bytes > 0 && offset != record->offset) {
      differ(path, "its offset is not the manifest's");
    }
  }

  void compare_shape(hid_t id, const DatasetRecord& record) {
    const Handle space(H5Dget_space(id), H5Sclose, "read the shape of " + record.name);
    const int rank = check(H5Sget_simple_extent_ndims(space.get()), "read a shape");
    std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
    if (rank > 0)
      check(H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr), "read a shape");
    if (shape != std::vector<hsize_t>(record.shape.begin(), record.shape.end())) {
      differ(record.name, "its shape is not the manifest's");
    }
  }

  hid_t file_;
  const FileRecord& record_;
  std::vector<std::string>& differences_;
  std::set<std::string> seen_;
  std::size_t visited_ = 0;
};

bool equals(hid_t root, const AttributeSpec& spec) {
  if (check(H5Aexists(root, spec.name.c_str()), "look for an attribute") == 0) return false;
  const Handle attribute(H5Aopen(root, spec.name.c_str(), H5P_DEFAULT), H5Aclose,
                         "open attribute " + spec.name);
  const auto* text = std::get_if<std::string>(&spec.value);
  const Handle type = make_type(text ? ElementType::string(static_cast<std::int64_t>(text->size()))
                                     : ElementType::of(DType::kInt64));
  const Handle stored(H5Aget_type(attribute.get()), H5Tclose, "read a type");
  const Handle space(H5Aget_space(attribute.get()), H5Sclose, "read a shape");
  if (check(H5Tequal(type.get(), stored.get()), "compare types") == 0 ||
      H5Sget_simple_extent_type(space.get()) != H5S_SCALAR) {
    return false;
  }
  if (text == nullptr) {
    std::int64_t value = 0;
    check(H5Aread(attribute.get(), type.get(), &value), "read attribute " + spec.name);
    return value == *std::get_if<std::int64_t>(&spec.value);
  }
  std::string value(text->size(), '\0');
  check(H5Aread(attribute.get(), type.get(), value.data()), "read attribute " + spec.name);
  return value == *text;
}

}  // namespace

std::vector<std::string> check_structure(File& file, const FileRecord& record,
                                         const std::vector<AttributeSpec>& attributes) {
  const Session session;
  ReadOnly medium(file);
  std::vector<std::string> differences;
  try {
    const Handle access = make_access();
    use_medium(access.get(), medium);
    Handle opened(H5Fopen("checkpoint", H5F_ACC_RDONLY, access.get()), H5Fclose, "open the file");
    {
      const Handle root(H5Gopen2(opened.get(), "/", H5P_DEFAULT), H5Gclose, "open the root");
      for (const AttributeSpec& spec : attributes) {
        if (!equals(root.get(), spec)) {
          differences.push_back("attribute " + spec.name + " is missing or not the manifest's");
        }
      }
    }
    Walk walk(opened.get(), record, differences);
    walk.group("/", 0);
    if (walk.datasets() != record.datasets.size()) {
      differences.push_back("datasets of the manifest are missing");
    }
    opened.close("close the file");
  } catch (const FormatError& error) {
    differences.push_back(error.what());
  }
  return differences;
}

}  // namespace zero::checkpoint::hdf5
