#include "backends/rendezvous/served_store.h"

#include <utility>

namespace zero::rendezvous {
namespace {

using std::chrono::milliseconds;

class ServedStore : public KeyValueStore {
 public:
  ServedStore(std::unique_ptr<StoreServer> server, std::shared_ptr<KeyValueStore> client,
              milliseconds patience)
      : server_(std::move(server)), client_(std::move(client)), patience_(patience) {}

  ~ServedStore() override {
    client_.reset();
    server_->wait_until_unused(patience_);
  }

  void set(std::string_view key, std::string_view value) override { client_->set(key, value); }
  std::string get(std::string_view key, milliseconds timeout) override {
    return client_->get(key, timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return client_->add(key, delta);
  }
  std::string compare_and_set(std::string_view key, std::string_view expected,
                              std::string_view desired) override {
    return client_->compare_and_set(key, expected, desired);
  }
  bool remove(std::string_view key) override { return client_->remove(key); }
  void leave_behind(std::string_view key, std::string_view value) override {
    client_->leave_behind(key, value);
  }

 private:
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<KeyValueStore> client_;
  const milliseconds patience_;
};

}  // namespace

std::shared_ptr<KeyValueStore> serve_store(const ServerOptions& options,
                                           const std::string& reach_host, milliseconds timeout,
                                           milliseconds patience) {
  auto server = std::make_unique<StoreServer>(options);
  auto client = connect_store(reach_host, server->port(), options.secret, timeout);
  return std::make_shared<ServedStore>(std::move(server), std::move(client), patience);
}

}  // namespace zero::rendezvous
