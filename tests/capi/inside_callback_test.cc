// What may be called inside callbacks works there: configurations, tokenizers, the memory of now.
#include <functional>

#include "host.h"

namespace {

using host::Error;

// Runs body inside a callback, in a call of the runtime, and returns the status of that call.
trl_status inside_callback(trl_runtime* runtime, std::function<void()> body) {
  struct OneRow {
    std::function<void()> body;
    int rows = 0;
  } row{std::move(body)};
  const auto next = [](void* data, trl_record* record) -> int32_t {
    auto* const self = static_cast<OneRow*>(data);
    if (self->rows++ > 0) return TRL_END;
    self->body();
    return trl_record_set_text(record, "text", "a", 1, nullptr);
  };
  trl_dataset* made = nullptr;
  EXPECT_EQ(trl_dataset_from_callback(
                runtime, next, [](void*) -> int32_t { return 0; }, &row, nullptr, nullptr, &made, nullptr),
            TRL_OK);
  const host::Dataset dataset(made);
  int64_t count = 0;
  return trl_dataset_get_row_count(dataset.get(), &count, nullptr);
}

void use_a_configuration() {
  trl_config* config = nullptr;
  const char* text = nullptr;
  Error error;
  ASSERT_EQ(trl_config_create(&config, error), TRL_OK) << error.message();
  const host::Config owned(config);
  EXPECT_EQ(trl_config_set(config, "seed", "7", error), TRL_OK) << error.message();
  EXPECT_EQ(trl_config_get(config, "seed", &text, error), TRL_OK) << error.message();
  EXPECT_STREQ(text, "7");
  EXPECT_EQ(trl_config_get_origin(config, "seed", &text, error), TRL_OK) << error.message();
  EXPECT_STREQ(text, "set");
  EXPECT_EQ(trl_config_unset(config, "seed", error), TRL_OK) << error.message();
  EXPECT_EQ(trl_config_load_text(config, "beta: 0.5", 9, error), TRL_OK) << error.message();
  const host::Scratch scratch;
  host::write_file(scratch / "options.yaml", "max_length: 8\n");
  EXPECT_EQ(trl_config_load(config, (scratch / "options.yaml").c_str(), error), TRL_OK) << error.message();
  EXPECT_EQ(trl_config_describe(config, &text, error), TRL_OK) << error.message();
  EXPECT_EQ(host::parse(text), (host::Json{{"beta", 0.5}, {"max_length", 8}}));
  EXPECT_EQ(trl_config_get_warnings(config, &text, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_config_set(config, "no_such_key", "1", error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "no_such_key");
}

void use_a_tokenizer(const trl_tokenizer* tokenizer) {
  int32_t ids[8];
  char text[64];
  size_t count = 0, size = 0;
  const char* json = nullptr;
  Error error;
  ASSERT_EQ(trl_tokenizer_encode(tokenizer, "the", 3, 0, -1, ids, 8, &count, error), TRL_OK)
      << error.message();
  ASSERT_LE(count, 8u);
  EXPECT_EQ(trl_tokenizer_decode(tokenizer, ids, count, 0, text, sizeof text, &size, error), TRL_OK)
      << error.message();
  EXPECT_EQ(std::string(text, size), "the");
  EXPECT_EQ(trl_tokenizer_get_piece(tokenizer, ids[0], text, sizeof text, &size, error), TRL_OK)
      << error.message();
  const std::string messages = R"([{"role": "user", "content": "x"}])";
  EXPECT_EQ(trl_tokenizer_apply_chat_template(tokenizer, messages.data(), messages.size(), nullptr, 0, &size,
                                              error),
            TRL_OK)
      << error.message();
  EXPECT_GT(size, 0u);
  EXPECT_EQ(trl_tokenizer_describe(tokenizer, &json, error), TRL_OK) << error.message();
}

TEST(InsideCallback, ConfigurationsAreMadeAndRead) {
  const host::Runtime runtime = host::runtime();
  EXPECT_EQ(inside_callback(runtime.get(), use_a_configuration), TRL_OK);
}

TEST(InsideCallback, TokenizersWork) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  trl_tokenizer* made = nullptr;
  Error error;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, error), TRL_OK)
      << error.message();
  const host::Tokenizer tokenizer(made);
  const host::Runtime runtime = host::runtime();
  EXPECT_EQ(inside_callback(runtime.get(), [&] { use_a_tokenizer(tokenizer.get()); }), TRL_OK);
}

TEST(InsideCallback, TheMemoryOfNowIsTold) {
  const host::Runtime runtime = host::runtime();
  EXPECT_EQ(inside_callback(runtime.get(),
                            [&] {
                              int64_t now = -1, peak = -1;
                              Error error;
                              EXPECT_EQ(trl_runtime_memory(runtime.get(), "data", &now, &peak, error), TRL_OK)
                                  << error.message();
                              EXPECT_GE(now, 0);
                              EXPECT_GE(peak, now);
                            }),
            TRL_OK);
}

// The call around them has to end, and they do not.
TEST(InsideCallback, CallsAreNotEndedWithTheCallAroundThem) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  trl_tokenizer* made = nullptr;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, nullptr),
            TRL_OK);
  const host::Tokenizer tokenizer(made);
  const host::Runtime runtime = host::runtime();
  EXPECT_EQ(inside_callback(runtime.get(),
                            [&] {
                              trl_runtime_cancel(runtime.get());
                              use_a_configuration();
                              use_a_tokenizer(tokenizer.get());
                            }),
            TRL_E_CANCELLED);
}

}  // namespace
