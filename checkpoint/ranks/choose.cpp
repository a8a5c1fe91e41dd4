#include "checkpoint/ranks/choose.h"

#include <algorithm>
#include <optional>

#include "checkpoint/file_reader.h"
#include "checkpoint/names.h"
#include "libzero/collective/failure.h"
#include "libzero/collective/messages.h"

namespace zero::checkpoint {
namespace {

/// Of a path's last component.
std::string base_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

/// Empty if the directory is a whole checkpoint, as far as manifest and sizes tell.
std::string problem_of(FileSystem& files, const std::string& directory) {
  try {
    const Manifest manifest = read_manifest(files, directory);
    const auto step = parse_step_name(base_name(directory));
    if (step && *step != manifest.step) {
      return "a checkpoint lies under the name of another step, rename it back: step " +
             std::to_string(manifest.step) + " in " + directory;
    }
    return problem_of_sizes(files, directory, manifest);
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
    names_ = files_.list(from_);
    if (is_checkpoint()) {
      require_whole();
      found_.directories = {from_};
      return std::move(found_);
    }
    search_root();
    return std::move(found_);
  }

 private:
  bool has(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  /// One that has lost its manifest is not taken for an empty root: training would start anew.
  bool is_checkpoint() const {
    const std::string name = base_name(from_);
    return parse_step_name(name).has_value() || is_leftover_name(name) ||
           std::any_of(names_.begin(), names_.end(), is_checkpoint_file_name);
  }

  void require_whole() {
    const std::string problem = problem_of(files_, from_);
    if (!problem.empty()) {
      throw FormatError("this checkpoint is damaged, resume from another one: " + from_ + ": " +
                        problem);
    }
  }

  void search_root() {
    std::vector<std::string> steps;
    for (const std::string& name : names_) {
      if (parse_step_name(name)) steps.push_back(name);
    }
    std::sort(steps.rbegin(), steps.rend());  // Names have a fixed number of digits.
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
          from_ + ": " + found_.warnings[0]);
    }
    if (!steps.empty()) check_latest(steps);
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
    if (!has(kLatestName)) {
      found_.warnings.push_back(start + "is missing, the newest checkpoint was found without it");
      return;
    }
    const std::optional<std::string> named = read_latest();
    if (!named) {
      found_.warnings.push_back(start + "names no checkpoint, the newest was found without it");
    } else if (std::find(steps.begin(), steps.end(), *named) == steps.end()) {
      found_.warnings.push_back(start + "names " + *named + ", which is not there");
    }
  }

  std::optional<std::string> read_latest() {
    const std::string path = join_path(from_, kLatestName);
    std::string text;
    try {
      const std::unique_ptr<File> file = files_.open(path);
      text.resize(static_cast<std::size_t>(std::min<std::uint64_t>(file->size(), 64)));
      read_all(*file, std::as_writable_bytes(std::span(text)), 0, path);
    } catch (const Error&) {
      return std::nullopt;
    }
    if (text.ends_with('\n')) text.pop_back();
    if (!parse_step_name(text)) return std::nullopt;
    return text;
  }

  FileSystem& files_;
  const std::string from_;
  const bool fall_back_;
  std::vector<std::string> names_;
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
