#include "fake_library.h"

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/dlpack.h"
#include "capi/serve_table.h"
#include "fake_keys.h"
#include "scarce_memory.h"
#include "trl/trl.h"

namespace trl::serve::test {

struct State {
  std::string text;
  std::vector<int32_t> ids;
  int64_t most = 0;
  int64_t place = 0;
  bool logprobs = false, stops = true, takes_new = false, usage = false;
  std::vector<int32_t> prompt;
  int prompt_best = -1;
  double prompt_temperature = 1;
  size_t taken = 0;  // tokens, of which each has a letter
  std::string stop, adapter;
  const char* finish = nullptr;
};

}  // namespace trl::serve::test

namespace {

using trl::serve::test::Key;
using trl::serve::test::kKeys;
using trl::serve::test::Plenty;
using trl::serve::test::Scarce;
using trl::serve::test::State;
using Json = nlohmann::ordered_json;
using trl::serve::test::fake;

constexpr int kVocabulary = 256;  // of the tokenizer
constexpr int kModelIds = 260;
constexpr int kEnd = 0;  // the end token
constexpr char kEndText[] = "<|im_end|>";

}  // namespace

struct trl_error {
  trl_status code;
  std::string message, key;
};
struct trl_config {
  std::map<std::string, std::string> values;
};
struct trl_option {
  trl::serve::test::Key key;
};
struct trl_runtime {};
struct trl_model {};
struct trl_tokenizer {};

namespace {

trl_status fails(trl_error** error, trl_status code, const std::string& message,
                 const std::string& key = "") {
  if (error != nullptr) *error = new trl_error{code, message, key};
  return code;
}

trl_option* all_options() {
  static std::vector<trl_option> options = [] {
    std::vector<trl_option> all;
    for (const Key& key : kKeys) all.push_back({key});
    return all;
  }();
  return options.data();
}

// The ids of the prompt: even ones are the most likely, others the least; unlikely ones follow.
Json prompt_json(const State& state) {
  Json all = Json::array({nullptr});
  for (size_t i = 1; i < state.prompt.size(); ++i) {
    const int id = state.prompt[i];
    const bool first = id % 2 == 0 && state.prompt_best > 0;
    Json place = Json::array();
    place.push_back(Json::array(
        {id, first ? -0.25 : -2.5 / state.prompt_temperature, first ? 1 : state.prompt_best + 1}));
    for (int rank = first ? 2 : 1; rank <= state.prompt_best; ++rank)
      place.push_back(Json::array({id + rank, -0.25 * rank, rank}));
    all.push_back(std::move(place));
  }
  return all;
}

template <class T>
trl_status copy(const std::vector<T>& from, T* to, size_t capacity, size_t* count) {
  *count = from.size();
  std::copy_n(from.begin(), std::min(capacity, from.size()), to);
  return TRL_OK;
}

trl_status make_error(trl_status code, const char* key, const char* message, trl_error** out) noexcept {
  const Plenty plenty;
  return fails(out, code, message, key == nullptr ? "" : key);
}
void log(trl_runtime*, int32_t, const char*, const char* text) noexcept {
  const Plenty plenty;
  const std::lock_guard lock(fake().mutex);
  fake().lines.emplace_back(text);
}
void deliver(trl_runtime*) noexcept {}
void own_thread() noexcept { trl::serve::test::be_a_thread_of_the_server(); }
int32_t usable() noexcept { return 1; }
int32_t ending() noexcept { return 0; }
template <class T>
T* another(const T*, trl_error**) noexcept {
  const Plenty plenty;
  return new T();
}
trl_tokenizer* tokenizer_of(const trl_model*, trl_error**) noexcept {
  const Plenty plenty;
  return new trl_tokenizer();
}

}  // namespace

struct trl_generator {
  std::map<size_t, trl::serve::test::State> states;
  size_t next = 0;
};
struct trl_completions {
  trl::serve::test::State state;
  std::string json;
};

