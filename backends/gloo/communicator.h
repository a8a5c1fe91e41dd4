#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backends/gloo/mesh.h"
#include "backends/gloo/scratch.h"
#include "libzero/collective/collective.h"

namespace zero::gloo_backend {

/// The collectives, each blocking until done. Throws ContractError and CommError as
/// zero::Collective says.
class Communicator {
 public:
  Communicator(const MeshOptions& options, const Store& store)
      : store_(store), mesh_(options, store.child("mesh")) {}

  int rank() const { return mesh_.rank(); }
  int size() const { return mesh_.size(); }

  void reduce_scatter(const ConstBuffer& in, const Buffer& out,
                      const ReduceScatterOptions& options);
  void all_gather(const ConstBuffer& in, const Buffer& out, std::string_view label);
  void all_reduce(const Buffer& data, ReduceOp op, std::string_view label);
  void broadcast(const Buffer& data, int root, std::string_view label);
  void barrier(std::string_view label);
  std::unique_ptr<Communicator> split(int color, int key, std::chrono::milliseconds patience);
  void abort(std::string_view why) noexcept;
  void shutdown();

 private:
  using Terms = std::span<const void* const>;

  CallHeader next_call(Operation operation, std::string_view label, DType dtype = DType::kUInt8,
                       std::int64_t count = 0) const;
  void reduce_in_slices(Transfers& transfers, const Buffer& data, ReduceOp op);
  Terms gather_all(Transfers& transfers, const Buffer& data);
  Terms inline_terms(const RollCall& roll_call);

  Store store_;
  Mesh mesh_;
  Scratch scratch_;
};

}  // namespace zero::gloo_backend
