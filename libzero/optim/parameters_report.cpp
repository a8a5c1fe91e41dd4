#include <algorithm>
#include <string>

#include "libzero/optim/load_parameters.h"

namespace zero {

std::string to_text(const ParametersReport& report) {
  std::size_t width = 0;
  for (const LoadItem& item : report.items) width = std::max(width, item.item.size());
  std::string text;
  for (const LoadItem& item : report.items) {
    text += item.item + std::string(width - item.item.size() + 2, ' ') + name_of(item.how) +
            (item.detail.empty() ? "" : ", " + item.detail) + '\n';
  }
  for (const std::string& warning : report.warnings) text += "warning: " + warning + '\n';
  return text;
}

}  // namespace zero