namespace {

trl_model* model_of(const trl_generator*, trl_error**) noexcept { return new trl_model(); }
trl_generator* another_generator(const trl_generator*, trl_error**) noexcept { return new trl_generator(); }

trl_status wait_for(trl_runtime*, int32_t (*goes_on)(void*), void* of, trl_error** error) noexcept {
  const Plenty plenty;
  while (goes_on(of) != 0)
    if (fake().runtime_cancelled) return fails(error, TRL_E_CANCELLED, "cancelled");
  return TRL_OK;
}

// Returns the form that options ask for as a line of its key and one of its value; empty: none.
std::string form_of(const trl_config* options) {
  for (const char* key : {"generate.regex", "generate.choice", "generate.json_schema"})
    if (const auto form = options->values.find(key); form != options->values.end())
      return std::string(key) + "\n" + form->second;
  return {};
}

trl_status fails_form(const std::string& form, trl_error** error) {
  const std::string key = form.substr(0, form.find('\n'));
  return fails(error, TRL_E_INVALID_CONFIG, key + ": character 1: look-around", key);
}

trl_status constrain(const trl_generator*, const trl_config* options, int32_t (*goes_on)(void*), void* of,
                     void** out, trl_error** error) noexcept {
  const Plenty plenty;
  *out = nullptr;
  if (error != nullptr) *error = nullptr;
  const std::string form = form_of(options);
  if (form.empty()) return TRL_OK;
  {
    const std::lock_guard lock(fake().mutex);
    const bool known = fake().forms[form] > 0;
    if (!known && goes_on == nullptr) return TRL_OK;
  }
  if (goes_on != nullptr) {
    ++fake().compiling;
    while (fake().slow_forms && form.find("slow") != form.npos && goes_on(of) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --fake().compiling;
    if (goes_on(of) == 0) return fails(error, TRL_E_CANCELLED, "cancelled");
    if (form.find("(?=") != form.npos) return fails_form(form, error);
    ++fake().compiled;
  }
  const std::lock_guard lock(fake().mutex);
  ++fake().forms[form];
  ++fake().held_forms;
  *out = new std::string(form);
  return TRL_OK;
}
void release_constraint(void* constraint) noexcept {
  const Plenty plenty;
  auto* const form = static_cast<std::string*>(constraint);
  {
    const std::lock_guard lock(fake().mutex);
    --fake().forms[*form];
  }
  --fake().held_forms;
  delete form;
}
trl::capi::GeneratorUse use_of(const trl_generator*) noexcept { return {3, 12, 10, 4, 2}; }
int64_t version_of(const trl_generator*, size_t) noexcept { return fake().trained_version; }

// A copy of a tensor, whose numbers may change places with its own.
struct Read {
  trl::serve::test::FakeLibrary::Tensor copy;
  DLManagedTensorVersioned managed = {};
};

trl_status next_write(const char* name, trl_error** error) {
  const int write = fake().writes++;
  const bool good = write < fake().fails_from_write || write >= fake().fails_to_write;
  return good ? TRL_OK : fails(error, TRL_E_INTERNAL, std::string(name) + ": the write failed");
}

trl_status exchange_tensor(trl_model*, const char* name, DLManagedTensorVersioned* copy,
                           trl_error** error) noexcept {
  const std::lock_guard lock(fake().mutex);
  if (fake().in_use) return fails(error, TRL_E_BUSY, "the model is in use");
  if (const trl_status status = next_write(name, error); status != TRL_OK) return status;
  std::string& bytes = static_cast<Read*>(copy->manager_ctx)->copy.bytes;
  std::swap(fake().tensors.at(name).bytes, bytes);
  copy->dl_tensor.data = bytes.data();
  return TRL_OK;
}

constexpr trl::capi::ServeTable kTable = {trl::capi::kServeTable,
                                          make_error,
                                          log,
                                          deliver,
                                          own_thread,
                                          usable,
                                          ending,
                                          another<trl_runtime>,
                                          another<trl_model>,
                                          another_generator,
                                          another<trl_tokenizer>,
                                          tokenizer_of,
                                          model_of,
                                          wait_for,
                                          constrain,
                                          release_constraint,
                                          use_of,
                                          exchange_tensor,
                                          version_of};

}  // namespace

trl::serve::test::FakeLibrary& trl::serve::test::fake() {
  static FakeLibrary library;
  return library;
}

extern "C" {

const trl::capi::ServeTable* trl_private_serve(uint32_t version) noexcept {
  const Plenty plenty;
  return version == kTable.version ? &kTable : nullptr;
}
const char* trl_version_string(void) noexcept { return "0.1.0"; }

trl_status trl_error_code(const trl_error* error) noexcept { return error == nullptr ? TRL_OK : error->code; }
const char* trl_error_message(const trl_error* error) noexcept {
  const Plenty plenty;
  return error == nullptr ? "" : error->message.c_str();
}
const char* trl_error_key(const trl_error* error) noexcept {
  const Plenty plenty;
  return error == nullptr || error->key.empty() ? nullptr : error->key.c_str();
}
void trl_error_destroy(trl_error* error) noexcept { delete error; }

const trl_option* trl_option_next(const trl_option* option) noexcept {
  const Plenty plenty;
  const trl_option* const first = all_options();
  if (option == nullptr) return first;
  return option + 1 == first + std::size(kKeys) ? nullptr : option + 1;
}
const char* trl_option_name(const trl_option* option) noexcept { return option->key.name; }
const char* trl_option_section(const trl_option* option) noexcept {
  const Plenty plenty;
  return std::string_view(option->key.name).starts_with("serve.") ? "serve" : "generate";
}

trl_status trl_config_create(trl_config** out, trl_error** error) noexcept {
  const Plenty plenty;
  if (error != nullptr) *error = nullptr;
  *out = new trl_config();
  return TRL_OK;
}
trl_status trl_config_set(trl_config* config, const char* key, const char* value,
                          trl_error** error) noexcept {
  const Plenty plenty;
  if (std::string_view(key) == "generate.top_p" && std::string_view(value) == "0.123")
    return fails(error, TRL_E_INVALID_CONFIG, "generate.top_p: 0.123 is not accepted", key);
  config->values[key] = value;
  return TRL_OK;
}
trl_status trl_config_get(const trl_config* config, const char* key, const char** value,
                          trl_error**) noexcept {
  const Plenty plenty;
  const auto found = config->values.find(key);
  if (found != config->values.end()) {
    *value = found->second.c_str();
    return TRL_OK;
  }
  for (const Key& known : kKeys)
    if (std::string_view(known.name) == key) *value = known.value;
  return TRL_OK;
}
trl_status trl_config_get_origin(const trl_config* config, const char* key, const char** origin,
                                 trl_error**) noexcept {
  const Plenty plenty;
  *origin = config->values.contains(key) ? "set" : "default";
  return TRL_OK;
}
void trl_config_destroy(trl_config* config) noexcept { delete config; }
void trl_runtime_destroy(trl_runtime* runtime) noexcept { delete runtime; }
void trl_model_destroy(trl_model* model) noexcept { delete model; }
trl_status trl_model_from_trainer(trl_trainer*, trl_model** out, trl_error** error) noexcept {
  *out = nullptr;
  return fails(error, TRL_E_INVALID_ARGUMENT, "trainer is NULL");  // this library has no trainers
}
trl_status trl_model_add_adapter(trl_model*, const char* name, const char* path, trl_error** error) noexcept {
  const Plenty plenty;
  if (error != nullptr) *error = nullptr;
  if (std::string_view(path).ends_with("/Wrong"))
    return fails(error, TRL_E_FORMAT, "adapter_model.safetensors: a tensor is not of this model");
  const std::lock_guard lock(fake().mutex);
  if (!fake().adapters.try_emplace(name, trl::serve::test::FakeLibrary::Adapter{path, 0}).second)
    return fails(error, TRL_E_INVALID_ARGUMENT, "the model has an adapter of that name");
  return TRL_OK;
}
trl_status trl_model_remove_adapter(trl_model*, const char* name, trl_error** error) noexcept {
  const Plenty plenty;
  if (error != nullptr) *error = nullptr;
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().adapters.find(name);
  if (found == fake().adapters.end()) return fails(error, TRL_E_NOT_FOUND, "no such adapter");
  if (found->second.users > 0) return fails(error, TRL_E_BUSY, "the adapter is in use");
  fake().adapters.erase(found);
  return TRL_OK;
}
trl_status trl_model_get_tensors(trl_model*, const char** json, trl_error** error) noexcept {
  thread_local std::string text;
  const std::lock_guard lock(fake().mutex);
  if (fake().in_use) return fails(error, TRL_E_BUSY, "the model is in use");
  Json all = Json::array();
  for (const auto& [name, tensor] : fake().tensors)
    all.push_back(
        {{"name", name}, {"shape", tensor.shape}, {"dtype", tensor.dtype}, {"stored", tensor.stored}});
  text = all.dump();
  *json = text.c_str();
  return TRL_OK;
}
trl_status trl_model_read_tensor(trl_model*, const char* name, int32_t, DLManagedTensorVersioned** out,
                                 trl_error** error) noexcept {
  const std::lock_guard lock(fake().mutex);
  if (fake().in_use) return fails(error, TRL_E_BUSY, "the model is in use");
  auto* const read = new Read{fake().tensors.at(name)};
  const uint8_t bits = read->copy.dtype == "float32" ? 32 : 16;
  const uint8_t code = read->copy.dtype == "bfloat16" ? 4 : 2;
  read->managed = {
      .version = {1, 0},
      .manager_ctx = read,
      .deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Read*>(self->manager_ctx); },
      .flags = 0,
      .dl_tensor = {.data = read->copy.bytes.data(),
                    .device = {1, 0},
                    .ndim = static_cast<int32_t>(read->copy.shape.size()),
                    .dtype = {code, bits, 1},
                    .shape = read->copy.shape.data(),
                    .strides = nullptr,
                    .byte_offset = 0}};
  *out = &read->managed;
  return TRL_OK;
}
trl_status trl_model_write_tensor(trl_model*, const char* name, DLManagedTensorVersioned* given,
                                  trl_error** error) noexcept {
  const std::lock_guard lock(fake().mutex);
  if (fake().in_use) return fails(error, TRL_E_BUSY, "the model is in use");
  std::string& bytes = fake().tensors.at(name).bytes;
  const trl_status status = next_write(name, error);
  if (status == TRL_OK) bytes.assign(static_cast<const char*>(given->dl_tensor.data), bytes.size());
  if (given->deleter != nullptr) given->deleter(given);
  return status;
}
trl_status trl_model_describe(const trl_model*, const char** json, trl_error**) noexcept {
  const Plenty plenty;
  thread_local std::string text;
  const Json config = {
      {"max_position_embeddings", fake().positions.load()}, {"vocab_size", kModelIds}, {"dtype", "float32"}};
  text = Json({{"parameters", 1}, {"config", config}}).dump();
  *json = text.c_str();
  return TRL_OK;
}

trl_status trl_tokenizer_describe(const trl_tokenizer*, const char** json, trl_error**) noexcept {
  const Plenty plenty;
  thread_local std::string text;
  text = Json({{"vocab_size", 256}, {"eos_token_id", 0}, {"chat_template", fake().chat_template}}).dump();
  *json = text.c_str();
  return TRL_OK;
}
trl_status trl_tokenizer_encode(const trl_tokenizer*, const char* text, size_t size, int32_t, int32_t,
                                int32_t* ids, size_t capacity, size_t* count, trl_error**) noexcept {
  const Plenty plenty;
  std::vector<int32_t> all;
  for (size_t i = 0; i < size; ++i) all.push_back(static_cast<unsigned char>(text[i]));
  return copy(all, ids, capacity, count);
}
trl_status trl_tokenizer_decode(const trl_tokenizer*, const int32_t* ids, size_t count,
                                int32_t skip_special_tokens, char* text, size_t capacity, size_t* size,
                                trl_error** error) noexcept {
  const Plenty plenty;
  std::vector<char> all;
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= kVocabulary)
      return fails(error, TRL_E_INVALID_ARGUMENT, "ids: outside the vocabulary of 256");
    if (ids[i] != kEnd) all.push_back(static_cast<char>(ids[i]));
    if (ids[i] == kEnd && skip_special_tokens == 0)
      all.insert(all.end(), std::begin(kEndText), std::end(kEndText) - 1);
  }
  return copy(all, text, capacity, size);
}
trl_status trl_tokenizer_get_piece(const trl_tokenizer*, int32_t id, char* piece, size_t capacity,
                                   size_t* size, trl_error**) noexcept {
  const Plenty plenty;
  return copy(std::vector<char>{static_cast<char>(id)}, piece, capacity, size);
}
trl_status trl_tokenizer_apply_chat_template(const trl_tokenizer*, const char* json, size_t size, char* text,
                                             size_t capacity, size_t* count, trl_error** error) noexcept {
  const Plenty plenty;
  const Json given = Json::parse(json, json + size, nullptr, false);
  {
    const std::lock_guard lock(fake().mutex);
    fake().conversation.assign(json, size);
  }
  if (given.value("chat_template", "") == "{{")
    return fails(error, TRL_E_FORMAT, "chat template, line 1: a tag is not closed");
  if (given.value("chat_template_kwargs", Json::object()).contains("messages"))
    return fails(error, TRL_E_FORMAT, "chat template variables: 'messages' cannot be one");
  std::string all = given.contains("chat_template") ? "own:" + given["chat_template"].get<std::string>() : "";
  if (given.contains("tools")) all += given["tools"].dump() + "\n";
  if (given.value("chat_template_kwargs", Json::object()).contains("shown"))
    all += given["chat_template_kwargs"]["shown"].dump() + "\n";
  for (const Json& message : given["messages"]) {
    if (!message.is_object() || !message.contains("role"))
      return fails(error, TRL_E_FORMAT, "json: a message has no role");
    const Json content = message.value("content", Json());
    all += message.value("role", "") + ":" + (content.is_string() ? content.get<std::string>() : "<none>") +
           "\n";
    if (message.contains("tool_calls")) all += message["tool_calls"].dump() + "\n";
  }
  if (given.value("continue_final_message", false)) all.pop_back();
  if (given.value("add_generation_prompt", false)) all += "<|im_start|>assistant\n";
  return copy(std::vector<char>(all.begin(), all.end()), text, capacity, count);
}
void trl_tokenizer_destroy(trl_tokenizer* tokenizer) noexcept { delete tokenizer; }

