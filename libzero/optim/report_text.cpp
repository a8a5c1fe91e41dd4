#include "libzero/optim/report_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

void put(std::string& bytes, std::string_view text) {
  const auto size = static_cast<std::uint64_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(text);
}

std::string take(std::string_view& bytes) {
  std::uint64_t size = 0;
  ZERO_REQUIRE(bytes.size() >= sizeof size, "load_parameters: a report from rank 0 is cut short");
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  ZERO_REQUIRE(bytes.size() >= size, "load_parameters: a report from rank 0 is cut short");
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

const char* word_of(Restored how) {
  switch (how) {
    case Restored::kRestored:
      return "restored";
    case Restored::kResharded:
      return "resharded";
    case Restored::kConverted:
      return "converted";
    case Restored::kDefaulted:
      return "defaulted";
    case Restored::kDerived:
      return "derived";
    case Restored::kKept:
      return "kept";
    case Restored::kDropped:
      return "dropped";
  }
  return "?";
}

}  // namespace

std::string packed(const ParametersReport& report) {
  std::string bytes;
  put(bytes, report.file);
  put(bytes, std::to_string(report.items.size()));
  for (const LoadItem& item : report.items) {
    put(bytes, item.item);
    put(bytes, std::string(1, static_cast<char>(item.how)));
    put(bytes, item.detail);
  }
  for (const std::string& warning : report.warnings) put(bytes, warning);
  return bytes;
}

ParametersReport unpacked_report(std::string_view bytes) {
  ParametersReport report;
  report.file = take(bytes);
  const std::size_t items = std::stoull(take(bytes));
  for (std::size_t i = 0; i < items; ++i) {
    LoadItem item;
    item.item = take(bytes);
    item.how = static_cast<Restored>(take(bytes).at(0));
    item.detail = take(bytes);
    report.items.push_back(std::move(item));
  }
  while (!bytes.empty()) report.warnings.push_back(take(bytes));
  return report;
}

std::string to_text(const ParametersReport& report) {
  std::size_t width = 0;
  for (const LoadItem& item : report.items) width = std::max(width, item.item.size());
  std::string text;
  for (const LoadItem& item : report.items) {
    text += item.item + std::string(width - item.item.size() + 2, ' ') + word_of(item.how) +
            (item.detail.empty() ? "" : ", " + item.detail) + '\n';
  }
  for (const std::string& warning : report.warnings) text += "warning: " + warning + '\n';
  return text;
}

}  // namespace zero
