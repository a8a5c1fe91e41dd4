#include "libzero/optim/parameter_loader.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/collective/messages.h"
#include "libzero/optim/weight_types.h"

namespace zero {
namespace {

constexpr const char* kLabel = "parameters from a file";
constexpr std::size_t kMostProblems = 100;

void require_fit(const WeightsPlan& plan) {
  if (plan.problems.empty()) return;
  std::string text =
      "load_parameters: the file does not fit the model; nothing was changed. Correct the model or "
      "the file, or allow the difference:";
  for (std::size_t i = 0; i < std::min(plan.problems.size(), kMostProblems); ++i)
    text += "\n  " + plan.problems[i];
  if (plan.problems.size() > kMostProblems)
    text += "\n  and " + std::to_string(plan.problems.size() - kMostProblems) + " more";
  throw ContractError(text);
}

std::string message_of(const WeightsPlan& plan) {
  MessageWriter out;
  out.add(static_cast<std::int64_t>(plan.tensors.size()));
  for (const PlannedTensor& tensor : plan.tensors) out.add(tensor.target);
  return out.take();
}

std::vector<std::int64_t> targets_in(const std::string& message) {
  MessageReader in(message);
  std::vector<std::int64_t> targets;
  for (std::int64_t left = in.number(); left > 0; --left) targets.push_back(in.number());
  return targets;
}

std::string message_of(const ParametersReport& report) {
  MessageWriter out;
  out.add(static_cast<std::int64_t>(report.items.size()));
  for (const LoadItem& item : report.items)
    out.add(item.item).add(static_cast<std::int64_t>(item.how)).add(item.detail);
  out.add(static_cast<std::int64_t>(report.warnings.size()));
  for (const std::string& warning : report.warnings) out.add(warning);
  return out.take();
}

ParametersReport report_in(const std::string& message) {
  MessageReader in(message);
  ParametersReport report;
  for (std::int64_t left = in.number(); left > 0; --left) {
    LoadItem item;
    item.item = in.text();
    item.how = static_cast<Restored>(in.number());
    item.detail = in.text();
    report.items.push_back(std::move(item));
  }
  for (std::int64_t left = in.number(); left > 0; --left) report.warnings.push_back(in.text());
  return report;
}

/// How many finite values become infinite in another type.
std::int64_t overflowed_in(const std::string& from, std::span<const std::byte> values,
                           const std::string& to) {
  if (from == to) return 0;
  const std::size_t count = values.size() / static_cast<std::size_t>(weight_size(from));
  std::vector<std::byte> converted(count * static_cast<std::size_t>(weight_size(to)));
  return convert_weights(from, values, to, converted);
}

}  // namespace

ParameterLoader::ParameterLoader(const Layout& layout, ParameterTable& table,
                                 const std::vector<NamedTensor>& buffers,
                                 std::vector<BucketState>& states, Collective& comm,
                                 std::int64_t piece_elements, DistantState* distant)
    : layout_(layout),
      table_(table),
      buffers_(buffers),
      states_(states),
      comm_(comm),
      piece_elements_(piece_elements),
      distant_(distant) {}

at::Tensor ParameterLoader::tensor_of(std::int64_t target) const {
  const auto index = static_cast<std::size_t>(target);
  const std::size_t rows = table_.specs.size();
  return index < rows ? table_.tensors[index] : buffers_[index - rows].tensor;
}

bool ParameterLoader::is_trainable(std::int64_t target) const {
  const auto index = static_cast<std::size_t>(target);
  return index < table_.specs.size() && table_.specs[index].trainable;
}

bool ParameterLoader::is_mine(std::size_t piece) const {
  return static_cast<int>(piece % static_cast<std::size_t>(comm_.size())) == comm_.rank();
}

std::vector<ParameterLoader::Piece> ParameterLoader::pieces_of(
    const std::vector<std::int64_t>& targets) const {
  std::vector<Piece> pieces;
  for (const std::int64_t target : targets) {
    const at::Tensor tensor = tensor_of(target);
    const auto item =
        is_trainable(target) ? sizeof(float) : static_cast<std::size_t>(tensor.element_size());
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += piece_elements_) {
      const std::int64_t end = std::min(tensor.numel(), begin + piece_elements_);
      pieces.push_back({target, begin, end, static_cast<std::size_t>(end - begin) * item});
    }
  }
  return pieces;
}

void ParameterLoader::allocate() {
  try {
    staged_.assign(pieces_.size(), {});
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (is_mine(i)) staged_[i].resize(pieces_[i].bytes);
    }
  } catch (const std::bad_alloc&) {
    staged_.clear();
    throw Error(
        "load_parameters: there is no memory for the file's values beside the model's; nothing was "
        "changed. Use more ranks, or load before the optimizer is built");
  }
}

void ParameterLoader::read_piece(const WeightSource& source, const PlannedTensor& planned,
                                 const Piece& piece, std::span<std::byte> out) {
  const std::string own_type = weight_type_of(tensor_of(piece.target).scalar_type());
  const std::string type = is_trainable(piece.target) ? "F32" : own_type;
  std::vector<std::byte> raw, again;
  for (std::size_t i = 0; i < planned.sources.size(); ++i) {
    const WeightEntry& entry = planned.sources[i];
    const auto item = static_cast<std::size_t>(weight_size(entry.dtype));
    raw.resize(static_cast<std::size_t>(piece.end - piece.begin) * item);
    source.read(entry.name, static_cast<std::uint64_t>(piece.begin) * item, raw);
    again.resize(out.size());
    const std::span<std::byte> target = i == 0 ? out : std::span<std::byte>(again);
    if (entry.dtype == type) {
      std::copy(raw.begin(), raw.end(), target.begin());
    } else {
      convert_weights(entry.dtype, raw, type, target);
    }
    if (i == 0) overflowed_ += overflowed_in(entry.dtype, raw, own_type);
    ZERO_REQUIRE(i == 0 || std::equal(out.begin(), out.end(), again.begin()),
                 "load_parameters: the file has two values for one tied parameter; nothing was "
                 "changed. Take one of its names out of the file: " +
                     planned.sources.front().name + " and " + entry.name);
  }
}

