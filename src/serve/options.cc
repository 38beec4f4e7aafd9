#include "serve/options.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/number.h"
#include "serve/handles.h"

namespace trl::serve {

namespace {

constexpr int64_t kDefaultTokens = 16;   // of a completion, as OpenAI's
constexpr int64_t kMostLogprobs = 1000;  // of the key generate.logprobs

// Calls body(name) for each key of the two groups.
template <class Body>
void each_key(const Body& body) {
  for (const trl_option* option = trl_option_next(nullptr); option != nullptr;
       option = trl_option_next(option)) {
    const std::string_view section = trl_option_section(option);
    if (section == "serve" || section == "generate") body(std::string(trl_option_name(option)));
  }
}

std::string value_of(const trl_config* config, const std::string& key) {
  ErrorHandle error;
  const char* value = nullptr;
  check(trl_config_get(config, key.c_str(), &value, error.out()), error);
  return value;
}

bool is_set(const trl_config* config, const std::string& key) {
  ErrorHandle error;
  const char* origin = nullptr;
  check(trl_config_get_origin(config, key.c_str(), &origin, error.out()), error);
  return std::string_view(origin) != "default";
}

// Refuses keys that each request says for itself.
void check_generation(const std::map<std::string, std::string>& generation) {
  for (const char* key : {"generate.chat", "generate.system", "generate.keep", "generate.stream",
                          "generate.num_return_sequences", "generate.logprobs", "generate.prompt_logprobs",
                          "generate.prompt_logprobs_temperature", "generate.take", "generate.usage"})
    if (generation.contains(key))
      fail_key(key, "{}: requests to a server say it themselves; leave it out", key);
  constexpr const char* kKwargs = "generate.generation_kwargs";
  if (generation.contains(kKwargs))
    fail_key(kKwargs, "{}: it would go over what requests say; give its entries as keys of generate",
             kKwargs);
}

// Returns the keys of clients. Throws Error for one that no client can send, or that anyone would.
std::vector<std::string> keys_of(const Settings& settings) {
  constexpr const char* kKey = "serve.api_key";
  std::vector<std::string> keys = settings.list(kKey);
  for (const std::string& key : keys) {
    const bool good = !key.empty() && key.front() != ' ' && key.back() != ' ' &&
                      std::ranges::all_of(key, [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
    if (!good)
      fail_key(kKey,
               "{}: a key is empty, or has a space at an end or a control character; give other texts, or "
               "[] for no key",
               kKey);
  }
  return keys;
}

}  // namespace

Settings::Settings(const trl_config* config, const Settings* below) {
  ConfigHandle defaults;
  ErrorHandle error;
  check(trl_config_create(defaults.out(), error.out()), error);
  if (below != nullptr) values_ = below->values_, generation_ = below->generation_;
  each_key([&](const std::string& key) {
    const bool set = config != nullptr && is_set(config, key);
    if (!set && below != nullptr) return;
    const std::string value = value_of(set ? config : defaults.get(), key);
    values_[key] = value;
    if (set) own_.insert(key);
    if (set && key.starts_with("generate.")) generation_[key] = value;
  });
}

std::string Settings::text(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) fail(Status::internal, "{}: no such key", key);
  read_.insert(found->first);
  return found->second;
}

void Settings::check_read(const Settings& below) const {
  for (const std::string& key : own_)
    if (key.starts_with("serve.") && !read_.contains(key) && text(key) != below.text(key))
      fail_key(key, "{}: it is of the whole server and not of one model; give it to trl_server_create", key);
}

std::optional<int64_t> Settings::optional_integer(std::string_view key) const {
  return base::parse_int64(text(key));
}
int64_t Settings::integer(std::string_view key) const { return optional_integer(key).value_or(0); }
double Settings::number(std::string_view key) const { return base::parse_double(text(key)).value_or(0); }

std::optional<std::string> Settings::optional_text(std::string_view key) const {
  std::string value = text(key);
  return value == "null" ? std::nullopt : std::optional(std::move(value));
}
bool Settings::boolean(std::string_view key) const { return text(key) == "true"; }

std::vector<std::string> Settings::list(std::string_view key) const {
  const std::string value = text(key);
  std::vector<std::string> items;
  if (value == "null") return items;
  for (const base::Json& item : base::parse_json(value, key))
    items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return items;
}

std::chrono::nanoseconds time_of(double seconds) {
  constexpr double kMost = 1e9;
  const std::chrono::duration<double> time(seconds > 0 ? std::min(seconds, kMost) : 0);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

ServerOptions server_options(const Settings& settings) {
  const auto size = [&](std::string_view key) { return static_cast<size_t>(settings.integer(key)); };
  const int64_t logprobs = settings.integer("serve.max_logprobs");
  return {.host = settings.text("serve.host"),
          .port = static_cast<int>(settings.integer("serve.port")),
          .keys = keys_of(settings),
          .hosts = settings.list("serve.hosts"),
          .origins = settings.list("serve.cors_origins"),
          .request_templates = settings.text("serve.request_chat_template") == "true",
          .max_connections = size("serve.max_connections"),
          .max_header_bytes = size("serve.max_header_bytes"),
          .max_body_bytes = size("serve.max_body_bytes"),
          .max_held_bytes = size("serve.max_held_bytes"),
          .stream_buffer = size("serve.stream_buffer"),
          .header_timeout = settings.number("serve.header_timeout"),
          .body_timeout = settings.number("serve.body_timeout"),
          .write_timeout = settings.number("serve.write_timeout"),
          .idle_timeout = settings.number("serve.idle_timeout"),
          .drain_timeout = settings.number("serve.drain_timeout"),
          .limits = {.max_prompts = settings.integer("serve.max_prompts"),
                     .max_n = settings.integer("serve.max_n"),
                     .max_completions = settings.integer("serve.max_completions"),
                     .max_request_tokens = settings.integer("serve.max_request_tokens"),
                     .max_stops = settings.integer("serve.max_stops"),
                     .max_logprobs = logprobs < 0 ? kMostLogprobs : logprobs}};
}

ModelOptions model_options(const Settings& settings) {
  check_generation(settings.generation());
  const std::optional<std::string> adapters = settings.optional_text("serve.adapter_dir");
  if (adapters && !base::is_directory(*adapters))
    fail_key("serve.adapter_dir",
             "serve.adapter_dir: {} is not a directory; give the one that adapters are in", *adapters);
  return {.max_model_len = settings.optional_integer("serve.max_model_len"),
          .max_num_seqs = settings.integer("serve.max_num_seqs"),
          .max_queue = settings.integer("serve.max_queue"),
          .max_queue_tokens = settings.integer("serve.max_queue_tokens"),
          .max_loras = settings.integer("serve.max_loras"),
          .max_lora_rank = settings.integer("serve.max_lora_rank"),
          .enable_lora = settings.boolean("serve.enable_lora"),
          .enable_sleep_mode = settings.boolean("serve.enable_sleep_mode"),
          .adapter_dir = adapters,
          .request_timeout = settings.number("serve.request_timeout"),
          .max_tokens = settings.generation().contains("generate.max_new_tokens")
                            ? settings.integer("generate.max_new_tokens")
                            : kDefaultTokens,
          .generation = settings.generation()};
}

}  // namespace trl::serve
