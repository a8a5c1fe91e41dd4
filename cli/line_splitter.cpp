#include "cli/line_splitter.h"

namespace zero::cli {

void LineSplitter::end_line(LineEnd end) {
  emit_(line_, end);
  line_.clear();
  after_return_ = false;
  shown_ = false;
}

void LineSplitter::take(char byte) {
  if (byte == '\n') return end_line(LineEnd::kNewline);
  if (after_return_) {  // no "\n" came: it was progress
    if (!shown_) emit_(line_, LineEnd::kProgress);
    line_.clear();
    after_return_ = false;
    shown_ = false;
  }
  if (byte == '\r') {
    after_return_ = true;
    return;
  }
  line_.push_back(byte);
  if (line_.size() >= kMaxLineBytes) end_line(LineEnd::kNewline);
}

void LineSplitter::feed(std::string_view bytes) {
  for (const char byte : bytes) take(byte);
  if (eager_ && after_return_ && !shown_) {
    emit_(line_, LineEnd::kProgress);
    shown_ = true;
  }
}

void LineSplitter::finish() {
  if (after_return_) {
    if (!shown_) emit_(line_, LineEnd::kProgress);
    line_.clear();
    after_return_ = false;
    shown_ = false;
  }
  if (!line_.empty()) end_line(LineEnd::kNewline);
}

}  // namespace zero::cli