void ParameterLoader::read_pieces(const WeightSource* source, const WeightsPlan& plan) {
  std::size_t tensor = 0;
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    all_or_none(comm_, kLabel, [&] {
      buffer.resize(piece.bytes);
      if (source == nullptr) return;
      while (plan.tensors[tensor].target != piece.target) ++tensor;
      read_piece(*source, plan.tensors[tensor], piece, buffer);
    });
    comm_
        .broadcast({buffer.data(), static_cast<std::int64_t>(buffer.size()), DType::kUInt8}, 0,
                   kLabel)
        ->wait();
    if (is_mine(i)) std::copy(buffer.begin(), buffer.end(), staged_[i].begin());
  }
}

ParametersReport ParameterLoader::stage(const std::function<std::unique_ptr<WeightSource>()>& open,
                                        const LoadParametersOptions& options) {
  std::unique_ptr<WeightSource> source;
  WeightsPlan plan;
  all_or_none(comm_, kLabel, [&] {
    if (comm_.rank() != 0) return;
    source = open();
    plan = plan_weights(table_, buffers_, *source, options);
    require_fit(plan);
  });
  const std::string targets = broadcast_message(message_of(plan), comm_, kLabel);
  all_or_none(comm_, kLabel, [&] {
    pieces_ = pieces_of(targets_in(targets));
    allocate();
  });
  read_pieces(source.get(), plan);
  ParametersReport report;
  report.items = std::move(plan.items);
  if (overflowed_ > 0) {
    report.warnings.push_back("finite values that the model's dtype cannot hold became infinite: " +
                              std::to_string(overflowed_));
  }
  return report_in(broadcast_message(message_of(report), comm_, kLabel));
}

void ParameterLoader::write_masters(const Piece& piece, const float* values) {
  const Slot slot = layout_.slot(static_cast<std::int32_t>(piece.target));
  BucketState& state = states_[static_cast<std::size_t>(slot.bucket)];
  const DType dtype = layout_.buckets()[static_cast<std::size_t>(slot.bucket)].dtype;
  if (dtype == DType::kFloat32) return;  // the parameter is its own master
  const std::int64_t begin = std::max(slot.offset + piece.begin, state.stepped.begin);
  const std::int64_t end = std::min(slot.offset + piece.end, state.stepped.end);
  if (begin >= end) return;
  const float* const first = values + (begin - slot.offset - piece.begin);
  if (distant_ == nullptr) {
    std::copy(first, first + (end - begin), state.master.data() + (begin - state.stepped.begin));
  } else if (!failure_) {
    failure_ = attempt([&] {
      distant_->write(slot.bucket, OffloadedArray::kMaster, begin - state.stepped.begin,
                      {first, static_cast<std::size_t>(end - begin)});
    });
  }
}

void ParameterLoader::apply_piece(const Piece& piece, const std::byte* values,
                                  std::byte* contiguous) {
  const at::Tensor tensor = tensor_of(piece.target);
  const auto item = static_cast<std::size_t>(tensor.element_size());
  const auto count = static_cast<std::size_t>(piece.end - piece.begin);
  const std::span<std::byte> out(contiguous + static_cast<std::size_t>(piece.begin) * item,
                                 count * item);
  if (!is_trainable(piece.target)) {
    std::copy_n(values, out.size(), out.begin());
    return;
  }
  convert_weights("F32", {values, piece.bytes}, weight_type_of(tensor.scalar_type()), out);
  write_masters(piece, reinterpret_cast<const float*>(values));
}

std::optional<Failure> ParameterLoader::apply() {
  const at::NoGradGuard no_grad;
  std::vector<std::byte> buffer;
  at::Tensor whole;  // the present target, row-major
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    at::Tensor target = tensor_of(piece.target).detach();
    if (piece.begin == 0)
      whole = target.is_contiguous() && target.is_cpu()
                  ? target
                  : at::empty_like(target, target.options().device(at::kCPU),
                                   at::MemoryFormat::Contiguous);
    buffer.resize(piece.bytes);
    if (is_mine(i)) buffer.swap(staged_[i]);
    const auto root = static_cast<int>(i % static_cast<std::size_t>(comm_.size()));
    comm_
        .broadcast({buffer.data(), static_cast<std::int64_t>(buffer.size()), DType::kUInt8}, root,
                   kLabel)
        ->wait();
    apply_piece(piece, buffer.data(), static_cast<std::byte*>(whole.data_ptr()));
    const bool is_copy = whole.data_ptr() != target.data_ptr();
    if (is_copy && piece.end == target.numel()) target.copy_(whole);
    std::vector<std::byte>().swap(staged_[i]);
  }
  staged_.clear();
  if (distant_ != nullptr && !failure_) failure_ = attempt([this] { distant_->flush(); });
  return failure_;
}

}  // namespace zero
