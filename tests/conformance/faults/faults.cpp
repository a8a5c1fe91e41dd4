#include "tests/conformance/faults/faults.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/conformance/faults/cases.h"

namespace zero::fault_test {
namespace {

template <typename Subject>
class FaultTest : public ::testing::Test {
 public:
  FaultTest(std::function<void(const Subject&)> run, Subject subject)
      : run_(std::move(run)), subject_(std::move(subject)) {}

  void TestBody() override { run_(subject_); }

 private:
  const std::function<void(const Subject&)> run_;
  const Subject subject_;
};

template <typename Subject>
void add(const std::string& suite, const std::vector<Case<Subject>>& cases,
         const Subject& subject) {
  for (const Case<Subject>& claim : cases) {
    ::testing::RegisterTest(suite.c_str(), claim.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [run = claim.run, subject]() -> ::testing::Test* {
                              return new FaultTest<Subject>(run, subject);
                            });
  }
}

}  // namespace

bool register_thread_faults(const Backend& backend) {
  const std::string suite = backend.name + "Failures";
  for (const auto& group : {silence_cases(), abort_cases(), peace_cases()}) {
    add(suite, group, backend);
  }
  return true;
}

bool register_process_faults(const std::string& name, const std::string& program) {
  add(name + "Processes", process_cases(), program);
  return true;
}

void reduce_scatter(Collective& comm, std::int64_t each, const Epilogue& epilogue) {
  const std::vector<float> in(static_cast<std::size_t>(each * comm.size()), 1.0f);
  std::vector<float> out(static_cast<std::size_t>(each));
  if (each == kLarge) comm.barrier("all have their memory")->wait();
  comm.reduce_scatter({in.data(), each * comm.size(), DType::kFloat32},
                      {out.data(), each, DType::kFloat32}, {false, epilogue, "bucket 7"})
      ->wait();
}

Epilogue at_the_first_piece(std::function<void()> action) {
  return [action = std::move(action)](std::int64_t begin, std::int64_t) {
    if (begin == 0) action();
  };
}

}  // namespace zero::fault_test