trl_status trl_generator_create(trl_model*, trl_tokenizer*, trl_generator** out, trl_error**) noexcept {
  const Plenty plenty;
  *out = new trl_generator();
  return TRL_OK;
}

trl_status trl_generator_add(trl_generator* generator, const char*, size_t, const int32_t* ids, size_t count,
                             const trl_config* options, size_t* out_first, trl_error** error) noexcept {
  const Plenty plenty;
  if (error != nullptr) *error = nullptr;
  for (size_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= kModelIds)
      return fails(error, TRL_E_INVALID_ARGUMENT,
                   "id " + std::to_string(ids[i]) + " is outside the vocabulary");
  const auto value = [&](const char* key) {
    const char* text = nullptr;
    trl_config_get(options, key, &text, nullptr);
    return std::string(text);
  };
  {
    const std::lock_guard lock(fake().mutex);
    fake().options = options->values;
    const std::string form = form_of(options);
    if (!form.empty() && fake().forms[form] == 0) ++fake().compiled_late;
    if (form.find("(?=") != form.npos) return fails_form(form, error);
  }
  const std::string adapter = value("generate.adapter") == "null" ? "" : value("generate.adapter");
  *out_first = generator->next;
  const int n = std::stoi(value("generate.num_return_sequences"));
  for (int i = 0; i < n; ++i) {
    State& state = generator->states[generator->next++];
    state.most = std::stoll(value("generate.max_new_tokens"));
    state.logprobs = value("generate.logprobs") != "null";
    state.usage = value("generate.usage") == "true";
    state.takes_new = value("generate.take") == "new";
    state.prompt.assign(ids, ids + count);
    if (value("generate.prompt_logprobs") != "null")
      state.prompt_best = std::stoi(value("generate.prompt_logprobs"));
    state.prompt_temperature = std::stod(value("generate.prompt_logprobs_temperature"));
    state.place = std::stoll(value("generate.stream")) + i;
    const Json stops = Json::parse(value("generate.stop"));
    if (!stops.empty()) state.stop = stops[0].get<std::string>();
    state.adapter = adapter;
    fake().most_open = std::max<int>(fake().most_open, ++fake().open_completions);
    const std::lock_guard lock(fake().mutex);
    if (!adapter.empty()) ++fake().adapters.at(adapter).users;
  }
  ++fake().added;
  return TRL_OK;
}

