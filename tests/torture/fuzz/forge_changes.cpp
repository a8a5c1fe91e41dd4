#include <array>
#include <optional>

#include "forge.h"

namespace zero::checkpoint::torture {
namespace {

constexpr std::size_t kMaxContent = std::size_t{1} << 16;

std::string any_name(Bytes& choices) {
  static constexpr std::array kNames = {"/parameters/name",
                                        "/parameters/shape",
                                        "/parameters/dtype",
                                        "/parameters/group",
                                        "/parameters/trainable",
                                        "/parameters/alias_of",
                                        "/parameters/applied_steps",
                                        "/groups/lr",
                                        "/scaler/scale",
                                        "/counters/n",
                                        "/blobs/shared/b",
                                        "/blobs/rank/00001/b",
                                        "/blobs/rank/99999/b",
                                        "/blobs/rank/00000/",
                                        "/blobs/rank/0000/b",
                                        "/states/master/float32/data",
                                        "/states/master/float32/extents",
                                        "/states/master/float32/blocks",
                                        "/states/value/uint8/data",
                                        "/states/value/uint8/extents",
                                        "/states/exp_avg/bfloat16/data",
                                        "/groups/.x"};
  const std::size_t choice = choices.below(kNames.size() + 6);
  return choice < kNames.size() ? kNames[choice] : "/" + choices.ascii(40);
}

ElementType any_type(Bytes& choices) {
  const std::array types = {ElementType::of(DType::kFloat32), ElementType::of(DType::kBFloat16),
                            ElementType::of(DType::kFloat16), ElementType::of(DType::kInt64),
                            ElementType::of(DType::kUInt8),   ElementType::float64()};
  const std::size_t choice = choices.below(types.size() + 2);
  if (choice < types.size()) return types[choice];
  return ElementType::string(static_cast<std::int64_t>(choices.below(1024)) + 1);
}

/// As many bytes as type and shape want, as long as that is a sane number.
void fit(ForgedDataset& dataset) {
  const std::int64_t count = checked_product(dataset.shape);
  const std::int64_t limit = static_cast<std::int64_t>(kMaxContent) / dataset.type.width;
  if (count >= 0 && count <= limit) {
    dataset.content.resize(static_cast<std::size_t>(count * dataset.type.width), std::byte{1});
  }
}

void change_shape(ForgedDataset& dataset, Bytes& choices) {
  const std::size_t choice = choices.below(dataset.shape.size() + 2);
  if (choice < dataset.shape.size()) {
    dataset.shape[choice] = choices.number();
  } else if (choice == dataset.shape.size()) {
    dataset.shape.push_back(choices.number());
  } else if (!dataset.shape.empty()) {
    dataset.shape.pop_back();
  }
  for (std::int64_t& dimension : dataset.shape)
    dimension &= INT64_MAX;  // As the manifest spells it.
  fit(dataset);
}

void change_word(ForgedDataset& dataset, Bytes& choices) {
  if (dataset.content.size() < 8) return;
  const std::size_t word = choices.below(dataset.content.size() / 8);
  const std::int64_t value = choices.number();
  std::memcpy(dataset.content.data() + word * 8, &value, sizeof value);
}

void change_bytes(ForgedDataset& dataset, Bytes& choices) {
  if (dataset.content.empty()) return;
  const std::size_t begin = choices.below(dataset.content.size());
  const std::string text = choices.raw(24);
  const std::size_t count = std::min(text.size(), dataset.content.size() - begin);
  std::memcpy(dataset.content.data() + begin, text.data(), count);
}

void change_dataset(ForgedFile& file, Bytes& choices) {
  const std::size_t choice = choices.below(9);
  if (file.datasets.empty() || choice == 8) {
    file.datasets.push_back({any_name(choices), any_type(choices), {1}, {}});
    return change_shape(file.datasets.back(), choices);
  }
  const std::size_t at = choices.below(file.datasets.size());
  ForgedDataset& dataset = file.datasets[at];
  if (choice <= 1) return change_word(dataset, choices);
  if (choice == 2) return change_bytes(dataset, choices);
  if (choice == 3) return change_shape(dataset, choices);
  if (choice == 4) dataset.name = any_name(choices);
  if (choice == 5) {
    dataset.type = any_type(choices);
    fit(dataset);
  }
  if (choice == 6) file.datasets.erase(file.datasets.begin() + static_cast<std::ptrdiff_t>(at));
  if (choice == 7) std::swap(dataset, file.datasets[choices.below(file.datasets.size())]);
}

void change_head(Manifest& head, Bytes& choices) {
  const std::int64_t value = choices.number();
  switch (choices.below(7)) {
    case 0:
      head.step = value;
      break;
    case 1:
      head.world_size = static_cast<int>(value);
      break;
    case 2:
      head.stage = static_cast<int>(value);
      break;
    case 3:
      head.parameters = value;
      break;
    case 4:
      head.groups = value;
      break;
    case 5:
      head.block_bytes = std::uint64_t{1} << (static_cast<std::uint64_t>(value) % 31);
      break;
    default:
      head.run_id = choices.ascii(10);
      break;
  }
}

void change_files(std::vector<ForgedFile>& files, Bytes& choices) {
  const std::size_t choice = choices.below(5);
  const std::size_t at = choices.below(files.size());
  if (choice == 0) std::swap(files[at].datasets, files[choices.below(files.size())].datasets);
  if (choice == 1) std::swap(files[at], files[choices.below(files.size())]);
  if (choice == 2) files[at].rank = static_cast<int>(choices.number());
  if (choice == 3) files[at].name = choices.ascii(30);
  if (choice == 4 && files.size() < 6) files.push_back({"view.h5", -1, {}});
}

}  // namespace

void change(Forgery& forgery, Bytes& choices, int only) {
  for (int left = 12; left > 0 && !choices.empty(); --left) {
    const bool anything = only < 0;
    const std::size_t choice = anything ? choices.below(8) : 0;
    if (choice == 7 && !forgery.files.empty()) {
      change_files(forgery.files, choices);
    } else if (choice == 6) {
      change_head(forgery.head, choices);
    } else {
      const std::size_t at =
          anything ? choices.below(forgery.files.size()) : static_cast<std::size_t>(only);
      change_dataset(forgery.files[at], choices);
    }
  }
}

}  // namespace zero::checkpoint::torture
