// Many requests of all kinds to one generator, with adapters, stop strings, cancels, callbacks that end them
// and continuations: none is lost, each ends as it says, and memory does not grow.
#include <array>
#include <cstdlib>
#include <map>
#include <random>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using host::Settings;

// Writes a trained adapter into `out`.
void train_adapter(const std::string& out, const char* rank) {
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Trainer trainer = host::trainer(host::with(host::tiny(out), {{"use_peft", "true"},
                                                                           {"lora_r", rank},
                                                                           {"lora_dropout", "0"},
                                                                           {"max_steps", "2"},
                                                                           {"save_strategy", "no"},
                                                                           {"learning_rate", "0.05"}}),
                                              rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
}

int64_t counted_bytes(trl_runtime* runtime) {
  int64_t now = 0;
  EXPECT_EQ(trl_runtime_memory(runtime, nullptr, &now, nullptr, nullptr), TRL_OK);
  return now;
}

struct Asked {
  std::vector<int32_t> ids;  // empty: text
  std::string text;
  Settings options;
  size_t count = 1;  // completions
};

size_t add_request(trl_generator* generator, const Asked& asked) {
  const bool text = asked.ids.empty();
  size_t first = 0;
  Error error;
  EXPECT_EQ(trl_generator_add(generator, text ? asked.text.data() : nullptr, asked.text.size(),
                              text ? nullptr : asked.ids.data(), asked.ids.size(),
                              host::config(asked.options).get(), &first, error),
            TRL_OK)
      << error.message();
  return first;
}

// What trl_completions_json has.
Json take_one(trl_generator* generator, size_t number) {
  trl_completions* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_take(generator, number, 1, &made, error), TRL_OK) << error.message();
  const host::Completions owned(made);
  return made != nullptr ? host::parse(trl_completions_json(made, 0, nullptr)) : Json();
}

class RequestCrowd {
 public:
  static constexpr int kSpot = 37;  // one in so many requests is compared with itself alone

  RequestCrowd(trl_generator* generator, trl_runtime* runtime, int requests)
      : generator_(generator), runtime_(runtime), requests_(requests) {
    for (std::string& text : beginnings_) text = words(any(60));
  }

  void run() {
    int64_t most = 0, before = 0;  // bytes of each half
    while ((added_ < requests_ || !lives_.empty()) && !testing::Test::HasFailure()) {
      for (int i = any(4); i > 0 && added_ < requests_ && lives_.size() < 100; --i) add();
      if (any(8) == 0) cancel();
      idle_ = step() == TRL_END;
      for (int i = 0; i < 12 && !lives_.empty(); ++i) look_at(any_life());
      most = std::max(most, counted_bytes(runtime_));
      if (before == 0 && added_ >= requests_ / 2) before = std::exchange(most, 0);
    }
    EXPECT_EQ(step(), TRL_END);
    EXPECT_EQ(begun_, ended_);
    EXPECT_LE(most, before + before / 4);
    for (const char* how : {"length", "stop_string", "cancelled"})
      EXPECT_GT(ends_[how], requests_ / 20) << how;
    EXPECT_GT(continued_, requests_ / 50);
  }
  void compare_spots() {
    for (const auto& [asked, got] : spots_) {
      const size_t first = add_request(generator_, asked);
      while (step() == TRL_OK) {
      }
      for (size_t i = 0; i < asked.count; ++i) EXPECT_EQ(take_one(generator_, first + i), got[i]) << i;
    }
    EXPECT_GE(static_cast<int>(spots_.size()), requests_ / kSpot);
  }

 private:
  struct Life {
    size_t most = 0;  // tokens
    std::vector<std::string> stops;
    size_t refused_at = 0;  // the token whose callback ends it; 0: none
    bool keeps = false, cancelled = false;
    int spot = -1;         // its place there
    size_t place = 0;      // among the completions of its request
    int64_t since = 0;     // its step
    size_t tokens = 0;     // that the callback has seen
    std::string streamed;  // with them
  };

