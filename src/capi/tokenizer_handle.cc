// trl_tokenizer_*.
#include "capi/tokenizer_handle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "capi/config_handle.h"
#include "capi/guard.h"
#include "capi/runtime.h"
#include "config/data_arguments.h"
#include "data/open_tokenizer.h"

namespace trl::capi {
namespace {

base::Json describe_tokenizer(const text::Tokenizer& tokenizer) {
  base::Json out = {{"vocab_size", tokenizer.vocab_size()}};
  const base::Json tokens = tokenizer.special_tokens_map();
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    const bool known = tokens.contains(name);
    out[name] = known ? tokens[name] : base::Json(nullptr);
    const auto id = known ? tokenizer.token_to_id(tokens[name].get<std::string>()) : std::nullopt;
    out[std::string(name) + "_id"] = id ? base::Json(*id) : base::Json(nullptr);
  }
  const auto& templates = tokenizer.chat_templates();
  const bool one = templates.size() == 1 && templates.contains("default");
  if (one)
    out["chat_template"] = templates.at("default");
  else
    out["chat_template"] = templates.empty() ? base::Json(nullptr) : base::Json(templates);
  return out;
}

bool flag(const base::Json& conversation, const char* name) {
  const auto found = conversation.find(name);
  if (found == conversation.end() || found->is_null()) return false;
  if (!found->is_boolean())
    fail(Status::format, "json: {} must be true or false, not a {}", name, base::json_type(*found));
  return found->get<bool>();
}

// Copies as much as there is room for; a text also gets its NUL where that fits.
template <class T, class Range>
void copy_out(const Range& from, T* to, size_t capacity, size_t* out_count) {
  const size_t count = std::min(from.size(), capacity);
  if (count > 0) std::memcpy(to, from.data(), count * sizeof(T));
  if constexpr (std::is_same_v<T, char>) {
    if (count < capacity) to[count] = '\0';
  }
  *out_count = from.size();
}

void need_room(const void* to, size_t capacity, size_t* out_count, std::string_view name,
               std::string_view count_name) {
  need(out_count, count_name);
  if (to == nullptr && capacity != 0)
    fail(Status::invalid_argument, "{} is NULL with a capacity of {}", name, capacity);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<text::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      templates_(tokenizer_->chat_templates()),
      described_(describe_tokenizer(*tokenizer_).dump()) {}

std::string Tokenizer::render(const base::Json& messages, const text::RenderOptions& options) const {
  if (const text::ChatTemplate* chosen = templates_.find(options.tools))
    return chosen->render(messages, options).text;
  fail(Status::not_found, "{}; give one with chat_template or chat_template_path", templates_.why_none());
}

std::string Tokenizer::apply_chat_template(const base::Json& conversation) const {
  text::RenderOptions options;
  options.variables = tokenizer_->special_tokens_map();
  if (conversation.is_array()) return render(conversation, options);
  if (!conversation.is_object() || !conversation.contains("messages")) {
    fail(Status::format, "json: a list of messages or an object with messages is needed, not a {}",
         base::json_type(conversation));
  }
  static constexpr std::array<std::string_view, 5> kKnown = {
      "messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"};
  for (const auto& [name, value] : conversation.items()) {
    if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
      fail(Status::format,
           "json: '{}' is not one of messages, tools, add_generation_prompt, continue_final_message, "
           "chat_template_kwargs",
           name);
    }
  }
  options.add_generation_prompt = flag(conversation, "add_generation_prompt");
  options.continue_final_message = flag(conversation, "continue_final_message");
  if (conversation.contains("tools")) options.tools = conversation["tools"];
  if (const auto given = conversation.find("chat_template_kwargs");
      given != conversation.end() && !given->is_null()) {
    if (!given->is_object()) fail(Status::format, "json: chat_template_kwargs must be an object");
    for (const auto& [name, value] : given->items()) options.variables[name] = value;
  }
  return render(conversation["messages"], options);
}

std::shared_ptr<Tokenizer> open_tokenizer(const std::string& path, const config::Config& options) {
  auto tokenizer = data::open_tokenizer(path, current_log());
  const bool changed = std::any_of(std::begin(kTokenizerKeys), std::end(kTokenizerKeys),
                                   [&](std::string_view key) { return options.is_set(key); });
  if (changed) tokenizer = data::training_tokenizer(*tokenizer, config::data_arguments(options));
  return std::make_shared<Tokenizer>(std::move(tokenizer));
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_tokenizer_open(trl_runtime* runtime, const char* path, const trl_config* options,
                              trl_tokenizer** out_tokenizer, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        need(out_tokenizer, "out_tokenizer");
        const std::string directory = path_of(path);
        const auto held = runtime_of(runtime);
        const RuntimeScope scope(*held);
        *out_tokenizer = new trl_tokenizer(open_tokenizer(directory, options_of(options)));
      },
      out_tokenizer);
}

trl_status trl_tokenizer_encode(const trl_tokenizer* tokenizer, const char* text, size_t size,
                                int32_t add_special_tokens, int32_t* ids, size_t capacity, size_t* out_count,
                                trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(tokenizer, "tokenizer");
        need_room(ids, capacity, out_count, "ids", "out_count");
        copy_out(shared->get().encode(utf8(text, size, "text"), add_special_tokens != 0), ids, capacity,
                 out_count);
      },
      out_count);
}

trl_status trl_tokenizer_decode(const trl_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                int32_t skip_special_tokens, char* text, size_t capacity, size_t* out_size,
                                trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(tokenizer, "tokenizer");
        need_room(text, capacity, out_size, "text", "out_size");
        if (count > 0) need(ids, "ids");
        const int64_t vocabulary = shared->get().vocab_size();
        for (size_t i = 0; i < count; ++i) {
          if (ids[i] >= 0 && ids[i] < vocabulary) continue;
          trl::fail(trl::Status::invalid_argument, "ids[{}]: {} is outside the vocabulary of {}", i, ids[i],
                    vocabulary);
        }
        copy_out(shared->get().decode({ids, count}, skip_special_tokens != 0), text, capacity, out_size);
      },
      out_size);
}

trl_status trl_tokenizer_get_piece(const trl_tokenizer* tokenizer, int32_t id, char* piece, size_t capacity,
                                   size_t* out_size, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(tokenizer, "tokenizer");
        need_room(piece, capacity, out_size, "piece", "out_size");
        const int64_t vocabulary = shared->get().vocab_size();
        if (id < 0 || id >= vocabulary)
          trl::fail(trl::Status::invalid_argument, "id: {} is outside the vocabulary of {}", id, vocabulary);
        const auto token = shared->get().id_to_token(id);
        if (!token) trl::fail(trl::Status::not_found, "id: {} belongs to no token", id);
        copy_out(*token, piece, capacity, out_size);
      },
      out_size);
}

trl_status trl_tokenizer_apply_chat_template(const trl_tokenizer* tokenizer, const char* json, size_t size,
                                             char* text, size_t capacity, size_t* out_size,
                                             trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(tokenizer, "tokenizer");
        need_room(text, capacity, out_size, "text", "out_size");
        const auto conversation = trl::base::parse_exact_json(utf8(json, size, "json"), "json");
        copy_out(shared->apply_chat_template(conversation), text, capacity, out_size);
      },
      out_size);
}

trl_status trl_tokenizer_describe(const trl_tokenizer* tokenizer, const char** out_json,
                                  trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(tokenizer, "tokenizer");
        need(out_json, "out_json");
        *out_json = shared->describe().c_str();
      },
      out_json);
}

void trl_tokenizer_destroy(trl_tokenizer* tokenizer) noexcept { destroy(tokenizer); }
