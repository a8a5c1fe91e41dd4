#include "cli/model_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/training_state.h"
#include "cli/json.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxValues = std::size_t{1} << 22;
constexpr std::size_t kMaxRows = std::size_t{1} << 20;
constexpr int kMaxDepth = 4;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 50;     // of a dimension
constexpr std::int64_t kMaxMeasure = std::int64_t{1} << 28;  // as on the command line

using Parsed = nlohmann::json;

constexpr std::array<std::pair<const char*, std::int64_t Transformer::*>, 5> kMeasures = {
    {{"layers", &Transformer::layers},
     {"hidden", &Transformer::hidden},
     {"heads", &Transformer::heads},
     {"vocabulary", &Transformer::vocabulary},
     {"context", &Transformer::context}}};

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64, DType::kUInt8}) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

/// JSON lets a member come twice, and of its value it means one of the two.
class MemberNames {
 public:
  /// Of an event of the parser: the member that has come before in the same object.
  std::optional<std::string> twice(Parsed::parse_event_t event, const Parsed& parsed) {
    if (event == Parsed::parse_event_t::object_start) objects_.emplace_back();
    if (event == Parsed::parse_event_t::object_end) objects_.pop_back();
    if (event != Parsed::parse_event_t::key) return std::nullopt;
    const auto name = parsed.get<std::string>();
    return objects_.back().insert(name).second ? std::nullopt : std::optional(name);
  }

 private:
  std::vector<std::set<std::string>> objects_;  // from the outermost to the present one
};

class ModelParser {
 public:
  explicit ModelParser(const std::string& path) : path_(path) {}

  Model parse(std::string_view text) const {
    const Parsed json = tree(text);
    if (!json.is_object()) refuse("it is no object");
    Model model;
    for (const auto& [key, value] : json.items()) {
      const auto measure = std::ranges::find_if(
          kMeasures, [&name = key](const auto& entry) { return name == entry.first; });
      if (measure != kMeasures.end()) {
        const std::int64_t most = key == "layers" ? kMaxTransformerLayers : kMaxMeasure;
        model.shape.*measure->second = number(value, 1, most, key);
      } else if (key == "parameters") {
        model.parameters = rows(value);
      } else {
        refuse("a member is unknown: '" + key + "'");
      }
    }
    return model;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw FormatError("this is no description of a model, docs/memory.md says what it holds: " +
                      what + ": '" + path_ + "'");
  }

  Parsed tree(std::string_view text) const {
    if (text.size() > kMaxFileBytes) refuse("it is larger than 64 MiB");
    std::size_t values = 0;
    MemberNames names;
    const Parsed::parser_callback_t count = [&](int depth, Parsed::parse_event_t event,
                                                Parsed& parsed) {
      if (depth > kMaxDepth) refuse("it is nested too deeply");
      if (const auto name = names.twice(event, parsed))
        refuse("a member comes twice in one object: '" + *name + "'");
      if (++values > kMaxValues) refuse("it has too many values");
      return true;
    };
    try {
      return Parsed::parse(text, count);
    } catch (const Parsed::exception& error) {
      refuse("it is no JSON (" + std::string(error.what()) + ")");
    }
  }

  std::int64_t number(const Parsed& value, std::int64_t low, std::int64_t high,
                      const std::string& what) const {
    const bool is_whole = value.is_number_unsigned();
    if (!is_whole || value.get<std::uint64_t>() > static_cast<std::uint64_t>(high) ||
        value.get<std::int64_t>() < low) {
      refuse("a number must be whole, " + std::to_string(low) + " to " + std::to_string(high) +
             ": '" + what + "'");
    }
    return value.get<std::int64_t>();
  }

  std::string text(const Parsed& value, const std::string& what) const {
    if (!value.is_string()) refuse("a text is expected: '" + what + "'");
    return value.get<std::string>();
  }

  std::vector<std::int64_t> shape(const Parsed& value, const std::string& row) const {
    if (!value.is_array() || value.size() > checkpoint::kMaxDimensions) {
      refuse("a shape is no array of at most 8 numbers, in the row '" + row + "'");
    }
    std::vector<std::int64_t> sizes;
    for (const Parsed& size : value) sizes.push_back(number(size, 0, kMaxSize, "shape of " + row));
    return sizes;
  }

  std::vector<ParameterSpec> rows(const Parsed& value) const {
    if (!value.is_array() || value.size() > kMaxRows) {
      refuse("'parameters' is no array of at most 2^20 rows");
    }
    std::vector<ParameterSpec> all;
    std::map<std::string, std::int32_t> index;
    for (const Parsed& json : value) {
      ParameterSpec row = this->row(json, index);
      const auto at = static_cast<std::int32_t>(all.size());
      if (!index.emplace(row.name, at).second) refuse("a name comes twice: '" + row.name + "'");
      all.push_back(std::move(row));
    }
    return all;
  }

  ParameterSpec row(const Parsed& json, const std::map<std::string, std::int32_t>& earlier) const {
    if (!json.is_object() || !json.contains("name") || !json.contains("shape")) {
      refuse("a row of 'parameters' needs a name and a shape");
    }
    ParameterSpec row;
    row.name = text(json["name"], "name");
    if (!checkpoint::is_parameter_name(row.name)) refuse("a name is empty or malformed");
    for (const auto& [key, value] : json.items()) set(row, key, value, earlier);
    return row;
  }

  void set(ParameterSpec& row, const std::string& key, const Parsed& value,
           const std::map<std::string, std::int32_t>& earlier) const {
    if (key == "shape") {
      row.shape = shape(value, row.name);
    } else if (key == "dtype") {
      const auto dtype = dtype_named(text(value, key));
      if (!dtype) refuse("a dtype is unknown, in the row '" + row.name + "'");
      row.dtype = *dtype;
    } else if (key == "kind") {
      const std::string kind = text(value, key);
      if (kind != "trainable" && kind != "frozen" && kind != "buffer") {
        refuse("a kind is none of trainable, frozen, buffer, in the row '" + row.name + "'");
      }
      row.trainable = kind == "trainable";
      if (kind == "buffer") row.group = -1;
    } else if (key == "alias_of") {
      const auto owner = earlier.find(text(value, key));
      if (owner == earlier.end()) refuse("an alias names no earlier row: '" + row.name + "'");
      row.alias_of = owner->second;
    } else if (key != "name") {
      refuse("a member of the row '" + row.name + "' is unknown: '" + key + "'");
    }
  }

  const std::string& path_;
};

}  // namespace

Model parse_model(std::string_view text, const std::string& path) {
  Model model = ModelParser(path).parse(text);
  try {  // the layout's own rules: aliases, dtypes, sizes
    const Layout layout(model.parameters, {});
    elements_of(model.parameters);
  } catch (const ContractError& error) {
    throw FormatError("the rows of this model cannot be: '" + path + "': " + error.what());
  }
  return model;
}

Model read_model_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    throw IoError("a model's file cannot be read, check the path: '" + path + "'");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_model(text, path);
}

}  // namespace zero::cli
