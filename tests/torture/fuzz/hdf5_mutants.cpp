// What the HDF5 library does with hostile bytes. verify() shows it a file only when the file's hash
// was right, and says that this proves nothing against malice; here is why. Each mutant of a file's
// structure is looked at in a child process of its own, with bounded time and memory; the outcomes
// are counted. The mutants have right checksums inside, as somebody would make them.
//
// usage: hdf5_mutants COUNT [SEED]

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "checkpoint/common_file.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_check.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

const std::string kFolder = "/store/step_000000000005";
constexpr unsigned kSeconds = 5;
constexpr rlim_t kMemory = rlim_t{2} << 30;

using Bytes = std::vector<std::byte>;
using Checksum = std::uint32_t (*)(const void*, std::size_t, std::uint32_t);

/// The library's own, which its headers do not declare. Null: checksums stay wrong.
Checksum find_checksum() {
  return reinterpret_cast<Checksum>(::dlsym(RTLD_DEFAULT, "H5_checksum_metadata"));
}

void put_checksum(Bytes& bytes, std::size_t begin, std::size_t size, Checksum checksum) {
  if (begin + size + 4 > bytes.size()) return;
  const std::uint32_t value = checksum(bytes.data() + begin, size, 0);
  std::memcpy(bytes.data() + begin + size, &value, sizeof value);
}

/// Those of the superblock and of every object header, as far as their sizes make sense.
void correct_checksums(Bytes& bytes, Checksum checksum) {
  put_checksum(bytes, 0, 44, checksum);
  const auto at = [&](std::size_t i) { return static_cast<unsigned>(bytes[i]); };
  for (std::size_t begin = 0; begin + 40 < bytes.size(); ++begin) {
    if (std::memcmp(bytes.data() + begin, "OHDR", 4) != 0) continue;
    const unsigned flags = at(begin + 5);
    std::size_t size = 6;
    if ((flags & 0x20u) != 0) size += 16;
    if ((flags & 0x10u) != 0) size += 4;
    std::size_t messages = 0;
    const unsigned width = 1u << (flags & 3u);
    for (unsigned i = 0; i < width && i < 4; ++i) {
      messages |= std::size_t{at(begin + size + i)} << 8 * i;
    }
    put_checksum(bytes, begin, size + width + messages, checksum);
  }
}

bool is_data(const FileRecord& record, std::uint64_t offset) {
  for (const DatasetRecord& dataset : record.datasets) {
    if (offset >= dataset.offset && offset < dataset.offset + dataset.bytes) return true;
  }
  return false;
}

/// One to eight bytes of the structure become others.
Bytes mutant(Bytes bytes, const FileRecord& record, std::mt19937_64& random, Checksum checksum) {
  for (std::uint64_t left = random() % 8 + 1; left > 0;) {
    const std::size_t at = random() % bytes.size();
    if (is_data(record, at)) continue;
    bytes[at] = static_cast<std::byte>(random() % 2 == 0 ? random() : random() % 16);
    --left;
  }
  if (checksum != nullptr) correct_checksums(bytes, checksum);
  return bytes;
}

[[noreturn]] void look(const Bytes& bytes, const FileRecord& record) {
  const rlimit memory{kMemory, kMemory}, none{0, 0};
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CORE, &none);
  ::alarm(kSeconds);
  testing::MemoryFileSystem files;
  files.set_content("/file", bytes);
  const auto differences =
      hdf5::check_structure(*files.open("/file"), record,
                            root_attributes(5, Sample(5, 2).common().run_id, 2, record.rank));
  ::_exit(differences.empty() ? 0 : 1);
}

const char* outcome_of(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "did not end" : "crashed";
  return WEXITSTATUS(status) == 0 ? "accepted" : "refused";
}

std::string try_one(const Bytes& bytes, const FileRecord& record) {
  const pid_t child = ::fork();
  if (child == 0) look(bytes, record);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) std::abort();
  return outcome_of(status);
}

int run(int count, std::uint64_t seed) {
  const auto files = std::make_shared<testing::MemoryFileSystem>();
  save(*make_hdf5_store(files, "/store"), Sample(5, 2));
  Manifest manifest = read_manifest(*files, kFolder);
  // verify() never opens the view: it makes it again and compares bytes.
  std::erase_if(manifest.files, [](const FileRecord& record) { return record.name == kViewName; });
  const Checksum checksum = find_checksum();
  if (checksum == nullptr)
    std::puts("the library hides its checksum: most mutants will be refused");
  std::mt19937_64 random(seed);
  std::map<std::string, int> outcomes;
  for (const FileRecord& record : manifest.files) {
    const Bytes whole = files->content(join_path(kFolder, record.name));
    if (try_one(whole, record) == "accepted") continue;
    std::printf("the genuine file was not accepted: %s\n", record.name.c_str());
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    const FileRecord& record = manifest.files[random() % manifest.files.size()];
    const Bytes whole = files->content(join_path(kFolder, record.name));
    ++outcomes[try_one(mutant(whole, record, random, checksum), record)];
  }
  for (const auto& [outcome, number] : outcomes) std::printf("%-12s %d\n", outcome.c_str(), number);
  return 0;
}

}  // namespace
}  // namespace zero::checkpoint

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: hdf5_mutants COUNT [SEED]\n");
    return 2;
  }
  return zero::checkpoint::run(std::atoi(argv[1]),
                               argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
}
