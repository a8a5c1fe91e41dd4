#include "cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "cli/printable.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

constexpr int kWidthWithoutTerminal = 120;
constexpr int kSmallestWidth = 40;

/// 0, or the errno of what failed.
int write_everything(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // somebody made the terminal or pipe non-blocking
      pollfd state{fd, POLLOUT, 0};
      ::poll(&state, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1) ::open("/dev/null", O_RDWR);  // takes the lowest number: fd
  }
}

void print(std::string_view text) {
  const int error = write_everything(STDOUT_FILENO, text);
  if (error == 0 || error == EPIPE) return;
  throw IoError(std::string("the output could not be written, part of it is lost; make room: ") +
                std::strerror(error));
}

void complain(std::string_view text) noexcept {
  std::string line(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  write_everything(STDERR_FILENO, "zero: " + printable(line) + "\n");
}

int width_of_output() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kWidthWithoutTerminal;
  }
  return std::max<int>(size.ws_col, kSmallestWidth);
}

}  // namespace zero::cli
