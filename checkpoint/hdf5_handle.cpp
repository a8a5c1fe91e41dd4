#include "checkpoint/hdf5_handle.h"

#include "libzero/base/error.h"

namespace zero::checkpoint::hdf5 {
namespace {

// Not every build of the library is thread-safe, and those that are have one lock, too.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

herr_t append(unsigned, const H5E_error2_t* error, void* text) {
  auto& explanation = *static_cast<std::string*>(text);
  if (error->desc != nullptr && explanation.size() < 400) {
    explanation.append(explanation.empty() ? "" : ", ").append(error->desc);
  }
  return 0;
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &client_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() {
  H5Eset_auto2(H5E_DEFAULT, print_, client_);
}

void fail(std::string_view action) {
  std::string explanation;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append, &explanation);
  H5Eclear2(H5E_DEFAULT);
  throw FormatError("the HDF5 library refused to " + std::string(action) + ": " + explanation);
}

}  // namespace zero::checkpoint::hdf5
