#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace zero {

template <class Signature>
class FunctionRef;

/// A function that lives elsewhere, at least as long as this: to hand one down takes no memory,
/// whatever it captures. May be empty.
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  FunctionRef() = default;
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, FunctionRef>)
      FunctionRef(Function&& function)
      : context_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* context, Arguments... arguments) -> Result {
          auto& self = *static_cast<std::remove_reference_t<Function>*>(context);
          return self(std::forward<Arguments>(arguments)...);
        }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    return call_(context_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* context_ = nullptr;
  Result (*call_)(void* context, Arguments... arguments) = nullptr;
};

}  // namespace zero
