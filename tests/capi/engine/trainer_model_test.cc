// trl_model_from_trainer: generators, scores, adapters and tensors of the model that a trainer trains.
#include <thread>

#include "engine/rewarded.h"
#include "engine/tensors.h"

namespace {

using host::Error;
using host::FloatTensor;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

constexpr const char* kTrainedMatrix = "model.layers.0.mlp.down_proj.weight";

struct Training {
  explicit Training(const Settings& more = {}, const std::string& of = "models/qwen2")
      : trainer(host::trainer(
            host::with(host::tiny(scratch / "out", of), host::with({{"save_strategy", "no"}}, more)),
            rows.get())),
        model(host::model_of(trainer.get())) {}
  void step() {
    Error error;
    ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
  }
  std::filesystem::path save(const std::string& name, const char* kind = "model") {
    Error error;
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / name).c_str(),
                               host::config({{"save.kind", kind}}).get(), error),
              TRL_OK)
        << error.message();
    return scratch / name;
  }
  host::Scratch scratch;
  host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::Trainer trainer;
  host::Model model;
};

const Settings kLora = {
    {"use_peft", "true"}, {"lora_r", "4"}, {"lora_dropout", "0"}, {"learning_rate", "0.05"}};

// "base_model.model.a.lora_A.default.weight" for "base_model.model.a.lora_A.weight"
std::string in_model(std::string name) { return name.insert(name.rfind('.'), ".default"); }

TEST(TrainerModel, HasTheWeightsOfEveryStep) {
  NEED_MODEL();
  Training run;
  const char *described = nullptr, *opened = nullptr;
  Error error;
  ASSERT_EQ(trl_model_describe(run.model.get(), &described, error), TRL_OK) << error.message();
  const host::Model base = host::open_model(host::golden("models/qwen2"));
  ASSERT_EQ(trl_model_describe(base.get(), &opened, error), TRL_OK);
  EXPECT_EQ(host::parse(described), host::parse(opened));
  const std::vector<float> before = host::values_of(run.model.get(), kTrainedMatrix);
  EXPECT_TRUE(before == host::values_of(base.get(), kTrainedMatrix));
  run.step();
  EXPECT_FALSE(host::values_of(run.model.get(), kTrainedMatrix) == before);
  const std::map<std::string, host::Tensor> saved =
      host::read_safetensors(run.save("saved") / "model.safetensors");
  const std::map<std::string, Json> list = host::tensors_of(run.model.get());
  EXPECT_EQ(list.size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    EXPECT_EQ(list.at(name)["trained"], true);
    EXPECT_EQ(list.at(name)["gradient"], false);
    EXPECT_TRUE(host::values_of(run.model.get(), name) == tensor.values) << name;
  }
}

TEST(TrainerModel, IsMadeInACallbackAndBusyThere) {
  NEED_MODEL();
  Training run(Settings{{"max_steps", "1"}});
  struct Seen {
    Training& run;
    FloatTensor given;
    bool made = false;
  } seen{run, FloatTensor(host::shape_of(*host::read_tensor(run.model.get(), kTrainedMatrix)))};
  const auto on_event = [](void* data, int32_t event, const trl_metrics*) -> int32_t {
    auto& all = *static_cast<Seen*>(data);
    if (event != TRL_ON_STEP) return 0;
    const host::Model model = host::model_of(all.run.trainer.get());
    all.made = model != nullptr;
    Error error;
    EXPECT_EQ(host::refused_read(model.get(), kTrainedMatrix, TRL_TENSOR_COPY, error), TRL_E_BUSY);
    EXPECT_EQ(trl_model_write_tensor(model.get(), kTrainedMatrix, all.given.get(), error), TRL_E_BUSY);
    std::thread([&] {
      EXPECT_EQ(host::refused_read(model.get(), kTrainedMatrix, TRL_TENSOR_COPY, error), TRL_E_BUSY);
      EXPECT_EQ(trl_model_write_tensor(model.get(), kTrainedMatrix, all.given.get(), error), TRL_E_BUSY);
    }).join();
    return 0;
  };
  Error error;
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), on_event, &seen, error), TRL_OK) << error.message();
  EXPECT_TRUE(seen.made);
  EXPECT_EQ(seen.given.deleted(), 0);  // it is still the host's
  EXPECT_EQ(trl_model_write_tensor(run.model.get(), kTrainedMatrix, seen.given.get(), error), TRL_OK);
  EXPECT_EQ(seen.given.deleted(), 1);
}