  int any(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }
  std::string words(int count) {
    static constexpr const char* kWords[] = {"the ",  "small ", "kernel ", "sea ", "\xC3\xA9t\xC3\xA9 ",
                                             "row 3 "};
    std::string text;
    for (int i = 0; i < count; ++i) text += kWords[any(6)];
    return text;
  }
  size_t any_life() {
    auto one = lives_.begin();
    std::advance(one, any(static_cast<int>(lives_.size())));
    return one->first;
  }

  void add() {
    static constexpr const char* kStops[] = {"e", "a", "th", "o", " ", "ing", "\xC3\xA9", "zzz"};
    const bool spot = added_++ % kSpot == 0;
    Life life;
    life.since = steps_;
    life.most = static_cast<size_t>(1 + any(any(8) == 0 ? 90 : 16));
    for (int i = any(3); i > 0; --i) life.stops.emplace_back(kStops[any(8)]);
    life.keeps = !spot && any(4) == 0;
    if (!spot && any(6) == 0) life.refused_at = static_cast<size_t>(1 + any(6));
    Asked asked;
    asked.count = any(4) == 0 ? static_cast<size_t>(2 + any(4)) : 1;
    if (any(2) == 0) {
      asked.text = beginnings_[any(5)] + words(1 + any(any(8) == 0 ? 60 : 10));
    } else {
      for (int i = 1 + any(200); i > 0; --i) asked.ids.push_back(any(400));
    }
    asked.options = {{"generate.max_new_tokens", std::to_string(life.most)},
                     {"generate.temperature", asked.count == 1 && any(2) == 0 ? "0" : "0.9"},
                     {"generate.seed", std::to_string(any(1000))},
                     {"generate.stop", Json(life.stops).dump()},
                     {"generate.adapter", std::array{"none", "a", "b"}[static_cast<size_t>(any(3))]},
                     {"generate.keep", life.keeps ? "true" : "false"},
                     {"generate.logprobs", any(2) == 0 ? "1" : "0"},
                     {"generate.num_return_sequences", std::to_string(asked.count)}};
    const size_t first = add_request(generator_, asked);
    if (spot) {
      life.spot = static_cast<int>(spots_.size());
      spots_.emplace_back(asked, std::vector<Json>(asked.count));
    }
    for (life.place = 0; life.place < asked.count; ++life.place, ++begun_)
      EXPECT_TRUE(lives_.emplace(first + life.place, life).second);
  }
  void cancel() {
    if (lives_.empty()) return;
    const size_t number = any_life();
    Life& life = lives_.at(number);
    if (life.spot >= 0) return;
    EXPECT_EQ(trl_generator_cancel(generator_, number, 1, nullptr), TRL_OK);
    life.cancelled = true;  // or it had ended
    life.keeps = false;
    look_at(number);
  }
  trl_status step() {
    ++steps_;
    Error error;
    const trl_status status = trl_generator_step(generator_, on_token, this, error);
    EXPECT_GE(status, TRL_OK) << error.message();
    return status;
  }
  static int32_t on_token(void* data, size_t number, int32_t, const char* text, size_t size, double) {
    auto& lives = static_cast<RequestCrowd*>(data)->lives_;
    const auto found = lives.find(number);
    if (found == lives.end()) return 0;  // of a comparison
    Life& life = found->second;
    EXPECT_FALSE(life.cancelled) << number;
    life.streamed.append(text, size);
    return ++life.tokens == life.refused_at ? 1 : 0;
  }

