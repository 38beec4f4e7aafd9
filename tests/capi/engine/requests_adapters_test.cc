// Requests with different adapters in one generator, and adapters that change beside them.
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/requests.h"

namespace {

using host::add;
using host::Error;
using host::finish;
using host::generator_of;
using host::taken;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Adapters of the tiny model, each a directory: two that were trained, of which the second changes more than
// projections, and one whose factors are so large that their product is not a number.
class SavedAdapters {
 public:
  SavedAdapters() {
    train("terms", {});
    train("dora", {{"use_dora", "true"}, {"seed", "7"}});
    for (const auto& entry : std::filesystem::directory_iterator(path("terms")))
      if (entry.is_regular_file())
        host::write_file(scratch_ / "huge" / entry.path().filename(), host::read_file(entry.path()));
    const std::filesystem::path weights = scratch_ / "huge/adapter_model.safetensors";
    std::string bytes = host::read_file(weights);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    host::write_file(weights,
                     bytes.replace(8 + length, std::string::npos, bytes.size() - 8 - length, '\x7f'));
  }
  std::string path(const std::string& name) const { return scratch_ / name; }

  host::Model open(const std::vector<std::string>& names) const {
    host::Model model = host::open_model(host::golden("models/qwen2"));
    for (const std::string& name : names) {
      Error error;
      EXPECT_EQ(trl_model_add_adapter(model.get(), name.c_str(), path(name).c_str(), error), TRL_OK)
          << error.message();
    }
    return model;
  }

 private:
  void train(const std::string& name, const host::Settings& more) const {
    const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
    const host::Settings own = {
        {"use_peft", "true"}, {"lora_r", "4"}, {"lora_dropout", "0"}, {"learning_rate", "0.05"}};
    const host::Trainer trainer =
        host::trainer(host::with(host::tiny(path(name)), host::with(own, more)), rows.get());
    Error error;
    EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  const host::Scratch scratch_;
};

host::Settings with_adapter(const std::string& name) {
  return {{"generate.max_new_tokens", "12"},
          {"generate.ignore_eos", "true"},
          {"generate.adapter", name},
          {"generate.logprobs", "0"}};
}

// The completion of the only request of a model that has no other adapter.
nlohmann::json alone_with(const SavedAdapters& saved, const std::string& name) {
  const host::Model model =
      saved.open(name == "none" ? std::vector<std::string>() : std::vector<std::string>{name});
  const auto g = generator_of(model.get());
  const size_t number = add(g.get(), "The quick", with_adapter(name));
  finish(g.get());
  return taken(g.get(), number);
}

TEST(RequestAdapters, EachGivesWhatItGivesAlone) {
  NEED_MODEL();
  const SavedAdapters saved;
  const std::vector<std::string> names = {"none", "terms", "dora", "terms", "none", "dora"};
  const host::Model model = saved.open({"terms", "dora"});
  const auto g = generator_of(model.get());
  std::vector<size_t> numbers;
  for (size_t i = 0; i < names.size(); ++i) {  // the first three begin together, the others join them
    numbers.push_back(add(g.get(), "The quick", with_adapter(names[i])));
    if (i < 2) continue;
    EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  }
  finish(g.get());
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(taken(g.get(), numbers[i]), alone_with(saved, names[i])) << i << ": " << names[i];
  EXPECT_NE(alone_with(saved, "terms")["token_ids"], alone_with(saved, "none")["token_ids"]);
  EXPECT_NE(alone_with(saved, "dora")["logprobs"], alone_with(saved, "none")["logprobs"]);
}

TEST(RequestAdapters, OneThatGivesNoNumbersEndsItsRequestAlone) {
  NEED_MODEL();
  const SavedAdapters saved;
  const host::Model model = saved.open({"terms", "huge"});
  const auto g = generator_of(model.get());
  const size_t plain = add(g.get(), "The quick", with_adapter("none")),
               bad = add(g.get(), "The quick", with_adapter("huge")),
               good = add(g.get(), "The quick", with_adapter("terms"));
  finish(g.get());
  const nlohmann::json aborted = taken(g.get(), bad);
  EXPECT_EQ(aborted["finish_reason"], "abort");
  EXPECT_EQ(aborted["error"], "token 0: the model's output is not a number");
  EXPECT_EQ(taken(g.get(), plain), alone_with(saved, "none"));
  EXPECT_EQ(taken(g.get(), good), alone_with(saved, "terms"));
}

TEST(RequestAdapters, NoneIsMergedWhileOthersRun) {
  NEED_MODEL();
  const SavedAdapters saved;
  const host::Model model = saved.open({"terms", "dora"});
  const auto g = generator_of(model.get());
  Error error;
  const auto merge = [&](const char* name) { return trl_model_merge_adapter(model.get(), name, error); };
  for (const char* const other : {"none", "dora"}) {
    const size_t number = add(g.get(), "The quick", with_adapter(other));
    EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
    EXPECT_EQ(merge("terms"), TRL_E_BUSY) << other;
    EXPECT_TRUE(error.names("a generator has 1 completions")) << error.message();
    finish(g.get());
    EXPECT_EQ(taken(g.get(), number), alone_with(saved, other));
  }
  // Its own completions go on.
  const size_t own = add(g.get(), "The quick", with_adapter("terms"));
  EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(merge("terms"), TRL_OK) << error.message();
  finish(g.get());
  EXPECT_EQ(taken(g.get(), own)["token_ids"].size(), 12u);
  EXPECT_EQ(merge(nullptr), TRL_OK) << error.message();
}

}  // namespace
