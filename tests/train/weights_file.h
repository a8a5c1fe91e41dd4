#pragma once

/// Writes small safetensors files, by the format's description and nothing of libzero.

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace zero::testing {

using Tensors = std::map<std::string, torch::Tensor>;
using Metadata = std::map<std::string, std::string>;

inline std::string type_word(torch::Dtype type) {
  if (type == torch::kDouble) return "F64";
  if (type == torch::kFloat) return "F32";
  if (type == torch::kHalf) return "F16";
  if (type == torch::kBFloat16) return "BF16";
  if (type == torch::kLong) return "I64";
  if (type == torch::kBool) return "BOOL";
  throw std::runtime_error("the test's writer does not know this type");
}

inline void write_weights(const std::string& path, const Tensors& tensors,
                          const Metadata& metadata = {}) {
  std::ostringstream text;
  const char* comma = "{";
  if (!metadata.empty()) {
    text << "{\"__metadata__\":";
    for (const auto& [key, value] : metadata) {
      text << comma << '"' << key << "\":\"" << value << '"';
      comma = ",";
    }
    text << '}';
    comma = ",";
  }
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor whole = tensor.detach().contiguous();
    const std::size_t begin = data.size();
    if (whole.numel() > 0) data.append(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
    text << comma << '"' << name << "\":{\"dtype\":\"" << type_word(whole.scalar_type())
         << "\",\"shape\":[";
    for (std::int64_t d = 0; d < whole.dim(); ++d) text << (d > 0 ? "," : "") << whole.size(d);
    text << "],\"data_offsets\":[" << begin << ',' << data.size() << "]}";
    comma = ",";
  }
  text << '}';
  std::string header = text.str();
  header.append((8 - header.size() % 8) % 8, ' ');
  const auto size = static_cast<std::uint64_t>(header.size());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header << data << std::flush;
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace zero::testing
