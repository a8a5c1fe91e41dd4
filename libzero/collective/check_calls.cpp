#include "libzero/collective/check_calls.h"

#include <string>

#include "libzero/base/error.h"

namespace zero {
namespace {

/// One call under scrutiny: puts its name and label in front of every complaint.
class Check {
 public:
  Check(std::string_view operation, std::string_view label)
      : operation_(operation), label_(label) {}

  [[noreturn]] void refuse(const std::string& complaint) const {
    std::string text(operation_);
    if (!label_.empty()) text += " [" + std::string(label_) + "]";
    throw ContractError(text + ": " + complaint);
  }

  void buffer(const char* name, const ConstBuffer& buffer) const {
    if (name_of(buffer.dtype) == "unknown") {
      refuse(std::string(name) +
             ".dtype is no zero::DType: " + std::to_string(static_cast<int>(buffer.dtype)));
    }
    if (buffer.count < 0) {
      refuse(std::string(name) + ".count must not be negative: " + std::to_string(buffer.count));
    }
    if (buffer.count > 0 && buffer.data == nullptr) {
      refuse(std::string(name) + ".data must not be null when count is not 0: count " +
             std::to_string(buffer.count));
    }
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(buffer.count, size_of(buffer.dtype), &bytes)) {
      refuse(std::string(name) +
             ".count is more than memory can hold: " + std::to_string(buffer.count));
    }
  }

  /// `whole` must hold one slice for every rank.
  void slices(const char* whole_name, std::int64_t whole, const char* slice_name,
              std::int64_t slice, int size) const {
    std::int64_t expected = 0;
    if (!__builtin_mul_overflow(slice, std::int64_t{size}, &expected) && whole == expected) return;
    refuse(std::string(whole_name) + ".count must be size() * " + slice_name +
           ".count: " + std::to_string(whole) + " is not " + std::to_string(size) + " * " +
           std::to_string(slice));
  }

 private:
  std::string_view operation_;
  std::string_view label_;
};

ConstBuffer read_only(const Buffer& buffer) {
  return {buffer.data, buffer.count, buffer.dtype};
}

std::uintptr_t begin_of(const ConstBuffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data);
}

std::uintptr_t end_of(const ConstBuffer& buffer) {
  return begin_of(buffer) + static_cast<std::uintptr_t>(buffer.count * size_of(buffer.dtype));
}

bool overlap(const ConstBuffer& a, const ConstBuffer& b) {
  return a.count > 0 && b.count > 0 && begin_of(a) < end_of(b) && begin_of(b) < end_of(a);
}

}  // namespace

void check_reduce_scatter(const ConstBuffer& in, const Buffer& out, std::string_view label,
                          int size) {
  const Check check("reduce_scatter", label);
  check.buffer("in", in);
  check.buffer("out", read_only(out));
  if (!is_floating(in.dtype)) {
    check.refuse("in must be float32, bfloat16 or float16: " + std::string(name_of(in.dtype)));
  }
  if (out.dtype != DType::kFloat32) {
    check.refuse("out must be float32, in which sums are accumulated: " +
                 std::string(name_of(out.dtype)));
  }
  check.slices("in", in.count, "out", out.count, size);
  if (overlap(in, read_only(out))) {
    check.refuse("in and out must not overlap; give out memory of its own");
  }
}

void check_all_gather(const ConstBuffer& in, const Buffer& out, std::string_view label, int rank,
                      int size) {
  const Check check("all_gather", label);
  check.buffer("in", in);
  check.buffer("out", read_only(out));
  if (in.dtype != out.dtype) {
    check.refuse("in and out must have one element type: " + std::string(name_of(in.dtype)) +
                 " is not " + std::string(name_of(out.dtype)));
  }
  check.slices("out", out.count, "in", in.count, size);
  const auto slice_bytes = static_cast<std::uintptr_t>(in.count * size_of(in.dtype));
  const bool in_place =
      begin_of(in) == begin_of(read_only(out)) + static_cast<std::uintptr_t>(rank) * slice_bytes;
  if (!in_place && overlap(in, read_only(out))) {
    check.refuse("in must be slice rank() of out, or not overlap it at all: rank " +
                 std::to_string(rank));
  }
}

void check_all_reduce(const Buffer& data, ReduceOp op, std::string_view label) {
  const Check check("all_reduce", label);
  check.buffer("data", read_only(data));
  if (op != ReduceOp::kSum && op != ReduceOp::kMax) {
    check.refuse("op is no zero::ReduceOp: " + std::to_string(static_cast<int>(op)));
  }
  const bool offered =
      data.dtype == DType::kInt64 || (is_floating(data.dtype) && op == ReduceOp::kSum);
  if (!offered) {
    check.refuse(
        std::string("sums take float32, bfloat16, float16 and int64, maxima int64 only: ") +
        (op == ReduceOp::kSum ? "sum of " : "maximum of ") + std::string(name_of(data.dtype)));
  }
}

void check_broadcast(const Buffer& data, int root, std::string_view label, int size) {
  const Check check("broadcast", label);
  check.buffer("data", read_only(data));
  if (root < 0 || root >= size) {
    check.refuse("root must be a rank of this communicator: " + std::to_string(root) +
                 " is not in 0.." + std::to_string(size - 1));
  }
}

void check_not_shut_down(bool shut_down, std::string_view operation, std::string_view label) {
  if (!shut_down) return;
  Check(operation, label)
      .refuse("this rank has shut the communicator down; make calls before shutdown()");
}

}  // namespace zero
