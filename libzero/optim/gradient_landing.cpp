#include "libzero/optim/gradient_landing.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {
namespace {

constexpr std::size_t kPlaces = 2;
constexpr std::int64_t kAlignment = 64;

std::int64_t room_for(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<std::string> names_of(const Layout& layout, const ParameterTable& model) {
  std::vector<std::string> names;
  for (const Bucket& bucket : layout.buckets()) {
    const auto name = [&](std::int32_t p) { return model.specs[static_cast<std::size_t>(p)].name; };
    names.push_back("the gradients of bucket " + std::to_string(names.size()) + " (" +
                    name(bucket.parameters.front()) + " .. " + name(bucket.parameters.back()) +
                    ") to reach the host");
  }
  return names;
}

}  // namespace

GradientLanding::GradientLanding(const Layout& layout, const ParameterTable& model,
                                 std::chrono::milliseconds patience)
    : layout_(layout),
      model_(model),
      patience_(patience),
      names_(names_of(layout, model)),
      down_(c10::impl::VirtualGuardImpl(model.device.type()).getStreamFromGlobalPool(model.device)),
      marks_(model.device, layout.buckets().size()) {
  std::int64_t largest = 0;
  for (const Bucket& bucket : layout_.buckets()) {
    std::int64_t bytes = 0;
    for (const std::int32_t p : bucket.parameters)
      bytes += room_for(model_.tensors[static_cast<std::size_t>(p)]);
    largest = std::max(largest, bytes);
  }
  waiting_.reserve(layout_.buckets().size());
  for (std::size_t i = 0; i < kPlaces; ++i) {
    places_.emplace_back(model_.device.type());
    places_.back().memory =
        pinned_tensor({largest}, at::kByte, "gradients on their way to the host");
    make_views(places_.back());
  }
}

GradientLanding::~GradientLanding() {
  if (comes_to_rest(down_, hangs_ ? std::chrono::milliseconds(0) : patience_)) return;
  std::vector<at::Tensor> in_use;
  for (Place& place : places_) {
    in_use.push_back(std::move(place.memory));
    in_use.insert(in_use.end(), place.on_the_way.begin(), place.on_the_way.end());
  }
  keep_for_good(std::move(in_use));
}

void GradientLanding::make_views(Place& place) const {
  place.views.resize(model_.tensors.size());
  for (const Bucket& bucket : layout_.buckets()) {
    std::int64_t begin = 0;
    for (const std::int32_t p : bucket.parameters) {
      const at::Tensor& tensor = model_.tensors[static_cast<std::size_t>(p)];
      const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
      place.views[static_cast<std::size_t>(p)] =
          place.memory.narrow(0, begin, bytes).view(tensor.scalar_type()).view(tensor.sizes());
      begin += room_for(tensor);
    }
  }
}

std::int64_t GradientLanding::bytes() const noexcept {
  std::int64_t total = 0;
  for (const Place& place : places_) total += static_cast<std::int64_t>(place.memory.nbytes());
  return total;
}

void GradientLanding::begin(std::int32_t bucket, std::vector<Contribution>& by_parameter,
                            bool zero_after) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({bucket, &by_parameter, zero_after});
  start_waiting();
}

/// Under the mutex.
void GradientLanding::start_waiting() {
  while (!waiting_.empty()) {
    Place* const place = place_of(-1);
    if (place == nullptr) return;
    const Request request = waiting_.front();
    waiting_.erase(waiting_.begin());
    place->bucket = request.bucket;
    place->failure = nullptr;
    try {
      copy_down(request, *place);
    } catch (...) {
      place->failure = std::current_exception();
    }
  }
}

void GradientLanding::copy_down(const Request& request, Place& place) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_down(down_);
  marks_.block(request.bucket, down_);
  const Bucket& bucket = layout_.buckets()[static_cast<std::size_t>(request.bucket)];
  for (const std::int32_t parameter : bucket.parameters) {
    const auto p = static_cast<std::size_t>(parameter);
    at::Tensor& gradient = (*request.by_parameter)[p].gradient;
    if (!gradient.defined()) continue;
    place.on_the_way.push_back(gradient);
    at::Tensor landed = place.views[p];
    if (gradient.scalar_type() != landed.scalar_type()) {  // a hook has replaced it
      landed =
          pinned_tensor(gradient.sizes(), gradient.scalar_type(), "a gradient of another dtype");
    }
    landed.copy_(gradient, /*non_blocking=*/true);
    if (request.zero_after) gradient.zero_();
    gradient = std::move(landed);
  }
  place.landed.record(down_);
}

GradientLanding::Place* GradientLanding::place_of(std::int32_t bucket) {
  for (Place& place : places_) {
    if (place.bucket == bucket) return &place;
  }
  return nullptr;
}

void GradientLanding::await(std::int32_t bucket) {
  Place* place = nullptr;
  {
    const std::lock_guard lock(mutex_);
    place = place_of(bucket);
    if (place == nullptr)
      throw Error("gradients: a bucket is waited for that did not leave the device: " +
                  std::to_string(bucket));
    if (place->failure) std::rethrow_exception(place->failure);
  }
  try {
    wait_for(place->landed, patience_, names_[static_cast<std::size_t>(bucket)]);
  } catch (const CommError&) {
    hangs_ = true;
    throw;
  }
  place->on_the_way.clear();
}

void GradientLanding::release(std::int32_t bucket) noexcept {
  const std::lock_guard lock(mutex_);
  if (Place* const place = place_of(bucket)) {
    place->bucket = -1;
  } else {
    std::erase_if(waiting_, [&](const Request& request) { return request.bucket == bucket; });
  }
  start_waiting();
}

}  // namespace zero
