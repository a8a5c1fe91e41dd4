#include "cli/long_work.h"

#include "cli/interrupts.h"
#include "cli/progress_bar.h"

namespace zero::cli {

void run_long_work(const std::string& label,
                   const std::function<void(const checkpoint::Progress&)>& work) {
  const Interrupts interrupts;
  ProgressBar bar(label);
  try {
    work([&](std::uint64_t done, std::uint64_t total) {
      bar.show(done, total);
      return interrupts.signal() == 0;
    });
  } catch (const checkpoint::Cancelled&) {
    throw Interrupted(interrupts.signal());
  }
}

}  // namespace zero::cli
