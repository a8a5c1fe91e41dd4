#include "checkpoint/ranks/save.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>

#include "checkpoint/ranks/common_facts.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/collective/failure.h"
#include "libzero/collective/messages.h"

namespace zero::checkpoint {
namespace {

/// REQUIRES a state that put() has taken.
std::uint64_t bytes_of(const RankState& state) {
  std::uint64_t bytes = 0;
  for (const StateView& view : state.states) {
    for (const Extent& extent : view.extents) {
      bytes += static_cast<std::uint64_t>((extent.end - extent.begin) * size_of(view.dtype));
    }
  }
  return bytes;
}

std::string label_of(std::int64_t step, const std::string& what) {
  return "checkpoint of step " + std::to_string(step) + ": " + what;
}

std::string where_of(std::int64_t step) {
  return "step " + std::to_string(step);
}

/// Throws unless every rank can save, and means to save the same.
void require_agreement_on(const CommonState& common, const RankPart& part, Collective& comm) {
  const auto label = [&](const char* what) { return label_of(common.step, what); };
  const Facts facts = facts_of(common);
  const std::int64_t mine[] = {static_cast<std::int64_t>(hash_of(facts)),
                               part.refusal.empty() ? 0 : 1, common.step};
  std::vector<std::int64_t> all(std::size(mine) * static_cast<std::size_t>(comm.size()));
  comm.all_gather({mine, std::size(mine), DType::kInt64},
                  {all.data(), static_cast<std::int64_t>(all.size()), DType::kInt64},
                  label("phase begin, who can save what"))
      ->wait();
  const std::string where = where_of(all[2]);  // rank 0's: every rank's error has the same text
  bool refused = false, differs = false;
  for (std::size_t i = 0; i < all.size(); i += std::size(mine)) {
    differs = differs || all[i] != all[0];
    refused = refused || all[i + 1] != 0;
  }
  if (refused) {
    throw ContractError("a rank cannot save, nothing was written: " + where + ", phase begin, " +
                        first_problem(part.refusal, comm, label("refusals")));
  }
  if (differs) {
    throw ContractError(
        "ranks disagree about what they share, nothing was written; build that part of the "
        "state alike on every rank: " +
        where + ", phase begin: " + describe_disagreement(facts, comm));
  }
}

std::string saving(const CommonState& common) {
  return "saving a checkpoint of step " + std::to_string(common.step);
}

/// One save that all agreed to, phase by phase. Its writer goes with it: what was not committed is
/// aborted.
class RanksSave {
 public:
  RanksSave(Store& store, const CommonState& common, const RankPart& part, Collective& comm)
      : store_(store), common_(common), part_(part), comm_(comm) {}

  SaveOutcome run() {
    begin();
    const std::vector<std::string> receipts = write();
    return commit(receipts);
  }

 private:
  std::string label(const std::string& what) const { return label_of(common_.step, what); }
  std::string where() const { return where_of(common_.step); }

  void begin() {
    std::optional<Failure> failure;
    if (comm_.rank() == 0) {
      failure = attempt([&] {
        writer_ = store_.begin(common_, comm_.size());
        ticket_ = writer_->ticket();
      });
    }
    MessageWriter message;
    message.add(to_message(failure)).add(ticket_);
    const std::string heard =
        broadcast_message(message.take(), comm_, label("phase begin, ticket"));
    MessageReader in(heard);
    failure = parse_failure(in.text());
    if (failure) fail(*failure, 0, "begin", 0);
    ticket_ = in.text();
  }

  /// Rank 0 gets all receipts.
  std::vector<std::string> write() {
    std::string phase = "begin", receipt;
    const std::optional<Failure> failure = attempt([&] {
      if (comm_.rank() != 0) writer_ = store_.join(ticket_, common_, comm_.size());
      phase = "write";
      receipt = put();
    });
    std::string bad_news;
    if (failure) bad_news = MessageWriter().add(to_message(failure)).add(phase).take();
    const auto news =
        gather_messages(bad_news, Receivers::kEveryRank, comm_, label("phase write, who failed"));
    throw_first(news);
    return gather_messages(receipt, Receivers::kRankZero, comm_, label("phase write, receipts"));
  }

