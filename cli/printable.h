#pragma once

/// Text from files and command lines, made safe for a terminal.

#include <string>
#include <string_view>

namespace zero::cli {

/// The text with control characters (of ASCII and of Unicode), invisible characters, those that
/// change the direction of writing, and bytes that are no UTF-8 written as \x1b or \u202e.
std::string printable(std::string_view text);

/// Columns that a printable text takes on a terminal.
int columns_of(std::string_view text);

/// The text if it fits, otherwise its beginning and end with … between. REQUIRES a printable text
/// and columns >= 1.
std::string shortened(std::string_view text, int columns);

}  // namespace zero::cli
