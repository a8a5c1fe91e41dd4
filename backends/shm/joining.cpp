#include "backends/shm/joining.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "libzero/base/error.h"

namespace zero::shm {
namespace {

// Offers: "segment <host> <pid> <descriptor> <bytes> <magic> <nonce> <nonce>" or a refusal.
// Answers: "joined <pid> <start time>" or a refusal.
// Refusals: "ContractError <text>", "IoError <text>", "Unavailable <text>".

struct Offer {
  std::string host;
  pid_t pid = 0;
  int descriptor = -1;
  std::size_t bytes = 0;
  std::uint64_t magic = 0;
  std::uint64_t nonce[2] = {};
};

std::string write_offer(const Offer& offer) {
  std::ostringstream text;
  text << "segment " << offer.host << ' ' << offer.pid << ' ' << offer.descriptor << ' '
       << offer.bytes << ' ' << offer.magic << ' ' << offer.nonce[0] << ' ' << offer.nonce[1];
  return text.str();
}

std::optional<Offer> read_offer(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  Offer offer;
  words >> kind >> offer.host >> offer.pid >> offer.descriptor >> offer.bytes >> offer.magic >>
      offer.nonce[0] >> offer.nonce[1];
  if (!words || kind != "segment") return std::nullopt;
  return offer;
}

/// The exception in flight, as a refusal.
std::string refusal_of_current_exception() {
  std::string text;
  try {
    throw;
  } catch (const ContractError& error) {
    text = std::string("ContractError ") + error.what();
  } catch (const IoError& error) {
    text = std::string("IoError ") + error.what();
  } catch (const std::exception& error) {
    text = std::string("Unavailable ") + error.what();
  }
  return text.substr(0, Joining::kMostTextBytes);
}

/// Null if the text is no refusal.
std::unique_ptr<Refusal> read_refusal(const std::string& text, int rank) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return nullptr;
  const std::string kind = text.substr(0, space);
  const std::string what = "the ranks cannot talk over shared memory: rank " +
                           std::to_string(rank) + ": " + text.substr(space + 1);
  const auto refusal = [&](const auto& error) {
    return std::make_unique<Refusal>(Refusal{std::make_exception_ptr(error), what});
  };
  if (kind == "ContractError") return refusal(ContractError(what));
  if (kind == "IoError") return refusal(IoError(what));
  if (kind == "Unavailable") return refusal(Unavailable(what));
  return nullptr;
}

void fill_randomly(std::uint64_t (&nonce)[2]) {
  if (::getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce)) {
    throw Unavailable("this system gives no random numbers; use the backend gloo: getrandom: " +
                      std::string(std::strerror(errno)));
  }
}

}  // namespace

std::string Joining::make_offer() {
  try {
    segment_ = std::make_shared<Segment>(Segment::create(geometry_.total_bytes()));
    segment_->allocate(0, geometry_.region_begin(0));
    Front& front = *reinterpret_cast<Front*>(segment_->data());
    front.magic = Front::kMagic;
    fill_randomly(front.nonce);
    const Process self = this_process();
    return write_offer({host_identity(),
                        self.pid,
                        segment_->descriptor(),
                        segment_->bytes(),
                        front.magic,
                        {front.nonce[0], front.nonce[1]}});
  } catch (const std::exception&) {
    segment_.reset();
    return refusal_of_current_exception();
  }
}

std::string Joining::answer(const std::string& offer) {
  try {
    if (read_refusal(offer, 0) != nullptr) return rank_ == 0 ? offer : kNothingToSay;
    accept(offer);
    segment_->allocate(geometry_.region_begin(rank_), geometry_.region_bytes());
    const Process self = this_process();
    watch_process(self);  // whether that is possible at all
    return "joined " + std::to_string(self.pid) + " " + std::to_string(self.start_time);
  } catch (const std::exception&) {
    return refusal_of_current_exception();
  }
}

void Joining::accept(const std::string& text) {
  const auto offer = read_offer(text);
  if (!offer || offer->magic != Front::kMagic || offer->bytes != geometry_.total_bytes()) {
    throw ContractError("the first rank runs another libzero; run the same one on every rank");
  }
  if (offer->host != host_identity()) {
    throw ContractError(
        "the first rank runs on another host or in another container; use the backend gloo, or "
        "auto");
  }
  if (rank_ == 0) return;
  segment_ = std::make_shared<Segment>(
      Segment::open(offer->pid, offer->descriptor, geometry_.total_bytes()));
  const Front& front = *reinterpret_cast<const Front*>(segment_->data());
  if (front.magic != offer->magic || front.nonce[0] != offer->nonce[0] ||
      front.nonce[1] != offer->nonce[1]) {
    throw ContractError(
        "what this rank sees is not the memory that the first one shares; run all ranks in one "
        "container, or use the backend gloo");
  }
}

void Joining::finish(const std::vector<std::string>& answers) {
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    std::istringstream words(answers[rank]);
    std::string kind;
    Process process;
    if (!(words >> kind >> process.pid >> process.start_time) || kind != "joined") {
      throw FormatError(
          "rank " + std::to_string(rank) +
          " gave an answer that makes no sense; run the same libzero on every rank: " +
          answers[rank]);
    }
    processes_.push_back(process);
  }
  segment_->close_descriptor();
}

std::unique_ptr<Refusal> first_refusal(const std::vector<std::string>& answers) {
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (auto refusal = read_refusal(answers[rank], static_cast<int>(rank))) return refusal;
  }
  return nullptr;
}

}  // namespace zero::shm
