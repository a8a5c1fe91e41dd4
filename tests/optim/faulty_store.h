#pragma once

/// A Store that fails where a test says.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/store.h"

namespace zero::testing {

/// Each is called before the real thing, and may throw.
struct StoreFaults {
  std::function<void()> begin = {};
  std::function<void()> join = {};
  std::function<void()> put = {};
  std::function<void()> commit = {};
  std::function<void()> open = {};
  std::function<void(std::int32_t parameter, std::string_view state)> read = {};
};

class FaultyStore : public checkpoint::Store {
 public:
  FaultyStore(checkpoint::Store& store, StoreFaults faults)
      : store_(store), faults_(std::move(faults)) {}

  checkpoint::Listing list() override { return store_.list(); }
  std::unique_ptr<checkpoint::Writer> begin(const checkpoint::CommonState& common,
                                            int world_size) override {
    if (faults_.begin) faults_.begin();
    return std::make_unique<FaultyWriter>(store_.begin(common, world_size), faults_);
  }
  std::unique_ptr<checkpoint::Writer> join(std::string_view ticket,
                                           const checkpoint::CommonState& common,
                                           int world_size) override {
    if (faults_.join) faults_.join();
    return std::make_unique<FaultyWriter>(store_.join(ticket, common, world_size), faults_);
  }
  std::unique_ptr<checkpoint::Reader> open(std::int64_t step) override {
    if (faults_.open) faults_.open();
    return std::make_unique<FaultyReader>(store_.open(step), faults_);
  }
  void remove(std::int64_t step) override { store_.remove(step); }

 private:
  class FaultyWriter : public checkpoint::Writer {
   public:
    FaultyWriter(std::unique_ptr<checkpoint::Writer> writer, const StoreFaults& faults)
        : writer_(std::move(writer)), faults_(faults) {}
    std::string ticket() const override { return writer_->ticket(); }
    std::string put(int rank, const checkpoint::RankState& state) override {
      if (faults_.put) faults_.put();
      return writer_->put(rank, state);
    }
    void accept(std::string_view receipt) override { writer_->accept(receipt); }
    checkpoint::CommitResult commit() override {
      if (faults_.commit) faults_.commit();
      return writer_->commit();
    }
    void abort() override { writer_->abort(); }

   private:
    std::unique_ptr<checkpoint::Writer> writer_;
    const StoreFaults faults_;
  };

  class FaultyReader : public checkpoint::Reader {
   public:
    FaultyReader(std::unique_ptr<checkpoint::Reader> reader, const StoreFaults& faults)
        : reader_(std::move(reader)), faults_(faults) {}
    const checkpoint::StepInfo& info() const override { return reader_->info(); }
    const checkpoint::CommonState& common() const override { return reader_->common(); }
    const std::map<std::string, checkpoint::Blob>& rank_blobs(int rank) const override {
      return reader_->rank_blobs(rank);
    }
    std::vector<std::string> states(std::int32_t parameter) const override {
      return reader_->states(parameter);
    }
    DType dtype(std::int32_t parameter, std::string_view state) const override {
      return reader_->dtype(parameter, state);
    }
    std::vector<Extent> extents(int rank, std::string_view state) const override {
      return reader_->extents(rank, state);
    }
    void read(std::int32_t parameter, std::string_view state, std::int64_t begin, std::int64_t end,
              std::span<std::byte> dst) const override {
      if (faults_.read) faults_.read(parameter, state);
      reader_->read(parameter, state, begin, end, dst);
    }

   private:
    std::unique_ptr<checkpoint::Reader> reader_;
    const StoreFaults faults_;
  };

  checkpoint::Store& store_;
  const StoreFaults faults_;
};

/// What a world of one rank would have saved with other values: `edit` changes them on the way from
/// `reader` into `store`.
struct EditedState {
  checkpoint::CommonState common;
  std::map<std::pair<std::int32_t, std::string>, std::pair<DType, std::vector<std::byte>>> values;
  std::map<std::string, checkpoint::Blob> blobs;
};

inline void save_edited(const checkpoint::Reader& reader, checkpoint::Store& store,
                        const std::function<void(EditedState&)>& edit) {
  EditedState state;
  state.common = reader.common();
  state.blobs = reader.rank_blobs(0);
  for (std::size_t i = 0; i < state.common.parameters.size(); ++i) {
    const auto row = static_cast<std::int32_t>(i);
    if (state.common.parameters[i].alias_of >= 0) continue;
    for (const std::string& name : reader.states(row)) {
      auto& [dtype, bytes] = state.values[{row, name}];
      dtype = reader.dtype(row, name);
      const std::int64_t numel = state.common.parameters[i].numel();
      bytes.resize(static_cast<std::size_t>(numel * size_of(dtype)));
      reader.read(row, name, 0, numel, bytes);
    }
  }
  edit(state);
  checkpoint::RankState part;
  std::map<std::pair<std::string, DType>, checkpoint::StateView> views;
  for (const auto& [key, value] : state.values) {
    checkpoint::StateView& view = views[{key.second, value.first}];
    view.name = key.second;
    view.dtype = value.first;
    view.extents.push_back(
        {key.first, 0, state.common.parameters[static_cast<std::size_t>(key.first)].numel()});
    view.pieces.emplace_back(value.second);
  }
  for (auto& [key, view] : views) part.states.push_back(std::move(view));
  part.blobs = state.blobs;
  const auto writer = store.begin(state.common, 1);
  writer->put(0, part);
  writer->commit();
}

}  // namespace zero::testing
