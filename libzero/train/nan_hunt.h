#pragma once

/// Where the first number that is none comes from.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace torch::nn {
class Module;
}

namespace zero {

/// The first operation whose result was not finite.
struct NotFinite {
  std::string module;     ///< "blocks.3.fc"; empty before any module's parameters were used.
  bool is_of_module;      ///< It works on a parameter or buffer of `module` itself. Otherwise it
                          ///< comes after it: `module` is the last one whose parameters were used.
  std::string operation;  ///< "aten::log", ...
  bool in_backward;
  std::string cause;  ///< Which input was not finite before: "parameter fc.weight", "an input";
                      ///< empty where all were finite.

  /// One sentence.
  std::string text() const;
};

/// While one lives, the results of this thread's operations are looked at, forward and (on CPUs)
/// backward. LibTorch's C++ modules have no hooks, so a module is known by the parameters and
/// buffers that an operation is given.
///
///   zero::NanHunt hunt(*model);
///   optimizer.backward(model->loss(batch));
///   hunt.check();  // throws Error: "... first at aten::log, after module encoder.norm ..."
///
/// NaN and +infinity count; -infinity does not unless asked for, since attention masks are made of
/// it. Memory that was not written yet and views are not looked at. Slow: a pass over every result,
/// which it waits for; a search is for a run that went wrong. One at a time on a thread; destroy on
/// the thread that made it.
class NanHunt {
 public:
  /// `model` must outlive this; parameters that are added or replaced later are not known. Throws
  /// ContractError if one lives on this thread already.
  explicit NanHunt(const torch::nn::Module& model, bool negative_infinity = false);
  ~NanHunt();
  NanHunt(const NanHunt&) = delete;
  NanHunt& operator=(const NanHunt&) = delete;

  /// Nothing found: empty.
  const std::optional<NotFinite>& found() const noexcept;

  /// Throws Error if something was found.
  void check() const;

  /// Goes on searching as if nothing had been found.
  void forget();

 private:
  class Search;
  std::unique_ptr<Search> search_;
  std::uint64_t callback_;
};

}  // namespace zero
