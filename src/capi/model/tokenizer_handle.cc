// trl_tokenizer_*.
#include "capi/model/model_handle.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "capi/config_handle.h"
#include "capi/guard.h"

namespace trl::capi {
namespace {

// Copies as much as fits; a text also gets its NUL if that fits.
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
}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_tokenizer_open(trl_runtime* runtime, const char* path, const trl_config* options,
                              trl_tokenizer** out_tokenizer, trl_error** error) noexcept {
  return guard(error, out_tokenizer, [&] {
    need(out_tokenizer, "out_tokenizer");
    const std::string directory = path_of(path);
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    auto made = trl::run::open_tokenizer(directory, options_of(options), held->log());
    trl::run::Tokenizer* const tokenizer = made.get();
    // The runtime lives as long, with its mounts.
    const auto both =
        std::make_shared<std::pair<std::shared_ptr<Runtime>, decltype(made)>>(held, std::move(made));
    *out_tokenizer = new trl_tokenizer(std::shared_ptr<trl::run::Tokenizer>(both, tokenizer));
  });
}

trl_status trl_tokenizer_encode(const trl_tokenizer* tokenizer, const char* text, size_t size,
                                int32_t add_special_tokens, int32_t split_special_tokens, int32_t* ids,
                                size_t capacity, size_t* out_count, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_count, [&] {
    const auto shared = get(tokenizer, "tokenizer");
    need_room(ids, capacity, out_count, "ids", "out_count");
    const trl::text::Tokenizer& own = shared->get();
    const std::string_view whole = utf8(text, size, "text");
    const bool split = split_special_tokens < 0 ? own.splits_special_tokens() : split_special_tokens != 0;
    trl::text::ByteRanges given;
    if (split) given.emplace_back(0, size);
    copy_out(own.encode(whole, add_special_tokens != 0, given), ids, capacity, out_count);
  });
}

trl_status trl_tokenizer_decode(const trl_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                int32_t skip_special_tokens, char* text, size_t capacity, size_t* out_size,
                                trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_size, [&] {
    const auto shared = get(tokenizer, "tokenizer");
    need_room(text, capacity, out_size, "text", "out_size");
    const auto given = elements(ids, count, "ids");
    const int64_t vocabulary = shared->get().vocab_size();
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] >= 0 && ids[i] < vocabulary) continue;
      trl::fail(trl::Status::invalid_argument, "ids[{}]: {} is outside the vocabulary of {}", i, ids[i],
                vocabulary);
    }
    copy_out(shared->get().decode(given, skip_special_tokens != 0), text, capacity, out_size);
  });
}

trl_status trl_tokenizer_get_piece(const trl_tokenizer* tokenizer, int32_t id, char* piece, size_t capacity,
                                   size_t* out_size, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_size, [&] {
    const auto shared = get(tokenizer, "tokenizer");
    need_room(piece, capacity, out_size, "piece", "out_size");
    const int64_t vocabulary = shared->get().vocab_size();
    if (id < 0 || id >= vocabulary)
      trl::fail(trl::Status::invalid_argument, "id: {} is outside the vocabulary of {}", id, vocabulary);
    const auto token = shared->get().id_to_token(id);
    if (!token) trl::fail(trl::Status::not_found, "id: {} belongs to no token", id);
    copy_out(*token, piece, capacity, out_size);
  });
}

trl_status trl_tokenizer_apply_chat_template(const trl_tokenizer* tokenizer, const char* json, size_t size,
                                             char* text, size_t capacity, size_t* out_size,
                                             trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_size, [&] {
    const auto shared = get(tokenizer, "tokenizer");
    need_room(text, capacity, out_size, "text", "out_size");
    const auto conversation = trl::base::parse_exact_json(utf8(json, size, "json"), "json");
    copy_out(shared->apply_chat_template(conversation), text, capacity, out_size);
  });
}

trl_status trl_tokenizer_describe(const trl_tokenizer* tokenizer, const char** out_json,
                                  trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    const auto shared = get(tokenizer, "tokenizer");
    need(out_json, "out_json");
    *out_json = shared->describe().c_str();
  });
}

void trl_tokenizer_destroy(trl_tokenizer* tokenizer) noexcept { destroy(tokenizer); }
