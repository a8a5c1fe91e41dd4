#include "libzero/observe/tensorboard.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/observe/crc32c.h"
#include "tests/temporary_folder.h"

namespace zero::observe {
namespace {

using testing::TemporaryFolder;

/// A strict reader that shares nothing with the writer but the CRC, which has known answers.
class Bytes {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  bool empty() const { return at_ == bytes_.size(); }
  std::string take(std::size_t count) {
    if (count > bytes_.size() - at_) throw std::runtime_error("cut short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::runtime_error("endless number");
  }
  std::string record() {
    const std::string length = take(8);
    if (number<std::uint32_t>() != masked_crc32c(length)) throw std::runtime_error("CRC of length");
    std::uint64_t size;
    std::memcpy(&size, length.data(), 8);
    std::string data = take(size);
    if (number<std::uint32_t>() != masked_crc32c(data)) throw std::runtime_error("CRC of data");
    return data;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

struct Event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

void read_summary(Bytes summary, Event& event) {
  while (!summary.empty()) {
    EXPECT_EQ(summary.varint(), 1u << 3 | 2);
    Bytes value(summary.take(summary.varint()));
    EXPECT_EQ(value.varint(), 1u << 3 | 2);
    const std::string tag = value.take(value.varint());
    EXPECT_EQ(value.varint(), 2u << 3 | 5);
    event.scalars[tag] = value.number<float>();
    EXPECT_TRUE(value.empty());
  }
}

Event read_event(const std::string& data) {
  Bytes bytes(data);
  Event event;
  while (!bytes.empty()) {
    switch (bytes.varint()) {
      case 1 << 3 | 1:
        event.wall_time = bytes.number<double>();
        break;
      case 2 << 3 | 0:
        event.step = bytes.varint();
        break;
      case 3 << 3 | 2:
        event.version = bytes.take(bytes.varint());
        break;
      case 5 << 3 | 2:
        read_summary(Bytes(bytes.take(bytes.varint())), event);
        break;
      default:
        throw std::runtime_error("unknown field");
    }
  }
  return event;
}

std::vector<Event> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Bytes bytes({std::istreambuf_iterator<char>(file), {}});
  std::vector<Event> events;
  while (!bytes.empty()) events.push_back(read_event(bytes.record()));
  return events;
}

TEST(Crc32c, HasTheAnswersOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(masked_crc32c(""), 0xa282ead8U) << "TFRecord's constant";
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5U);
}

TEST(TensorBoard, WritesEventsThatAStrictReaderReads) {
  const TemporaryFolder folder;
  TensorBoard board(folder / "runs/a");
  EXPECT_THAT(board.path(), ::testing::HasSubstr("events.out.tfevents."));
  const std::string long_tag(300, 'x');
  const Scalar first[] = {{"loss/training", 0.1}, {long_tag, -5e7}};
  board.add(1, first);
  const Scalar second[] = {{"loss/training", std::nan("")}};
  board.add(std::int64_t{1} << 40, second);
  const std::vector<Event> events = read_file(board.path());  // while it is open
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[1].wall_time, 1.7e9);
  EXPECT_GE(events[2].wall_time, events[1].wall_time);
  EXPECT_EQ(events[1].step, 1u);
  EXPECT_EQ(events[1].scalars.at("loss/training"), 0.1f);
  EXPECT_EQ(events[1].scalars.at(long_tag), -5e7f);
  EXPECT_EQ(events[2].step, std::uint64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("loss/training")));
}

TEST(TensorBoard, NeverWritesIntoAnotherRunsFile) {
  const TemporaryFolder folder;
  const TensorBoard a(folder.path()), b(folder.path());
  EXPECT_NE(a.path(), b.path());
}

TEST(TensorBoard, SaysWhereItCannotWrite) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(TensorBoard(folder / "file/below"), IoError);
}

}  // namespace
}  // namespace zero::observe