TEST(TrainerModel, LeavesAdaptersAndSavingToItsRun) {
  NEED_MODEL();
  Training run(kLora);
  Error error;
  EXPECT_EQ(trl_model_use_adapter(run.model.get(), nullptr, error), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("generate.adapter")) << error.message();
  EXPECT_EQ(trl_model_merge_adapter(run.model.get(), "default", error), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("save.kind: merged")) << error.message();
  EXPECT_EQ(trl_model_save(run.model.get(), (run.scratch / "saved").c_str(), nullptr, error),
            TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("trl_trainer_save")) << error.message();
  EXPECT_FALSE(std::filesystem::exists(run.scratch / "saved"));
}

// The weights of another run make it that run.
TEST(TrainerModel, TrainsOnFromWeightsThatAreWritten) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::filesystem::path other = host::trained_model("models/qwen2", scratch);
  const auto loss_of = [](trl_trainer* trainer) {
    const trl_metrics* metrics = nullptr;
    Error error;
    EXPECT_EQ(trl_trainer_step(trainer, &metrics, error), TRL_OK) << error.message();
    return host::metric(metrics, "loss");
  };
  for (const char* bf16 : {"false", "true"}) {  // with copies of the weights in bfloat16
    SCOPED_TRACE(bf16);
    Training run(Settings{{"bf16", bf16}, {"learning_rate", "0"}});
    const double before = loss_of(run.trainer.get());
    const host::Generator generator = host::generator_of(run.model.get());
    (void)host::greedy(generator.get());
    for (const auto& [name, tensor] : host::read_safetensors(other / "model.safetensors"))
      host::write_tensor(run.model.get(), name, tensor);
    const host::Trainer same =
        host::trainer(host::with(host::tiny(run.scratch / "same"), {{"model_name_or_path", other.string()},
                                                                    {"bf16", bf16},
                                                                    {"learning_rate", "0"},
                                                                    {"save_strategy", "no"}}),
                      run.rows.get());
    (void)loss_of(same.get());
    const double after = loss_of(run.trainer.get());
    EXPECT_EQ(after, loss_of(same.get()));
    EXPECT_NE(after, before);
    EXPECT_EQ(host::greedy(generator.get()), host::greedy(host::generator_of(same.get()).get()));
    EXPECT_TRUE(host::read_safetensors(run.save("saved") / "model.safetensors") ==
                host::read_safetensors(other / "model.safetensors"));
  }
}

