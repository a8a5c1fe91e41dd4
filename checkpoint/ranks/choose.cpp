#include "checkpoint/ranks/choose.h"

#include <algorithm>
#include <optional>

#include "checkpoint/directories.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"
#include "checkpoint/place.h"
#include "libzero/collective/failure.h"
#include "libzero/collective/messages.h"

namespace zero::checkpoint {
namespace {

/// Damaged ones that one error names, with the reason of each.
constexpr std::size_t kMostReasons = 5;

/// Empty if the directory is a whole checkpoint, as far as manifest and sizes tell.
std::string problem_of(FileSystem& files, const std::string& directory) {
  try {
    const Manifest manifest = read_manifest(files, directory);
    const std::string problem = problem_of_name(directory, manifest.step);
    return problem.empty() ? problem_of_sizes(files, directory, manifest) : problem;
  } catch (const FormatError& error) {
    return error.what();
  }
}

/// Looks at the file system. Rank 0's business.
class Search {
 public:
  Search(FileSystem& files, std::string from, bool fall_back)
      : files_(files), from_(std::move(from)), fall_back_(fall_back) {}

  Candidates run() {
    if (files_.status(from_).kind == FileKind::kMissing) return {};
    // One that has lost its manifest is not taken for an empty root: training would start anew.
    const Place place = look_at_place(files_, from_);
    if (place.is_checkpoint) {
      require_whole();
      found_.directories = {from_};
    } else {
      search_root(place.steps);
    }
    return std::move(found_);
  }

 private:
  void require_whole() {
    const std::string problem = problem_of(files_, from_);
    if (!problem.empty()) {
      throw FormatError("this checkpoint is damaged, resume from another one: " + from_ + ": " +
                        problem);
    }
  }

  void search_root(const std::vector<std::string>& steps) {
    for (const std::string& name : steps) {
      const std::string directory = join_path(from_, name);
      const std::string problem = look_at(directory);
      if (problem.empty()) {
        found_.directories.push_back(directory);
        if (!fall_back_) break;
      } else {
        found_.warnings.push_back(name + ": " + problem);
      }
    }
    if (!steps.empty() && found_.directories.empty()) {
      throw FormatError(
          "no checkpoint of this root is whole, name another one to resume from, or an empty root "
          "to start anew: " +
          from_ + ": " + reasons());
    }
    if (!steps.empty()) check_latest(steps);
  }

  std::string reasons() const {
    const std::size_t count = found_.warnings.size();
    std::string text;
    for (std::size_t i = 0; i < std::min(count, kMostReasons); ++i) {
      text += (i == 0 ? "" : "; ") + found_.warnings[i];
    }
    return count <= kMostReasons ? text
                                 : text + "; and " + std::to_string(count - kMostReasons) + " more";
  }

  /// Throws for damage unless whoever asked wants to fall back. A disk that refuses to read is no
  /// damage: training would go on from an older checkpoint while the newest is as good as ever.
  std::string look_at(const std::string& directory) {
    std::string problem = problem_of(files_, directory);
    if (!problem.empty() && !fall_back_) {
      throw FormatError(
          "the newest checkpoint is damaged, name another one to resume from, or allow to fall "
          "back: " +
          directory + ": " + problem);
    }
    return problem;
  }

  /// A hint that is behind is what a crash after the commit leaves; one that names what is not
  /// there tells of a loss.
  void check_latest(const std::vector<std::string>& steps) {
    const std::string start = std::string(kLatestName) + ": ";
    std::string named;
    try {
      if (files_.status(join_path(from_, kLatestName)).kind == FileKind::kMissing) {
        found_.warnings.push_back(start + "is missing, the newest checkpoint was found without it");
        return;
      }
      named = read_latest(files_, from_);
    } catch (const Error&) {  // What cannot be read says nothing.
    }
    if (!parse_step_name(named)) {
      found_.warnings.push_back(start + "names no checkpoint, the newest was found without it");
    } else if (std::find(steps.begin(), steps.end(), named) == steps.end()) {
      found_.warnings.push_back(start + "names " + named + ", which is not there");
    }
  }

  FileSystem& files_;
  const std::string from_;
  const bool fall_back_;
  Candidates found_;
};

void add(MessageWriter& out, const std::vector<std::string>& texts) {
  out.add(static_cast<std::int64_t>(texts.size()));
  for (const std::string& text : texts) out.add(text);
}

std::vector<std::string> take(MessageReader& in) {
  std::vector<std::string> texts;
  for (std::int64_t left = in.number(); left > 0; --left) texts.push_back(in.text());
  return texts;
}

}  // namespace

Candidates find_candidates(FileSystem& files, const std::string& from, bool fall_back,
                           Collective& comm) {
  return together(comm, "choosing a checkpoint", [&] {
    Candidates found;
    std::optional<Failure> failure;
    if (comm.rank() == 0) {
      failure = attempt([&] { found = Search(files, from, fall_back).run(); });
    }
    MessageWriter message;
    message.add(to_message(failure));
    add(message, found.directories);
    add(message, found.warnings);
    const std::string heard =
        broadcast_message(message.take(), comm, "which checkpoint to resume from");
    MessageReader in(heard);
    failure = parse_failure(in.text());
    if (failure) throw_failure(failure->kind, failure->text);
    found.directories = take(in);
    found.warnings = take(in);
    return found;
  });
}

}  // namespace zero::checkpoint
