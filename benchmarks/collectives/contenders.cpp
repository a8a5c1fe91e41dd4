#include "benchmarks/collectives/contenders.h"

#include <cstring>

#include "libzero/collective/ordered_sum.h"

namespace zero::benchmark::collectives {
namespace {

/// A bucket cut into one slice for each rank.
struct Bucket {
  DType dtype;
  std::int64_t slice;  // elements
  std::int64_t slice_bytes;
  int ranks;

  std::int64_t count() const { return slice * ranks; }
  std::size_t bytes_of(int slices) const { return static_cast<std::size_t>(slices * slice_bytes); }
};

Bucket cut(std::int64_t bytes, DType dtype, int ranks) {
  const std::int64_t slice = bytes / size_of(dtype) / ranks;
  return {dtype, slice, slice * size_of(dtype), ranks};
}

void reduce_scatter(Collective& comm, Memory& memory, const Bucket& bucket) {
  comm.reduce_scatter({memory.in.data(), bucket.count(), bucket.dtype},
                      {memory.out.data(), bucket.slice, DType::kFloat32}, {})
      ->wait();
}

std::byte* own_slice(const Collective& comm, Memory& memory, const Bucket& bucket) {
  return memory.whole.data() + comm.rank() * bucket.slice_bytes;
}

void all_gather(Collective& comm, Memory& memory, const Bucket& bucket) {
  std::byte* const own = own_slice(comm, memory, bucket);
  comm.all_gather({own, bucket.slice, bucket.dtype},
                  {memory.whole.data(), bucket.count(), bucket.dtype}, "")
      ->wait();
}

/// What a sharded optimizer moves in a step; with fp32 the result is that of an all-reduce.
void reduce_scatter_and_all_gather(Collective& comm, Memory& memory, const Bucket& bucket) {
  void* const sums = bucket.dtype == DType::kFloat32
                         ? static_cast<void*>(own_slice(comm, memory, bucket))
                         : memory.out.data();
  comm.reduce_scatter({memory.in.data(), bucket.count(), bucket.dtype},
                      {sums, bucket.slice, DType::kFloat32}, {})
      ->wait();
  all_gather(comm, memory, bucket);
}

void all_reduce(Collective& comm, Memory& memory, const Bucket& bucket) {
  comm.all_reduce({memory.whole.data(), bucket.count(), bucket.dtype}, ReduceOp::kSum, "")->wait();
}

// The copies that a job needs when ranks cannot read each other's memory: what others need into
// memory that is shared, and what they have out of it. Nothing is waited for and nothing added.

void copy_in_and_out(Memory& memory, const Bucket& bucket, int slices_in, int slices_out) {
  std::memcpy(memory.staging.data(), memory.in.data(), bucket.bytes_of(slices_in));
  std::memcpy(memory.whole.data(), memory.staging.data(), bucket.bytes_of(slices_out));
}

/// One copy and the addition: what reduce_scatter costs where nobody waits for anybody.
void copy_and_add(Memory& memory, const Bucket& bucket) {
  std::memcpy(memory.staging.data(), memory.in.data(), bucket.bytes_of(bucket.ranks - 1));
  std::vector<const void*> terms = {memory.in.data() + bucket.bytes_of(bucket.ranks - 1)};
  for (int peer = 1; peer < bucket.ranks; ++peer) {
    terms.push_back(memory.staging.data() + bucket.bytes_of(peer - 1));
  }
  ordered_sum(terms, bucket.dtype, memory.out.data(), bucket.slice, false);
}

using Job = void (*)(Collective&, Memory&, const Bucket&);

Race race_of(const std::string& operation, Job job, const Backends& backends, Memory& memory,
             std::int64_t bytes, DType dtype) {
  const Bucket bucket = cut(bytes, dtype, backends.shm->size());
  Race race{operation, dtype, bytes, {}};
  for (const auto& [name, comm] : {std::pair("shm", backends.shm), {"gloo", backends.gloo}}) {
    race.contenders.push_back(
        {name, [job, &memory, bucket, comm = comm] { job(*comm, memory, bucket); }});
  }
  if (dtype == DType::kFloat32) {
    race.contenders.push_back({"ring", [&memory, bucket, ring = backends.ring] {
                                 ring->all_reduce(reinterpret_cast<float*>(memory.whole.data()),
                                                  bucket.count());
                               }});
  }
  const int others = bucket.ranks - 1;
  const bool scatters = operation != "all_gather";
  const bool gathers = operation != "reduce_scatter";
  race.contenders.push_back({"copies", [=, &memory] {
                               if (scatters) copy_in_and_out(memory, bucket, others, others);
                               if (gathers) copy_in_and_out(memory, bucket, 1, others);
                             }});
  if (!gathers) {
    race.contenders.push_back({"copy_and_add", [=, &memory] { copy_and_add(memory, bucket); }});
  }
  return race;
}

}  // namespace

Memory::Memory(std::int64_t bytes, int size)
    : in(static_cast<std::size_t>(bytes)),
      whole(static_cast<std::size_t>(bytes)),
      staging(static_cast<std::size_t>(bytes)),
      // A slice of 2-byte elements becomes one of 4-byte sums.
      out(static_cast<std::size_t>(bytes / 2 / size + 1)) {}

std::vector<Race> make_races(const Backends& backends, Memory& memory,
                             const std::vector<std::int64_t>& sizes) {
  std::vector<Race> races;
  for (const std::int64_t bytes : sizes) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      races.push_back(race_of("reduce_scatter", reduce_scatter, backends, memory, bytes, dtype));
      races.push_back(race_of("all_gather", all_gather, backends, memory, bytes, dtype));
      races.push_back(race_of("reduce_scatter_and_all_gather", reduce_scatter_and_all_gather,
                              backends, memory, bytes, dtype));
      races.push_back(race_of("all_reduce", all_reduce, backends, memory, bytes, dtype));
    }
  }
  return races;
}

}  // namespace zero::benchmark::collectives
