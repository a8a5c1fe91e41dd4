// What is CUDA's own way, and the caller must not fall for.

#include "backends/nccl/device.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>

namespace zero::nccl_test {
namespace {

/// Naming a device to cudaSetDevice() makes it take memory; a new thread has device 0 without that.
thread_local int device_now = 0;
std::set<int>& used() {
  static std::set<int> devices;
  return devices;
}

nccl::Apis counting_apis() {
  nccl::Apis apis;
  apis.cuda.get_device = [](int* device) {
    *device = device_now;
    return 0;
  };
  apis.cuda.set_device = [](int device) {
    device_now = device;
    used().insert(device);
    return 0;
  };
  apis.cuda.device_primary_ctx_get_state = [](int device, unsigned*, int* active) {
    *active = used().contains(device) ? 1 : 0;
    return 0;
  };
  return apis;
}

void on_new_thread(const std::function<void()>& body) {
  used().clear();
  std::thread(body).join();
}

TEST(OnDevice, OfANewThreadTakesNoMemoryOfDevice0) {
  const nccl::Apis apis = counting_apis();
  on_new_thread([&] {
    for (int i = 0; i < 2; ++i) const nccl::OnDevice here(apis, 5);
  });
  EXPECT_EQ(used(), std::set<int>{5});
}

TEST(OnDevice, GivesBackADeviceThatSomebodyUses) {
  const nccl::Apis apis = counting_apis();
  on_new_thread([&] {
    apis.cuda.set_device(0);
    {
      const nccl::OnDevice here(apis, 5);
      EXPECT_EQ(device_now, 5);
    }
    EXPECT_EQ(device_now, 0);
  });
}

TEST(OnDevice, NamesItsDeviceAlsoWhereANewThreadSeemsToHaveIt) {
  const nccl::Apis apis = counting_apis();
  on_new_thread([&] { const nccl::OnDevice here(apis, 0); });
  EXPECT_EQ(used(), std::set<int>{0});
}

TEST(OnDevice, GivesBackAnyDeviceWhereTheDriverCannotBeAsked) {
  nccl::Apis apis = counting_apis();
  apis.cuda.device_primary_ctx_get_state = nullptr;
  on_new_thread([&] {
    { const nccl::OnDevice here(apis, 5); }
    EXPECT_EQ(device_now, 0);
  });
}

}  // namespace
}  // namespace zero::nccl_test
