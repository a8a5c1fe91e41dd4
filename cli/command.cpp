#include "cli/command.h"

#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/numbers.h"

namespace zero::cli {
namespace {

class Help : public CLI::Formatter {
 public:
  explicit Help(const CommandTexts& texts) : texts_(texts) {}
  std::string make_usage(const CLI::App*, std::string) const override {
    return std::string("Usage: zero ") + texts_.family + texts_.name + " " + texts_.usage + "\n";
  }

 private:
  const CommandTexts texts_;
};

}  // namespace

CLI::App* add_command(CLI::App& app, const CommandTexts& texts) {
  CLI::App* command = app.add_subcommand(texts.name, texts.description);
  command->group("Commands");
  command->formatter(std::make_shared<Help>(texts));
  command->footer(texts.footer + (texts.footer[0] == '\n' ? 1 : 0));  // raw strings begin with one
  return command;
}

// Without a description CLI11 does not write "INT:INT in [1 - 4096]" into the help.
CLI::Validator in_range(int low, int high) {
  return CLI::Range(low, high).description("");
}

CLI::Validator one_of(std::vector<std::string> names) {
  return CLI::IsMember(std::move(names)).description("");
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? "it is empty" : std::string(); }, "");
}

CLI::Validator as_bytes() {
  return CLI::Validator(
      [](std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes) {
          return "'" + text + "' is no size; write bytes, or a number with K, M, G or T as in 64M";
        }
        text = std::to_string(*bytes);
        return std::string();
      },
      "");
}

}  // namespace zero::cli