TEST(TrainerModel, HasTheTensorsOfItsAdapter) {
  NEED_MODEL();
  for (const Settings& more : std::vector<Settings>{{}, {{"load_in_4bit", "true"}}}) {
    SCOPED_TRACE(more.empty() ? "" : more[0].first);
    Training trained(host::with(kLora, more));
    Error error;
    ASSERT_EQ(trl_trainer_train(trained.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const std::map<std::string, host::Tensor> saved =
        host::read_safetensors(trained.save("adapter", "adapter") / "adapter_model.safetensors");
    std::map<std::string, Json> list = host::tensors_of(trained.model.get());
    Training fresh(host::with(kLora, more));
    for (const auto& [file_name, tensor] : saved) {
      const std::string name = in_model(file_name);
      SCOPED_TRACE(name);
      ASSERT_TRUE(list.count(name));
      EXPECT_EQ(list.at(name)["shape"], Json(tensor.shape));
      EXPECT_EQ(list.at(name)["trained"], true);
      EXPECT_TRUE(host::values_of(trained.model.get(), name) == tensor.values);
      host::write_tensor(fresh.model.get(), name, tensor);
      list.erase(name);
    }
    bool nf4 = false;
    for (const auto& [name, entry] : list) {
      EXPECT_EQ(entry["trained"], false) << name;
      nf4 = nf4 || entry["stored"] == "nf4";
    }
    EXPECT_EQ(nf4, !more.empty());
    EXPECT_EQ(host::greedy(host::generator_of(fresh.model.get()).get()),
              host::greedy(host::generator_of(trained.model.get()).get()));
  }
}

// A rest of the weights stands in for them: what is written to a weight reaches it, too.
TEST(TrainerModel, AWriteReachesTheRestOfAWeight) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::filesystem::path other = host::trained_model("models/qwen2", scratch);
  Training run(host::with(kLora, {{"peft_config", "{init_lora_weights: pissa}"}}));
  const host::Generator generator = host::generator_of(run.model.get());
  (void)host::greedy(generator.get());
  for (const auto& [name, tensor] : host::read_safetensors(other / "model.safetensors"))
    host::write_tensor(run.model.get(), name, tensor);
  const std::vector<int32_t> wanted = host::greedy(host::generator_of(host::open_model(other).get()).get());
  EXPECT_EQ(host::greedy(generator.get(), {{"generate.adapter", "none"}}), wanted);
  EXPECT_EQ(host::greedy(generator.get()), wanted);  // an adapter that was not trained changes nothing
}

TEST(TrainerModel, RefusesToChangeWhatARunHasKeptSomethingOf) {
  NEED_MODEL();
  const host::Scratch cache;
  Training run(host::with(
      kLora, {{"cache_frozen_layers", cache / "states"}, {"peft_config", "{layers_to_transform: [1]}"}}));
  const std::vector<int64_t> shape = host::shape_of(*host::read_tensor(run.model.get(), kTrainedMatrix));
  FloatTensor given(shape);
  Error error;
  EXPECT_EQ(trl_model_write_tensor(run.model.get(), kTrainedMatrix, given.get(), error), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("cache_frozen_layers keeps")) << error.message();
  const std::string above = "model.layers.1.mlp.down_proj.weight";
  host::write_tensor(run.model.get(), above, {shape, std::vector<float>(host::count_of(shape))});
}

TEST(TrainerModel, TensorsOutliveIt) {
  NEED_MODEL();
  std::vector<float> before;
  host::ReadTensor copy, view;
  {
    Training run;
    run.step();
    copy = host::read_tensor(run.model.get(), kTrainedMatrix);
    view = host::read_tensor(run.model.get(), kTrainedMatrix, TRL_TENSOR_VIEW);
    before = host::floats(*copy);
    EXPECT_TRUE(host::floats(*view) == before);
    run.trainer.reset();  // the model keeps it
    EXPECT_TRUE(host::values_of(run.model.get(), kTrainedMatrix) == before);
  }
  EXPECT_TRUE(host::floats(*copy) == before);
  EXPECT_EQ(host::floats(*view).size(), before.size());
  std::thread([&] { view.reset(); }).join();
}

TEST(TrainerModel, ScoresAsTheRunDoes) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(
      "{\"chosen\": \"one two three\", \"rejected\": \"four\"}\n"
      "{\"chosen\": \"five six\", \"rejected\": \"seven eight nine\"}\n");
  const host::Trainer trainer = host::trainer(
      host::with(host::with({{"method", "reward"}}, host::tiny(scratch / "out")),
                 {{"max_steps", "2"}, {"save_strategy", "no"}, {"per_device_train_batch_size", "2"}}),
      rows.get());
  const host::Model model = host::model_of(trainer.get());
  const auto scores = [](trl_model* of) {
    const char* const texts[] = {"one two three", "four"};
    std::vector<float> out(2);
    Error error;
    EXPECT_EQ(trl_model_score(of, texts, nullptr, 2, TRL_TEXT_ANSWER, nullptr, out.data(), error), TRL_OK)
        << error.message();
    return out;
  };
  const std::vector<float> before = scores(model.get());
  Error error;
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_NE(scores(model.get()), before);
  EXPECT_EQ(scores(model.get()), scores(host::open_model(scratch / "out").get()));
}

