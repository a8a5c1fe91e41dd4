#pragma once

/// What ranks say to each other on the host: what they are about to do, and payload that lies in
/// host memory.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/nccl/fate.h"
#include "libzero/collective/call_header.h"
#include "libzero/collective/collective.h"

namespace zero::nccl {

/// Where a call's payload lies. From kDevice on: in the GPU's memory; from kRegistered on NCCL was
/// told of it, or of the input or output only.
enum class Memory : std::int32_t {
  kNone = 0,
  kHost = 1,
  kDevice = 2,
  kRegistered = 3,
  kRegisteredInput = 4,
  kRegisteredOutput = 5,
};

class Talk {
 public:
  /// `control` is this object's own from now on.
  Talk(std::shared_ptr<Collective> control, Fate& fate)
      : control_(std::move(control)), fate_(fate) {}

  Collective& control() noexcept { return *control_; }
  int rank() const noexcept { return control_->rank(); }
  int size() const noexcept { return control_->size(); }

  /// All ranks show each other what they are about to do, and where their payload lies. Throws
  /// ContractError on a mismatch, CommError if somebody does not come.
  void agree(const CallHeader& call, Memory memory);

  /// Collective: true on every rank if `mine` is on all of them. Throws CommError.
  bool all_have(bool mine, std::string_view label);

  /// Runs `function`, calls of the control that belong to `call`; a CommError of the control is
  /// told to the fate and thrown as one about `call`.
  void run(const CallHeader& call, const std::function<void(Collective& control)>& function);

  /// Tells why this rank fails. Any thread; does not block.
  void abort(const std::string& reason) noexcept;

  /// Throws what `call` failed with, which the fate knows.
  [[noreturn]] void throw_failure(const CallHeader& call) const;

 private:
  const std::shared_ptr<Collective> control_;
  Fate& fate_;
};

}  // namespace zero::nccl
