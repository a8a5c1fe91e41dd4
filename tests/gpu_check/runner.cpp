#include "tests/gpu_check/runner.h"

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ostream>

#include "tests/gpu_check/child.h"
#include "tests/gpu_check/report.h"

namespace zero::gpu_check {
namespace {

using Clock = Child::Clock;

Clock::duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}

  void add(const Line& line) {
    if (!has_head_) out_ << "| what | measured | demanded | verdict |\n| --- | --- | --- | --- |\n";
    has_head_ = true;
    constexpr const char* kWords[] = {"ok", "**NOT MET**", ""};
    out_ << "| " << line.what << " | " << line.measured << " | " << line.demanded << " | "
         << kWords[static_cast<std::size_t>(line.verdict)] << " |" << std::endl;
    if (line.verdict == Verdict::kBad) bad_.push_back(line);
    ++lines_;
  }

  /// The exit code.
  int finish() {
    out_ << "\n";
    if (bad_.empty()) {
      out_ << "Everything that is demanded is met.\n";
      return 0;
    }
    out_ << bad_.size() << " of " << lines_ << " lines are not met:\n";
    for (const Line& line : bad_) {
      out_ << "- " << line.what << ": " << line.measured;
      if (!line.demanded.empty()) out_ << "; demanded: " << line.demanded;
      out_ << "\n";
    }
    out_.flush();
    return 1;
  }

 private:
  std::ostream& out_;
  bool has_head_ = false;
  std::size_t lines_ = 0;
  std::vector<Line> bad_;
};

std::string words_of(int status) {
  if (WIFSIGNALED(status)) return std::string("died: ") + ::strsignal(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

/// Lines of a part go into the table as they come. Returns the status, nothing if it was ended.
std::optional<int> run_part(const Plan& plan, const Part& part, double limit, Table& table,
                            std::string& reason) {
  std::vector<std::string> command = plan.command;
  command.insert(command.end(), {"--part", part.name});
  const auto until = Clock::now() + from_seconds(limit);
  Child child(command);
  const bool closed = child.read(until, [&](const std::string& text) {
    if (const auto line = line_of(text)) {
      table.add(*line);
    } else {
      reason = text;
    }
  });
  if (!closed) return std::nullopt;
  return child.wait(std::max(until, Clock::now() + std::chrono::seconds(5)));
}

/// The line that ends a part.
Line end_of(const Part& part, double limit, double took, std::optional<int> status,
            const std::string& reason) {
  Line line{"**" + part.name + "**", number(took, 1) + " s", "within " + number(limit, 0) + " s",
            Verdict::kGood};
  if (!status) {
    line.verdict = Verdict::kBad;
    line.measured = "ended: still running after " + line.measured;
  } else if (*status != 0) {
    line.verdict = Verdict::kBad;
    line.measured = reason.empty() ? words_of(*status) : reason;
    line.demanded = "to the end";
  }
  return line;
}

}  // namespace

int run(const Plan& plan, std::ostream& out, std::ostream& errors) {
  Table table(out);
  const auto start = Clock::now();
  const auto elapsed = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  for (const Part& part : plan.parts) {
    const double left = plan.seconds - elapsed(start);
    if (left < 1) {
      table.add({"**" + part.name + "**", "not run: no time left",
                 "all within " + number(plan.seconds, 0) + " s", Verdict::kBad});
      continue;
    }
    const double limit = std::min(part.seconds, left);
    std::string reason;
    const auto begin = Clock::now();
    const auto status = run_part(plan, part, limit, table, reason);
    const bool is_first = &part == plan.parts.data();
    if (is_first && status && WIFEXITED(*status) && WEXITSTATUS(*status) == kNothingToCheckOn) {
      errors << "gpu_check: nothing was checked. " << reason << std::endl;
      return kNothingToCheckOn;
    }
    table.add(end_of(part, limit, elapsed(begin), status, reason));
  }
  table.add({"**all**", number(elapsed(start), 1) + " s", "", Verdict::kNotJudged});
  return table.finish();
}

}  // namespace zero::gpu_check
