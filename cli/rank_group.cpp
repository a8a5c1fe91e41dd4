#include "cli/rank_group.h"

#include <algorithm>
#include <csignal>

namespace zero::cli {

RankGroup::RankGroup(Console& console, Keeper& keeper, const std::vector<pid_t>& strangers)
    : console_(console), keeper_(keeper), strangers_(strangers) {}

int RankGroup::start(const RunSettings& settings, const TryIdentity& identity) {
  const Variables base = current_environment();
  for (int rank = 0; rank < identity.ranks; ++rank) {
    RankProcess process =
        start_rank(settings.program, rank_environment(base, settings, identity, rank));
    keeper_.watch(process.pid);
    ranks_.emplace_back(rank, process, console_);
    if (process.start_error != 0) return process.start_error;
  }
  return 0;
}

bool RankGroup::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

void RankGroup::add_to(std::vector<pollfd>& fds) {
  const auto add = [&](RankOutput& output) {
    if (output.fd() >= 0 && output.outlet().has_room()) fds.push_back({output.fd(), POLLIN, 0});
  };
  for (Rank& rank : ranks_) {
    add(rank.out);
    add(rank.err);
  }
}

void RankGroup::read_some() {
  for (Rank& rank : ranks_) {
    if (rank.out.outlet().has_room()) rank.out.read_some();
    if (rank.err.outlet().has_room()) rank.err.read_some();
  }
}

std::vector<EndedRank> RankGroup::take_ended() {
  std::vector<EndedRank> ended;
  collect_ended(ended);
  // While we looked at one, another may have died whom we had passed, and then have been the death
  // of one that we came to later.
  if (!ended.empty()) collect_ended(ended);
  std::stable_sort(ended.begin(), ended.end(), [](const EndedRank& a, const EndedRank& b) {
    return distance_from_cause(a.report) < distance_from_cause(b.report);
  });
  return ended;
}

void RankGroup::collect_ended(std::vector<EndedRank>& ended) {
  for (Rank& rank : ranks_) {
    if (rank.ended) continue;
    const ExitReport report = look_at(rank.pid);
    if (!report.ended) continue;
    rank.ended = true;
    rank.out.drain();
    rank.err.drain();
    ended.push_back({rank.number, report});
  }
}

void RankGroup::signal_leaders(int signal) {
  for (const Rank& rank : ranks_) {
    if (!rank.ended) ::kill(rank.pid, signal);
  }
}

// Groups of ranks that have ended keep their number until take_down(): they are reaped last.
void RankGroup::signal_all(int signal) {
  for (const Rank& rank : ranks_) {
    ::kill(-rank.pid, signal);
    if (signal == SIGKILL && !rank.ended) ::kill(rank.pid, signal);  // it may have left its group
  }
}

void RankGroup::take_down() {
  if (down_) return;
  down_ = true;
  signal_all(SIGKILL);
  for (const Rank& rank : ranks_) keeper_.forget(rank.pid);
  std::vector<pid_t> spare = strangers_;
  spare.push_back(keeper_.pid());
  kill_orphans(spare);
  for (Rank& rank : ranks_) {
    rank.ended = true;
    rank.out.drain();
    rank.err.drain();
    rank.out.close();
    rank.err.close();
  }
}

}  // namespace zero::cli