// Plain SGD with a rate of 1 takes the gradient itself.
TEST(TrainerModel, GradientsAreThereBetweenTheHalvesOfAStep) {
  NEED_MODEL();
  for (const std::string name : {"qwen2", "qwen3_moe"}) {
    if (host::golden("models/" + name + "/config.json").empty()) continue;
    SCOPED_TRACE(name);
    Training run(Settings{{"optim", "sgd"},
                          {"learning_rate", "1"},
                          {"lr_scheduler_type", "constant"},
                          {"max_grad_norm", "0"},
                          {"weight_decay", "0"}},
                 "models/" + name);
    Error error;
    EXPECT_EQ(host::refused_read(run.model.get(), kTrainedMatrix, TRL_TENSOR_GRADIENT, error),
              TRL_E_NOT_FOUND);
    ASSERT_EQ(trl_trainer_backward(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
    std::map<std::string, std::vector<float>> weights, gradients;
    bool any = false;
    for (const auto& [tensor, entry] : host::tensors_of(run.model.get())) {
      EXPECT_EQ(entry["gradient"], true) << tensor;
      weights[tensor] = host::values_of(run.model.get(), tensor);
      const host::ReadTensor gradient = host::read_tensor(run.model.get(), tensor, TRL_TENSOR_GRADIENT);
      ASSERT_NE(gradient, nullptr);
      EXPECT_EQ(Json(host::shape_of(*gradient)), entry["shape"]);
      gradients[tensor] = host::floats(*gradient);
      for (const float g : gradients[tensor]) any = any || g != 0;
    }
    EXPECT_TRUE(any);
    ASSERT_EQ(trl_trainer_update(run.trainer.get(), 1, nullptr, error), TRL_OK) << error.message();
    for (const auto& [tensor, before] : weights) {
      SCOPED_TRACE(tensor);
      const std::vector<float> after = host::values_of(run.model.get(), tensor);
      for (size_t i = 0; i < before.size(); ++i)
        ASSERT_NEAR(after[i], before[i] - gradients[tensor][i], 1e-6) << i;
      EXPECT_EQ(host::refused_read(run.model.get(), tensor, TRL_TENSOR_GRADIENT, error), TRL_E_NOT_FOUND);
    }
    for (const auto& [tensor, entry] : host::tensors_of(run.model.get()))
      EXPECT_EQ(entry["gradient"], false) << tensor;
  }
}

// No row of the step goes through a backward.
TEST(TrainerModel, AStepThatTeachesNothingHasGradientsOfZero) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::Rewarded run(host::grpo(scratch / "out", {{"beta", "0"}}), [](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, nullptr), TRL_OK);
    return int32_t{TRL_OK};
  });
  const host::Model model = host::model_of(run.trainer.get());
  const trl_metrics* metrics = nullptr;
  ASSERT_EQ(trl_trainer_backward(run.trainer.get(), &metrics, run.error), TRL_OK) << run.error.message();
  EXPECT_EQ(host::metric(metrics, "silent_rows"), 1);
  EXPECT_EQ(host::tensors_of(model.get()).at(kTrainedMatrix)["gradient"], true);
  const host::ReadTensor gradient = host::read_tensor(model.get(), kTrainedMatrix, TRL_TENSOR_GRADIENT);
  ASSERT_NE(gradient, nullptr);
  for (const float g : host::floats(*gradient)) ASSERT_EQ(g, 0);
  EXPECT_EQ(trl_trainer_update(run.trainer.get(), 1, nullptr, run.error), TRL_OK) << run.error.message();
}

TEST(TrainerModel, OnlyWhatIsTrainedHasAGradient) {
  NEED_MODEL();
  Training run(kLora);
  Error error;
  ASSERT_EQ(trl_trainer_backward(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
  for (const auto& [name, entry] : host::tensors_of(run.model.get()))
    EXPECT_EQ(entry["gradient"], name.find(".lora_") != std::string::npos) << name;
  EXPECT_EQ(host::refused_read(run.model.get(), kTrainedMatrix, TRL_TENSOR_GRADIENT, error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("is not trained")) << error.message();
  EXPECT_EQ(trl_trainer_update(run.trainer.get(), 0, nullptr, error), TRL_OK) << error.message();
}

}  // namespace
