#include "checkpoint/hdf5_driver.h"

#include <H5FDpublic.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <memory>

#include "checkpoint/hdf5_handle.h"

namespace zero::checkpoint::hdf5 {
namespace {

constexpr hsize_t kAlignedSize = 65536;
constexpr haddr_t kAlignment = 4096;

struct Info {
  Medium* medium;
};

// The library reads the first member and never frees: it hands the pointer back to close().
struct Open {
  H5FD_t base{};
  Medium* medium = nullptr;
  haddr_t end_of_allocation = 0;
};

Open& cast(const H5FD_t* file) {
  return *reinterpret_cast<Open*>(const_cast<H5FD_t*>(file));
}

/// Exceptions must not pass through C.
template <class Call>
herr_t guarded(Call call) noexcept {
  try {
    call();
    return 0;
  } catch (...) {
    return -1;
  }
}

H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<const Info*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  auto file = std::make_unique<Open>();
  file->medium = info->medium;
  return &file.release()->base;
}

herr_t close(H5FD_t* file) {
  delete &cast(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = 0;  // No aggregation, no caching: what is where depends on nothing but the calls.
  return 0;
}

/// Aligns large objects here: the library would note the gaps before them as free and put later,
/// small objects there, and telling it not to (file space strategy NONE) would add an object with
/// the time of day to each file.
haddr_t allocate(H5FD_t* file, H5FD_mem_t, hid_t, hsize_t size) {
  haddr_t& end = cast(file).end_of_allocation;
  const haddr_t alignment = size >= kAlignedSize ? kAlignment : 1;
  const haddr_t address = (end + alignment - 1) / alignment * alignment;
  end = address + size;
  return address;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) {
  return cast(file).end_of_allocation;
}

herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  cast(file).end_of_allocation = address;
  return 0;
}

haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) {
  haddr_t size = HADDR_UNDEF;
  guarded([&] { size = cast(file).medium->size(); });
  return size;
}

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* buffer) {
  return guarded([&] {
    cast(file).medium->read(address, {static_cast<std::byte*>(buffer), size});
  });
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size,
             const void* buffer) {
  return guarded([&] {
    cast(file).medium->write(address, {static_cast<const std::byte*>(buffer), size});
  });
}

herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  return guarded([&] {
    Open& opened = cast(file);
    if (opened.medium->size() != opened.end_of_allocation) {
      opened.medium->resize(opened.end_of_allocation);
    }
  });
}

H5FD_class_t make_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 2)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(512);  // From the range for private use.
#endif
  driver.name = "libzero";
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_SEMI;
  driver.fapl_size = sizeof(Info);
  driver.open = open;
  driver.close = close;
  driver.query = query;
  driver.alloc = allocate;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate;
  const H5FD_mem_t single[] = H5FD_FLMAP_SINGLE;
  for (int type = 0; type < H5FD_MEM_NTYPES; ++type) driver.fl_map[type] = single[type];
  return driver;
}

}  // namespace

void use_medium(hid_t access, Medium& medium) {
  static const H5FD_class_t driver = make_class();
  // Registered until the library closes: H5close, at the end of the process, forgets it.
  static const hid_t id = H5FDregister(&driver);
  const Info info{&medium};
  check(H5Pset_driver(access, check(id, "register a driver"), &info), "set the driver of a file");
}

}  // namespace zero::checkpoint::hdf5