  void look_at(size_t number) {
    const Json json = take_one(generator_, number);
    Life& life = lives_.at(number);
    if (json["finish_reason"].is_null()) {
      EXPECT_FALSE(life.cancelled || (idle_ && life.since < steps_)) << "completion " << number << " is lost";
      return;
    }
    check(json, life);
    ++ended_;
    ++ends_[json["finish_reason"]];
    if (life.spot >= 0) spots_[static_cast<size_t>(life.spot)].second[life.place] = json;
    if (life.keeps && any(2) == 0) return go_on(number, life);
    if (life.keeps) {
      EXPECT_EQ(trl_generator_cancel(generator_, number, 1, nullptr), TRL_OK);
    }
    lives_.erase(number);
    Error error;
    trl_completions* none = nullptr;
    EXPECT_EQ(trl_generator_take(generator_, number, 1, &none, error), TRL_E_NOT_FOUND);
  }
  static void check(const Json& json, const Life& life) {
    const std::string how = json["finish_reason"], text = json["text"];
    const size_t tokens = json["token_ids"].size();
    EXPECT_LE(tokens, life.most);
    EXPECT_FALSE(json.contains("error")) << json;
    for (const std::string& stop : life.stops) EXPECT_EQ(text.find(stop), std::string::npos) << json;
    const bool cancelled = how == "cancelled";
    EXPECT_TRUE(!cancelled || life.cancelled || life.tokens == life.refused_at) << json;
    EXPECT_TRUE(cancelled || text == life.streamed) << json << " and not " << life.streamed;
    EXPECT_TRUE(how != "length" || tokens == life.most) << json;
    EXPECT_TRUE(how != "stop_string" || !life.stops.empty()) << json;
    EXPECT_TRUE(how != "stop" || tokens > 0) << json;
  }
  void go_on(size_t number, Life& life) {
    std::vector<int32_t> ids;
    for (int i = 1 + any(20); i > 0; --i) ids.push_back(any(400));
    life.most = static_cast<size_t>(1 + any(20));
    Error error;
    EXPECT_EQ(trl_generator_extend(
                  generator_, number, nullptr, 0, ids.data(), ids.size(),
                  host::config({{"generate.max_new_tokens", std::to_string(life.most)}}).get(), error),
              TRL_OK)
        << error.message();
    life.tokens = life.refused_at = 0;
    life.since = steps_;
    life.streamed.clear();
    ++begun_, ++continued_;
  }

  trl_generator* const generator_;
  trl_runtime* const runtime_;
  const int requests_;
  std::mt19937 random_{5};
  std::array<std::string, 5> beginnings_;
  std::map<size_t, Life> lives_;  // those that are not over
  std::vector<std::pair<Asked, std::vector<Json>>> spots_;
  std::map<std::string, int> ends_;
  int64_t steps_ = 0;
  bool idle_ = false;  // nothing was left to do in the last step
  int added_ = 0, begun_ = 0, ended_ = 0, continued_ = 0;
};

TEST(RequestsStress, NoneIsLostAndMemoryDoesNotGrow) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const char* const wanted = std::getenv("TRL_TEST_REQUESTS");
  const host::Scratch scratch;
  train_adapter(scratch / "a", "4");
  train_adapter(scratch / "b", "3");
  const host::Runtime runtime = host::runtime();
  // Continued conversations have more tokens than the model's own 256 positions.
  const std::filesystem::path path = scratch / "model";
  host::copy_model("models/qwen2", path);
  host::edit_config(path, [](Json& config) { config["max_position_embeddings"] = 8192; });
  const host::Model model = host::open_model(path, {{"kv_cache_memory", std::to_string(24 * 32768)}});
  Error error;
  for (const char* name : {"a", "b"})
    ASSERT_EQ(trl_model_add_adapter(model.get(), name, (scratch / name).c_str(), error), TRL_OK)
        << error.message();
  trl_generator* made = nullptr;
  ASSERT_EQ(trl_generator_create(model.get(), nullptr, &made, error), TRL_OK) << error.message();
  const host::Generator generator(made);
  RequestCrowd crowd(made, runtime.get(), wanted != nullptr ? std::atoi(wanted) : 300);
  crowd.run();
  crowd.compare_spots();
  // Without blocks of a sequence nothing keeps memory; an adapter in use could not be removed.
  EXPECT_EQ(trl_generator_release_memory(made, error), TRL_OK) << error.message();
  for (const char* name : {"a", "b"})
    EXPECT_EQ(trl_model_remove_adapter(model.get(), name, error), TRL_OK) << error.message();
}

}  // namespace
