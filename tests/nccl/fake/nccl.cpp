// The fake NCCL's functions: what is asked for is not done at once, but after the caller has looked
// for it a few times, as with the real one's non-blocking communicators.

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "tests/nccl/fake/addresses.h"
#include "tests/nccl/fake/apis.h"
#include "tests/nccl/fake/memory.h"
#include "tests/nccl/fake/streams.h"
#include "tests/nccl/fake/weather.h"
#include "tests/nccl/fake/world.h"

namespace zero::nccl_test {
namespace {

using nccl::CudaStream;
using nccl::kNcclInProgress;
using nccl::NcclComm;
using State = FakeComm::State;

std::mutex worlds_mutex;
std::map<std::string, std::shared_ptr<World>>& worlds() {
  static auto& all = *new std::map<std::string, std::shared_ptr<World>>;
  return all;
}
/// Never freed, so that a use after the end is seen.
std::vector<std::unique_ptr<FakeComm>>& comms() {
  static auto& all = *new std::vector<std::unique_ptr<FakeComm>>;
  return all;
}

struct Grouped {
  FakeComm* comm;
  CudaStream stream;
  Operation operation;
};
struct Group {
  int depth = 0;
  std::vector<Grouped> calls;
};
Group& group() {
  thread_local Group group;
  return group;
}

int some_looks() {
  return static_cast<int>(Weather::now().random(3));
}

/// One thread is in a communicator at a time.
class Inside {
 public:
  explicit Inside(FakeComm& comm) : comm_(comm) {
    if (comm_.inside.exchange(true)) broken("two threads are inside one communicator");
  }
  ~Inside() { comm_.inside = false; }

