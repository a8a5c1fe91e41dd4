#include "cli/rank_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace zero::cli {

std::string rank_prefix(int rank, const Outlet& outlet) {
  const std::string plain = "[" + std::to_string(rank) + "] ";
  const char* no_color = std::getenv("NO_COLOR");
  if (!outlet.is_terminal() || (no_color != nullptr && *no_color != '\0')) return plain;
  constexpr int kColours = 6;  // without black and white
  return "\033[3" + std::to_string(1 + rank % kColours) + "m" + plain + "\033[0m";
}

RankOutput::RankOutput(UniqueFd source, std::string prefix, Outlet& outlet)
    : source_(std::move(source)),
      prefix_(std::move(prefix)),
      outlet_(outlet),
      splitter_(outlet.is_terminal(), [this](std::string_view line, LineEnd end) {
        if (end == LineEnd::kNewline) {
          outlet_.line(prefix_, line);
        } else {
          outlet_.progress(prefix_, line);
        }
      }) {}

bool RankOutput::read_once() {
  char buffer[1 << 16];
  const ssize_t got = ::read(source_.get(), buffer, sizeof buffer);
  if (got > 0) {
    splitter_.feed({buffer, static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && errno == EINTR) return true;
  if (got == 0 || errno != EAGAIN) close();
  return false;
}

void RankOutput::read_some() {
  if (source_ && !read_once()) return;
  // Nobody takes the output any more: the rank shall see it as if it wrote there itself.
  if (outlet_.is_broken()) close();
}

void RankOutput::drain() {
  constexpr int kMostReads = 64;  // a rank's children may go on writing
  for (int i = 0; i < kMostReads && source_ && read_once(); ++i) {
  }
}

void RankOutput::close() {
  splitter_.finish();
  source_.reset();
}

}  // namespace zero::cli
