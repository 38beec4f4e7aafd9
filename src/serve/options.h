// The groups serve and generate of a trl_config as plain values.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trl/trl.h"

namespace trl::serve {

// The canonical values of both groups' keys. A key that a configuration does not set has that of the one
// below.
class Settings {
 public:
  // config: or null. below: options for keys that config lacks, or null. Throws Error.
  Settings(const trl_config* config, const Settings* below);
  int64_t integer(std::string_view key) const;
  std::optional<int64_t> optional_integer(std::string_view key) const;
  double number(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::optional<std::string> optional_text(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::vector<std::string> list(std::string_view key) const;
  // Returns whether the configuration itself sets a key, and not the one below.
  bool sets(std::string_view key) const { return own_.contains(key); }
  // Throws Error for a key serve.* that the configuration sets, that is of no use, because nothing has read
  // it here, and that has another value below.
  void check_read(const Settings& below) const;
  // Returns the keys generate.* that were set.
  const std::map<std::string, std::string>& generation() const { return generation_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::set<std::string, std::less<>> own_;
  mutable std::set<std::string, std::less<>> read_;
  std::map<std::string, std::string> generation_;
};

// Limits of what a request may ask for.
struct Limits {
  int64_t max_prompts, max_n, max_completions, max_request_tokens, max_stops, max_logprobs;
};

struct ServerOptions {
  std::string host;
  int port;
  std::vector<std::string> keys, hosts, origins;
  bool request_templates;  // chat templates of requests are taken
  size_t max_connections, max_header_bytes, max_body_bytes, max_held_bytes, stream_buffer;
  double header_timeout, body_timeout, write_timeout, idle_timeout, drain_timeout;
  Limits limits;
};

struct ModelOptions {
  std::optional<int64_t> max_model_len;
  int64_t max_num_seqs, max_queue, max_queue_tokens, max_loras, max_lora_rank;
  bool enable_lora;                        // by requests
  bool enable_sleep_mode;                  // by requests
  std::optional<std::string> adapter_dir;  // of adapters that requests name
  double request_timeout;
  int64_t max_tokens;  // of a completion, if the request does not say
  std::map<std::string, std::string> generation;
};

// Returns seconds as a time that can be added to now: less than 0 is none, and more than 30 years are 30.
std::chrono::nanoseconds time_of(double seconds);
ServerOptions server_options(const Settings& settings);
ModelOptions model_options(const Settings& settings);

}  // namespace trl::serve
