// Readers of tables: one file of a checkpoint, or the whole directory.

#include "checkpoint/common_file.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/verify.h"
#include "forge.h"

namespace zero::checkpoint::torture {
namespace {

const std::string kFolder = "/store/step_000000000005";

/// What the input makes of a checkpoint, as the readers get it: through the manifest's text.
struct Case {
  testing::MemoryFileSystem files;
  Manifest manifest;
  bool is_manifest = false;

  Case(Input input, int only) {
    Bytes choices(input);
    Forgery forgery = genuine();
    change(forgery, choices, only);
    files.make_directory("/store");
    files.make_directory(kFolder);
    write(files, kFolder, put_together(forgery));
    try {
      manifest = read_manifest(files, kFolder);
      is_manifest = true;
    } catch (const FormatError&) {
    }
  }
  std::string path(std::size_t file) const { return join_path(kFolder, manifest.files[file].name); }
};

void require_bounded(std::size_t elements) {
  if (elements > (std::size_t{1} << 20)) broken("a parameter is larger than all files together");
}

/// Every element of every state of every parameter.
void read_everything(const Reader& reader) {
  const auto& parameters = reader.common().parameters;
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const auto parameter = static_cast<std::int32_t>(row);
    for (const std::string& state : reader.states(parameter)) {
      const std::int64_t numel = parameters[row].numel();
      require_bounded(static_cast<std::size_t>(numel));
      const std::int64_t width = size_of(reader.dtype(parameter, state));
      std::vector<std::byte> whole(static_cast<std::size_t>(numel * width));
      reader.read(parameter, state, 0, numel, whole);
      std::vector<std::byte> part(static_cast<std::size_t>(numel / 2 * width));
      reader.read(parameter, state, numel - numel / 2, numel, part);
      if (!std::equal(part.rbegin(), part.rend(), whole.rbegin())) broken("two reads differ");
    }
  }
  for (int rank = 0; rank < reader.info().world_size; ++rank) reader.rank_blobs(rank);
}

bool opens(const std::shared_ptr<FileSystem>& files) {
  try {
    read_everything(*open_checkpoint(files, kFolder));
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace

void fuzz_common(Input input) {
  Case made(input, 0);
  if (!made.is_manifest) return;
  try {
    const DecodedCommon common =
        decode_common(*made.files.open(made.path(0)), made.path(0), made.manifest);
    if (common.rank_blobs.size() != 2) broken("there are blobs of another number of ranks");
    validate(common.state);
  } catch (const FormatError&) {
  }
}

void fuzz_shard(Input input) {
  Case made(input, 1);
  if (!made.is_manifest) return;
  try {
    const auto parameters =
        decode_common(*made.files.open(made.path(0)), made.path(0), made.manifest).state.parameters;
    ShardIndex index;
    for (std::size_t i = 1; i < made.manifest.files.size(); ++i) {
      add_shard(index, *made.files.open(made.path(i)), made.path(i), made.manifest, i, parameters);
    }
    sort_segments(index);
    problem_of_tiling(index, parameters);
  } catch (const FormatError&) {
  }
}

void fuzz_directory(Input input) {
  // Shared with readers, which outlive this function's frame only in theory.
  const auto made = std::make_shared<Case>(input, -1);
  const std::shared_ptr<FileSystem> files(made, &made->files);
  const bool opened = opens(files);
  if (opened && !made->is_manifest) broken("something opened whose manifest cannot be read");
  const Listing listing = make_hdf5_store(files, "/store")->list();
  if (listing.steps.size() + listing.damaged.size() != 1) broken("a directory is not listed");
  const auto findings = verify(*files, kFolder, {true, nullptr}).findings;
  const bool other_step = made->is_manifest && made->manifest.step != 5;
  const bool sound = findings.empty() || (findings.size() == 1 && other_step);
  // A file that is no part of it is a finding, and no reason not to read.
  const bool extra = files->list(kFolder).size() != made->manifest.files.size() + 1;
  if (opened != sound && !extra) broken("what opens is what verifies, but here they differ");
}

}  // namespace zero::checkpoint::torture