trl_status trl_generator_step(trl_generator* generator, trl_token_fn on_token, void* user_data,
                              trl_error** error) noexcept {
  const Plenty plenty;
  if (error != nullptr) *error = nullptr;
  const int step = fake().steps++;
  if (step == fake().fails_at_step) return fails(error, TRL_E_INTERNAL, "the step failed");
  if (fake().step_milliseconds > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(fake().step_milliseconds));
  bool any = false;
  for (auto& [number, state] : generator->states) {
    if (state.finish != nullptr) continue;
    any = true;
    const std::string& answer = fake().answer;
    const size_t place = state.ids.size();
    char letter = static_cast<char>('a' + (state.place + static_cast<int64_t>(place)) % 26);
    if (!state.adapter.empty()) {
      const std::lock_guard lock(fake().mutex);
      const std::string& path = fake().adapters.at(state.adapter).path;
      letter = path[path.rfind('/') + 1];
    }
    if (!answer.empty()) letter = place < answer.size() ? answer[place] : static_cast<char>(kEnd);
    const bool ends = letter == kEnd;
    state.ids.push_back(static_cast<unsigned char>(letter));
    if (!ends) state.text += letter;
    const size_t stop = state.stop.empty() ? state.text.npos : state.text.find(state.stop);
    if (stop != state.text.npos) {
      state.text.resize(stop);
      state.finish = "stop_string";
    } else if (static_cast<int64_t>(state.ids.size()) >= state.most) {
      state.finish = "length";
    }
    if (ends) state.finish = "stop";
    const size_t size = ends || stop != state.text.npos ? 0 : 1;
    const Scarce scarce;
    if (on_token(user_data, number, state.ids.back(), &letter, size, -0.5) != 0 && state.finish == nullptr)
      state.finish = "cancelled";
  }
  return any ? TRL_OK : TRL_END;
}

