#include "cli/table.h"

#include <algorithm>

#include "cli/printable.h"

namespace zero::cli {
namespace {

constexpr int kGap = 2;
constexpr int kSmallestFlexible = 8;
constexpr int kTitleWidth = 16;

std::string padding(int columns) {
  return std::string(static_cast<std::size_t>(std::max(columns, 0)), ' ');
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::widths(int width) const {
  std::vector<int> widths;
  int total = -kGap;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int widest = columns_of(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, columns_of(row[i]));
    widths.push_back(widest);
    total += widest + kGap;
  }
  while (total > width) {  // the widest flexible column gives way, down to the next widest
    int widest = kSmallestFlexible, next = kSmallestFlexible;
    std::size_t which = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].flexible || widths[i] <= next) continue;
      if (widths[i] > widest) {
        next = widest;
        widest = widths[i];
        which = i;
      } else {
        next = widths[i];
      }
    }
    if (which == columns_.size()) break;
    const int step = std::min(total - width, std::max(1, widest - next));
    widths[which] -= step;
    total -= step;
  }
  return widths;
}

std::string Table::text(int width) const {
  const std::vector<int> wide = widths(width);
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = shortened(cell_of(i), std::max(wide[i], 1));
      const std::string space = padding(wide[i] - columns_of(cell));
      if (i > 0) line += padding(kGap);
      line += columns_[i].align == Align::kRight ? space + cell : cell + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t i) -> const std::string& { return row[i]; });
  }
  return text;
}

std::string titled_list(const std::string& title, const std::vector<std::string>& items,
                        int width) {
  std::string text = printable(title);
  int at = columns_of(text);
  const auto indent = [&](int from) {
    text += padding(std::max(kTitleWidth - from, from == 0 ? 0 : kGap));
    return std::max(kTitleWidth, from + kGap);
  };
  at = indent(at);
  if (items.empty()) return text + "none\n";
  bool first = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = printable(items[i]) + (i + 1 < items.size() ? "," : "");
    const int columns = columns_of(item);
    if (!first && at + 1 + columns > width) {
      text += "\n";
      at = indent(0);
      first = true;
    }
    if (!first) text += " ";
    text += item;
    at += columns + (first ? 0 : 1);
    first = false;
  }
  return text + "\n";
}

}  // namespace zero::cli