  /// Throws the failure of the first rank that has one. But one that breaks the save may make the
  /// other ranks' writers refuse, with a ContractError: the cause comes first.
  void throw_first(const std::vector<std::string>& news) const {
    std::optional<Failure> first;
    std::string phase;
    int rank = 0, failed = 0;
    for (std::size_t i = 0; i < news.size(); ++i) {
      if (news[i].empty()) continue;
      ++failed;
      MessageReader in(news[i]);
      const std::optional<Failure> theirs = parse_failure(in.text());
      if (!theirs) throw LocalFailure("another rank's error arrived damaged");
      const bool is_cause = theirs->kind != Failure::Kind::kContract;
      if (first && !(is_cause && first->kind == Failure::Kind::kContract)) continue;
      first = theirs;
      phase = in.text();
      rank = static_cast<int>(i);
    }
    if (first) fail(*first, rank, phase, failed - 1);
  }

  std::string put() {
    const std::string receipt = writer_->put(comm_.rank(), part_.state);
    std::string message =
        MessageWriter().add(static_cast<std::int64_t>(bytes_of(part_.state))).add(receipt).take();
    ZERO_REQUIRE(message.size() <= static_cast<std::size_t>(kMaxMessageBytes),
                 "a rank's blobs are too large, 1 GiB is the most: " +
                     std::to_string(message.size()) + " bytes");
    return message;
  }

  SaveOutcome commit(const std::vector<std::string>& receipts) {
    CommitResult result;
    std::int64_t bytes = 0;
    std::optional<Failure> failure;
    bool is_unknown = false;
    if (comm_.rank() == 0) {
      failure = attempt([&] {
        bytes = accept(receipts);
        try {
          result = writer_->commit();
        } catch (const CommitUnknown&) {
          is_unknown = true;
          throw;
        }
      });
    }
    MessageWriter message;
    message.add(is_unknown ? 1 : 0).add(to_message(failure)).add(bytes);
    message.add(static_cast<std::int64_t>(result.warnings.size()));
    for (const std::string& warning : result.warnings) message.add(bounded_text(warning));
    const std::string heard =
        broadcast_message(message.take(), comm_, label("phase commit, outcome"));
    MessageReader in(heard);
    is_unknown = in.number() != 0;
    failure = parse_failure(in.text());
    if (failure && is_unknown) {
      throw CommitUnknown("it is not known whether a checkpoint was saved: " +
                          told(*failure, 0, "commit"));
    }
    if (failure) fail(*failure, 0, "commit", 0);
    SaveOutcome outcome{common_.step, static_cast<std::uint64_t>(in.number()), 0, {}};
    for (std::int64_t left = in.number(); left > 0; --left) outcome.warnings.push_back(in.text());
    return outcome;
  }

  /// Returns the bytes of all ranks.
  std::int64_t accept(const std::vector<std::string>& receipts) {
    std::int64_t bytes = 0;
    for (std::size_t rank = 0; rank < receipts.size(); ++rank) {
      MessageReader in(receipts[rank]);
      bytes += in.number();
      const std::string receipt = in.text();
      if (rank != 0) writer_->accept(receipt);
    }
    return bytes;
  }

  std::string told(const Failure& failure, int rank, const std::string& phase) const {
    return where() + ", rank " + std::to_string(rank) + ", phase " + phase + ": " + failure.text;
  }

  [[noreturn]] void fail(const Failure& failure, int rank, const std::string& phase,
                         int others) const {
    std::string text =
        "a checkpoint was not saved, the older ones are untouched and training can go on: " +
        told(failure, rank, phase);
    if (others > 0) text += " (ranks that failed besides: " + std::to_string(others) + ")";
    throw_failure(failure.kind, text);
  }

  Store& store_;
  const CommonState& common_;
  const RankPart& part_;
  Collective& comm_;
  std::string ticket_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace

void agree_to_save(const CommonState& common, const RankPart& part, Collective& comm) {
  together(comm, saving(common), [&] { require_agreement_on(common, part, comm); });
}

SaveOutcome save_agreed(Store& store, const CommonState& common, const RankPart& part,
                        Collective& comm) {
  const auto start = std::chrono::steady_clock::now();
  SaveOutcome outcome =
      together(comm, saving(common), [&] { return RanksSave(store, common, part, comm).run(); });
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

SaveOutcome save_on_ranks(Store& store, const CommonState& common, const RankPart& part,
                          Collective& comm) {
  agree_to_save(common, part, comm);
  return save_agreed(store, common, part, comm);
}

}  // namespace zero::checkpoint
