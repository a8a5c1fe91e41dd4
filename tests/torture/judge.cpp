#include "judge.h"

#include <algorithm>
#include <cstdio>

#include "checkpoint/names.h"
#include "checkpoint/verify.h"
#include "tests/checkpoint/reader_decorator.h"

namespace zero::checkpoint::torture {
namespace {

constexpr const char* kLarge = "large";
constexpr std::byte kFill{42};

/// A reader that shows neither the blob nor which run it was.
class WithoutBlob : public testing::ReaderDecorator {
 public:
  explicit WithoutBlob(const Reader& inner) : ReaderDecorator(inner), common_(inner.common()) {
    common_.blobs.erase(kLarge);
    common_.run_id = Sample(0, 1).common().run_id;
  }
  const CommonState& common() const override { return common_; }

 private:
  CommonState common_;
};

std::string problem_of(FileSystem& files, Store& store, const std::string& root,
                       std::int64_t step) {
  const auto found = verify(files, join_path(root, step_name(step))).findings;
  if (!found.empty()) return to_text(found[0]);
  return difference_with_blob(*store.open(step), step);
}

}  // namespace

Sample sample_with_blob(std::int64_t step, int world_size, std::size_t blob_bytes) {
  Sample sample(step, world_size);
  if (blob_bytes > 0) sample.common().blobs[kLarge] = Blob(blob_bytes, kFill);
  return sample;
}

std::string difference_with_blob(const Reader& reader, std::int64_t step) {
  const auto& blobs = reader.common().blobs;
  const auto large = blobs.find(kLarge);
  if (large != blobs.end() && std::any_of(large->second.begin(), large->second.end(),
                                          [](std::byte b) { return b != kFill; })) {
    return "the large blob";
  }
  return difference(WithoutBlob(reader), step, reader.info().world_size);
}

std::string latest(FileSystem& files, const std::string& root) {
  const std::string path = join_path(root, kLatestName);
  if (files.status(path).kind == FileKind::kMissing) return "missing";
  const auto file = files.open(path);
  std::string text(file->size(), '\0');
  read_all(*file, std::as_writable_bytes(std::span(text)), 0, path);
  if (text.empty() || text.back() != '\n') return "malformed";
  const auto step = parse_step_name(text.substr(0, text.size() - 1));
  return step ? std::to_string(*step) : "malformed";
}

bool judge(FileSystem& files, Store& store, const std::string& root, const char* when) {
  const Listing listing = store.list();
  bool whole = !listing.steps.empty();
  const auto torn = [&](const std::string& name, const std::string& problem) {
    std::printf("torn: %s: %s\n", name.c_str(), problem.c_str());
    whole = false;
  };
  std::string steps, newest = "none";
  for (const Damaged& damaged : listing.damaged) torn(damaged.name, damaged.problem);
  for (const StepInfo& info : listing.steps) {
    const std::string problem = problem_of(files, store, root, info.step);
    if (!problem.empty()) torn(step_name(info.step), problem);
    newest = std::to_string(info.step);
    steps += (steps.empty() ? "" : ",") + newest;
  }
  std::printf("%s newest=%s latest=%s steps=%s\n", when, newest.c_str(),
              latest(files, root).c_str(), steps.c_str());
  return whole;
}

}  // namespace zero::checkpoint::torture
