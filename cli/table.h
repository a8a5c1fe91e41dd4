#pragma once

/// Aligned columns of text.

#include <string>
#include <utility>
#include <vector>

namespace zero::cli {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    bool flexible = false;  ///< May be shortened, in the middle of its texts, to fit the width.
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column, made printable here.
  void add(std::vector<std::string> cells);

  /// One line for the titles and one for each row, at most `width` columns wide unless the columns
  /// that are not flexible need more.
  std::string text(int width) const;

 private:
  std::vector<int> widths(int width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "title   item, item,\n         item\n": items of a list behind a title, wrapped at `width`. Made
/// printable here. "title   none" for an empty list.
std::string titled_list(const std::string& title, const std::vector<std::string>& items, int width);

}  // namespace zero::cli