 private:
  FakeComm& comm_;
};

FakeComm& as_comm(NcclComm comm) {
  return *static_cast<FakeComm*>(comm);
}

#define ZERO_FAKE_CALL(name, rank) \
  if (const int answer = Weather::now().call(name, rank); answer != 0) return answer

int get_version(int* version) {
  *version = 22809;
  return 0;
}

int get_unique_id(nccl::NcclUniqueId* id) {
  ZERO_FAKE_CALL("ncclGetUniqueId", 0);
  static std::atomic<int> next = 0;
  *id = {};
  const std::string text = "world " + std::to_string(++next);
  std::memcpy(id->internal, text.data(), text.size());
  return 0;
}

int comm_init_rank_config(NcclComm* comm, int size, nccl::NcclUniqueId id, int rank,
                          nccl::NcclConfig* config) {
  ZERO_FAKE_CALL("ncclCommInitRankConfig", rank);
  if (config->blocking != 0) return broken("a communicator may block");
  auto created = std::make_unique<FakeComm>();
  created->rank = rank;
  created->looks_left = some_looks();
  const std::lock_guard lock(worlds_mutex);
  auto& world = worlds()[id.internal];
  if (!world) world = std::make_shared<World>(size);
  created->world = world;
  world->join();
  *comm = created.get();
  comms().push_back(std::move(created));
  return kNcclInProgress;
}

void launch(FakeComm& comm) {
  comm.stream->reserve(false);
  ++comm.running;
  const std::int64_t id = note_kernel(comm.launch);
  comm.stream->put([&comm, id, number = ++comm.kernels, operations = std::move(comm.launch)] {
    run_kernel(comm, operations, number);
    forget_kernel(id);
  });
  comm.launch.clear();
  comm.state = State::kReady;
}

/// Goes on with what is under way; the communicator is locked.
int look(FakeComm& comm) {
  if (comm.error != 0) return comm.error;
  if (comm.looks_left > 0) {
    --comm.looks_left;
    return kNcclInProgress;
  }
  if (comm.state == State::kJoining) {
    if (!comm.world->complete()) return kNcclInProgress;
    comm.state = State::kReady;
  }
  if (comm.state == State::kLaunching) launch(comm);
  if (comm.state == State::kFinalizing) {
    if (comm.running > 0) return kNcclInProgress;
    comm.state = State::kFinalized;
  }
  return 0;
}

int comm_get_async_error(NcclComm handle, int* error) {
  FakeComm& comm = as_comm(handle);
  ZERO_FAKE_CALL("ncclCommGetAsyncError", comm.rank);
  const Inside inside(comm);
  const std::lock_guard lock(comm.mutex);
  if (comm.state == State::kGone) return broken("a communicator was asked after its end");
  const int trouble = Weather::now().look(comm.rank);
  *error = trouble != 0 ? trouble : look(comm);
  return 0;
}

int comm_finalize(NcclComm handle) {
  FakeComm& comm = as_comm(handle);
  ZERO_FAKE_CALL("ncclCommFinalize", comm.rank);
  const Inside inside(comm);
  const std::lock_guard lock(comm.mutex);
  if (comm.state != State::kReady) return broken("finalize while something is under way");
  comm.state = State::kFinalizing;
  comm.looks_left = some_looks();
  return kNcclInProgress;
}

int comm_destroy(NcclComm handle) {
  FakeComm& comm = as_comm(handle);
  ZERO_FAKE_CALL("ncclCommDestroy", comm.rank);
  const Inside inside(comm);
  const std::lock_guard lock(comm.mutex);
  if (comm.state != State::kFinalized) return broken("destroy before the end of finalize");
  expect_nothing_told(comm);
  comm.state = State::kGone;
  return 0;
}

int comm_abort(NcclComm handle) {
  FakeComm& comm = as_comm(handle);
  ZERO_FAKE_CALL("ncclCommAbort", comm.rank);
  const Inside inside(comm);
  std::unique_lock lock(comm.mutex);
  if (comm.state == State::kGone) return broken("a communicator was aborted after its end");
  if (comm.state == State::kLaunching) {
    comm.stream->reserve(false);
  } else {
    expect_nothing_told(comm);
  }
  comm.state = State::kGone;
  comm.aborted = true;
  comm.changed.notify_all();
  lock.unlock();
  comm.world->wake();
  lock.lock();
  comm.changed.wait(lock, [&] { return comm.running == 0; });
  return 0;
}

int comm_register(NcclComm handle, void* memory, std::size_t bytes, void** told) {
  FakeComm& comm = as_comm(handle);
  ZERO_FAKE_CALL("ncclCommRegister", comm.rank);
  const Inside inside(comm);
  const std::lock_guard lock(comm.mutex);
  if (comm.state != State::kReady) return broken("register while something is under way");
  return tell(comm, memory, bytes, told);
}

int comm_deregister(NcclComm handle, void* told) {
  FakeComm& comm = as_comm(handle);
  ZERO_FAKE_CALL("ncclCommDeregister", comm.rank);
  const Inside inside(comm);
  const std::lock_guard lock(comm.mutex);
  if (comm.state == State::kGone) return broken("deregister after a communicator's end");
  if (comm.state == State::kLaunching) return broken("deregister while something is launched");
  if (comm.state == State::kFinalizing || comm.state == State::kFinalized) {
    return broken("deregister after finalize");
  }
  return untell(comm, told);
}

const char* get_error_string(int) {
  return "an error of the fake NCCL";
}
const char* get_last_error(NcclComm) {
  return "";
}

int group_start() {
  ZERO_FAKE_CALL("ncclGroupStart", current_device());
  ++group().depth;
  return 0;
}

void find_registered(const FakeComm& comm, Operation& operation) {
  const std::size_t bytes = operation.count * size_of_nccl(operation.dtype);
  const auto size = static_cast<std::size_t>(comm.world->size());
  const bool scatters = operation.kind == Operation::Kind::kReduceScatter;
  const bool gathers = operation.kind == Operation::Kind::kAllGather;
  operation.in_is_registered = was_told(comm, operation.in, scatters ? bytes * size : bytes);
  // The real reduce_scatter reaches into the inputs only.
  operation.out_is_registered =
      !scatters && was_told(comm, operation.out, gathers ? bytes * size : bytes);
}

/// What one thread has grouped for one communicator.
int begin_launch(FakeComm& comm, CudaStream stream, std::vector<Operation> operations) {
  const Inside inside(comm);
  const std::lock_guard lock(comm.mutex);
  if (comm.state != State::kReady) return broken("a call while something is under way");
  comm.launch = std::move(operations);
  comm.stream = &FakeStream::of(stream);
  comm.stream->reserve(true);
  comm.state = State::kLaunching;
  comm.looks_left = some_looks();
  for (Operation& operation : comm.launch) find_registered(comm, operation);
  const bool later = comm.looks_left > 0 || Weather::now().look(comm.rank) != 0;
  return later ? kNcclInProgress : look(comm);
}

int end_group() {
  auto calls = std::exchange(group().calls, {});
  int result = 0;
  while (!calls.empty()) {
    FakeComm* const comm = calls.front().comm;
    CudaStream const stream = calls.front().stream;
    std::vector<Operation> operations;
    for (const Grouped& call : calls) {
      if (call.comm == comm) operations.push_back(call.operation);
    }
    std::erase_if(calls, [&](const Grouped& call) { return call.comm == comm; });
    const int code = begin_launch(*comm, stream, std::move(operations));
    if (code != 0) result = code;
  }
  return result;
}

int group_end() {
  const int error = Weather::now().call("ncclGroupEnd", current_device());
  if (group().depth == 0) return broken("a group ended that had not begun");
  if (--group().depth > 0) return 0;
  if (error != 0) {
    group().calls.clear();
    return error;
  }
  return end_group();
}

int add(NcclComm comm, CudaStream stream, Operation operation) {
  operation.in = behind(operation.in);
  operation.out = behind(operation.out);
  group().calls.push_back({&as_comm(comm), stream, operation});
  return group().depth > 0 ? 0 : end_group();
}

int send(const void* data, std::size_t count, int dtype, int peer, NcclComm comm,
         CudaStream stream) {
  ZERO_FAKE_CALL("ncclSend", as_comm(comm).rank);
  return add(comm, stream, {Operation::Kind::kSend, data, nullptr, count, dtype, peer});
}

int recv(void* data, std::size_t count, int dtype, int peer, NcclComm comm, CudaStream stream) {
  ZERO_FAKE_CALL("ncclRecv", as_comm(comm).rank);
  return add(comm, stream, {Operation::Kind::kRecv, nullptr, data, count, dtype, peer});
}

int all_gather(const void* in, void* out, std::size_t count, int dtype, NcclComm comm,
               CudaStream stream) {
  ZERO_FAKE_CALL("ncclAllGather", as_comm(comm).rank);
  return add(comm, stream, {Operation::Kind::kAllGather, in, out, count, dtype, 0});
}

int broadcast(const void* in, void* out, std::size_t count, int dtype, int root, NcclComm comm,
              CudaStream stream) {
  ZERO_FAKE_CALL("ncclBroadcast", as_comm(comm).rank);
  return add(comm, stream, {Operation::Kind::kBroadcast, in, out, count, dtype, root});
}

int reduce_scatter(const void* in, void* out, std::size_t count, int dtype, int op, NcclComm comm,
                   CudaStream stream) {
  ZERO_FAKE_CALL("ncclReduceScatter", as_comm(comm).rank);
  if (op != nccl::kNcclSum) return broken("a reduction that is not the sum");
  return add(comm, stream, {Operation::Kind::kReduceScatter, in, out, count, dtype, 0});
}

}  // namespace

nccl::NcclApi fake_nccl() {
  nccl::NcclApi api;
  api.get_version = get_version;
  api.get_unique_id = get_unique_id;
  api.comm_init_rank_config = comm_init_rank_config;
  api.comm_finalize = comm_finalize;
  api.comm_destroy = comm_destroy;
  api.comm_abort = comm_abort;
  api.comm_get_async_error = comm_get_async_error;
  api.mem_alloc = fake_mem_alloc;
  api.mem_free = fake_mem_free;
  api.comm_register = comm_register;
  api.comm_deregister = comm_deregister;
  api.get_error_string = get_error_string;
  api.get_last_error = get_last_error;
  api.group_start = group_start;
  api.group_end = group_end;
  api.send = send;
  api.recv = recv;
  api.all_gather = all_gather;
  api.broadcast = broadcast;
  api.reduce_scatter = reduce_scatter;
  return api;
}

std::shared_ptr<const nccl::Apis> fake_apis() {
  auto apis = std::make_shared<nccl::Apis>();
  apis->nccl = fake_nccl();
  apis->cuda = fake_cuda();
  apis->kernels = fake_kernels();
  apis->nccl.get_version(&apis->nccl_version);
  return apis;
}

}  // namespace zero::nccl_test