trl_status trl_generator_cancel(trl_generator* generator, size_t first, size_t count, trl_error**) noexcept {
  const Plenty plenty;
  for (size_t i = first; i < first + count; ++i) {
    const auto found = generator->states.find(i);
    if (found == generator->states.end() || found->second.finish != nullptr) continue;
    found->second.finish = "cancelled";
    ++fake().cancelled;
  }
  return TRL_OK;
}

trl_status trl_generator_take(trl_generator* generator, size_t first, size_t, trl_completions** out,
                              trl_error** error) noexcept {
  const Plenty plenty;
  const auto found = generator->states.find(first);
  if (found == generator->states.end()) return fails(error, TRL_E_NOT_FOUND, "no such completion");
  State& state = found->second;
  const std::vector<int32_t> all = state.ids;
  const std::string text = state.text;
  if (state.takes_new) {
    state.ids.erase(state.ids.begin(), state.ids.begin() + static_cast<std::ptrdiff_t>(state.taken));
    state.text.erase(0, state.taken);
    state.taken = all.size();
  }
  Json json = {{"text", state.text},
               {"token_ids", state.ids},
               {"finish_reason", state.finish == nullptr ? Json() : Json(state.finish)}};
  if (state.usage) json["cached_tokens"] = state.prompt.size() / 2;
  if (state.finish != nullptr && state.finish == std::string("stop_string")) json["stop_reason"] = state.stop;
  if (state.prompt_best >= 0) json["prompt_logprobs"] = prompt_json(state);
  for (const int32_t id : state.logprobs ? state.ids : std::vector<int32_t>()) {
    json["logprobs"].push_back(-1.5);
    json["sampling_logprobs"].push_back(-0.5);
    json["top_logprobs"].push_back(Json::array({Json::array({id + 1, -0.25}), Json::array({id + 2, -3.0})}));
    json["sampling_top_logprobs"].push_back(
        Json::array({Json::array({id + 1, -0.25}), Json::array({id, -0.5})}));
  }
  *out = new trl_completions{state, json.dump()};
  state.ids = all;
  state.text = text;
  if (state.finish != nullptr) {
    if (const std::lock_guard lock(fake().mutex); !state.adapter.empty())
      --fake().adapters.at(state.adapter).users;
    generator->states.erase(found);
    --fake().open_completions;
  }
  return TRL_OK;
}

trl_status trl_generator_release_memory(trl_generator*, trl_error**) noexcept {
  const Plenty plenty;
  ++fake().released;
  return TRL_OK;
}
void trl_generator_destroy(trl_generator* generator) noexcept { delete generator; }

const char* trl_completions_json(const trl_completions* completions, size_t, size_t*) noexcept {
  const Plenty plenty;
  return completions->json.c_str();
}
const char* trl_completions_finish_reason(const trl_completions* completions, size_t) noexcept {
  const Plenty plenty;
  return completions->state.finish;
}
const int32_t* trl_completions_tokens(const trl_completions* completions, size_t, size_t* count) noexcept {
  const Plenty plenty;
  *count = completions->state.ids.size();
  return completions->state.ids.data();
}
void trl_completions_destroy(trl_completions* completions) noexcept { delete completions; }

}  // extern "C"
