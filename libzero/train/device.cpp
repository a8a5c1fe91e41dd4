#include "libzero/train/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/base/fnv.h"
#include "libzero/base/machine.h"
#include "libzero/collective/messages.h"

namespace zero {
namespace {

/// 0 for a CPU.
std::int64_t identity_of(c10::Device device) {
  if (device.is_cpu()) return 0;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  Fnv1a hash;
  hash.add(machine_id());
  hash.add(
      visible_device(device.index(), visible ? std::optional<std::string>(visible) : std::nullopt));
  return static_cast<std::int64_t>(hash.value() | 1u);
}

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

int index_of(const std::string& text, int local_rank, int devices) {
  if (text == "cuda") {
    if (devices == 1) return 0;  // a launcher may give each rank one, all others hidden
    ZERO_REQUIRE(local_rank < devices,
                 "device: this host has more ranks than GPUs; start fewer ranks, or let some share "
                 "with cuda:<number>: this is rank " +
                     std::to_string(local_rank) + " (from 0) of its host, GPUs " +
                     std::to_string(devices));
    return local_rank;
  }
  const auto index = number_in(text.substr(std::string("cuda:").size()));
  ZERO_REQUIRE(index && *index >= 0 && *index < devices,
               "device: this host has no such GPU; give a number below " + std::to_string(devices) +
                   ": " + text);
  return *index;
}

}  // namespace

c10::Device choose_device(const std::string& text, int local_rank,
                          const std::function<CudaFound()>& find) {
  if (text == "cpu") return at::kCPU;
  ZERO_REQUIRE(text == "auto" || text == "cuda" || text.starts_with("cuda:"),
               "device: give cpu, cuda, cuda:<number> or auto: " + text);
  const CudaFound found = find();
  if (found.devices == 0) {
    if (text == "auto") return at::kCPU;
    throw Unavailable("device: there is no CUDA here for '" + text + "': " + found.missing);
  }
  const int index = index_of(text == "auto" ? "cuda" : text, local_rank, found.devices);
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
  if (c10::impl::hasDeviceGuardImpl(device.type()))
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
}

std::string visible_device(int index, const std::optional<std::string>& visible_devices) {
  if (!visible_devices) return std::to_string(index);
  std::size_t begin = 0;
  for (int at = 0; begin <= visible_devices->size(); ++at) {
    const std::size_t comma = std::min(visible_devices->find(',', begin), visible_devices->size());
    if (at == index) {
      std::string entry = visible_devices->substr(begin, comma - begin);
      std::erase(entry, ' ');
      return entry;
    }
    begin = comma + 1;
  }
  return std::to_string(index);
}

void require_own_devices(c10::Device device, Collective& comm) {
  const std::int64_t mine = identity_of(device);
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather({&mine, 1, DType::kInt64}, {all.data(), comm.size(), DType::kInt64},
                  "which device each rank has")
      ->wait();
  wait_until_all_know(comm, "which device each rank has");
  for (std::size_t b = 1; b < all.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      ZERO_REQUIRE(all[a] != all[b] || all[a] == 0,
                   "device: two ranks train on one GPU, where they halve each other's speed and "
                   "room; start fewer ranks, give each its own, or say that they share it "
                   "(--share-device): ranks " +
                       std::to_string(a) + " and " + std::to_string(b) + "; this rank has " +
                       device.str());
    }
  }
}

}  // namespace zero
