#include "libzero/train/autocast.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <string>

#include "libzero/base/error.h"

namespace zero {
namespace {

void require_device(c10::DeviceType device) {
  const auto& devices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;
  ZERO_REQUIRE(std::find(devices.begin(), devices.end(), device) != devices.end(),
               "Autocast: LibTorch has no autocast for this kind of device; use at::kCPU or "
               "at::kCUDA: " +
                   c10::DeviceTypeName(device, /*lower_case=*/true));
}

c10::ScalarType checked(c10::ScalarType dtype) {
  ZERO_REQUIRE(
      dtype == at::kBFloat16 || dtype == at::kHalf,
      "Autocast: the dtype must be bfloat16 or float16; for float32 use Autocast::off(): " +
          std::string(c10::toString(dtype)));
  return dtype;
}

}  // namespace

AutocastState autocast_state(c10::DeviceType device) {
  require_device(device);
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

Autocast::Autocast(c10::DeviceType device, c10::ScalarType dtype)
    : Autocast(device, AutocastState{true, dtype}) {}

Autocast Autocast::off(c10::DeviceType device) {
  return {device, AutocastState{false, autocast_state(device).dtype}};
}

Autocast::Autocast(c10::DeviceType device, const AutocastState& state)
    : device_(device), before_(autocast_state(device)) {
  if (state.enabled) checked(state.dtype);
  at::autocast::set_autocast_enabled(device, state.enabled);
  at::autocast::set_autocast_dtype(device, state.dtype);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(device_, before_.dtype);
  at::autocast::set_autocast_enabled(device_, before_.enabled);
}

}  // namespace zero
