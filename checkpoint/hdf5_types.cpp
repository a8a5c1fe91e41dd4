#include "checkpoint/hdf5_types.h"

#include <algorithm>

namespace zero::checkpoint::hdf5 {
namespace {

Handle copy_type(hid_t type) {
  return {H5Tcopy(type), H5Tclose, "copy a type"};
}

Handle make_float16(std::size_t exponent_bits, std::size_t mantissa_bits, std::size_t bias) {
  Handle type = copy_type(H5T_IEEE_F32LE);
  check(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits),
        "set the fields of a 16-bit type");
  check(H5Tset_precision(type.get(), 16), "set the precision of a 16-bit type");
  check(H5Tset_size(type.get(), 2), "set the size of a 16-bit type");
  check(H5Tset_ebias(type.get(), bias), "set the bias of a 16-bit type");
  return type;
}

Handle make_string(std::int64_t width) {
  Handle type = copy_type(H5T_C_S1);
  check(H5Tset_size(type.get(), static_cast<std::size_t>(width)), "set the length of a text");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "set the padding of a text");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "set the encoding of a text");
  return type;
}

void keep_in_headers(const Handle& creation, bool indexed_links) {
  check(H5Pset_obj_track_times(creation.get(), false), "switch times off");
  if (indexed_links) return;
  check(H5Pset_link_phase_change(creation.get(), 65535, 0), "keep links in headers");
}

}  // namespace

Handle make_type(const ElementType& type) {
  if (type.kind == ElementType::Kind::kFloat64) return copy_type(H5T_IEEE_F64LE);
  if (type.kind == ElementType::Kind::kString) return make_string(type.width);
  switch (type.dtype) {
    case DType::kFloat32:
      return copy_type(H5T_IEEE_F32LE);
    case DType::kBFloat16:
      return make_float16(8, 7, 127);
    case DType::kFloat16:
      return make_float16(5, 10, 15);
    case DType::kInt64:
      return copy_type(H5T_STD_I64LE);
    case DType::kUInt8:
      break;
  }
  return copy_type(H5T_STD_U8LE);
}

Handle make_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make access properties");
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "set versions");
  check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI), "set the close degree");
  return access;
}

Handle make_file_creation(bool indexed_links) {
  Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make file properties");
  keep_in_headers(creation, indexed_links);
  return creation;
}

Handle make_group_creation(bool indexed_links) {
  Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "make group properties");
  keep_in_headers(creation, indexed_links);
  return creation;
}

Handle make_dataset_creation() {
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make dataset properties");
  check(H5Pset_obj_track_times(creation.get(), false), "switch times off");
  check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), "set the layout");
  check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "allocate early");
  check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "never fill");
  return creation;
}

Handle make_link_creation(const std::string& name) {
  Handle creation(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make link properties");
  const bool ascii = std::all_of(name.begin(), name.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!ascii) check(H5Pset_char_encoding(creation.get(), H5T_CSET_UTF8), "set an encoding");
  return creation;
}

}  // namespace zero::checkpoint::hdf5
