#include "libzero/collective/collective.h"

#include <utility>

namespace zero {
namespace {

class EndedWork final : public Work {
 public:
  explicit EndedWork(std::exception_ptr error) : error_(std::move(error)) {}

  bool test() noexcept override { return true; }
  bool lead_stream(void*) noexcept override { return !error_; }

  void wait() override {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::exception_ptr error_;
};

}  // namespace

WorkPtr finished_work() {
  static const WorkPtr work = std::make_shared<EndedWork>(nullptr);
  return work;
}

WorkPtr failed_work(std::exception_ptr error) {
  return std::make_shared<EndedWork>(std::move(error));
}

}  // namespace zero
