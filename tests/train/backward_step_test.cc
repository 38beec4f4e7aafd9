// optimizer_in_backward: the step is the usual one, bit by bit, with a few gradients at a time; what stops it
// and what breaks it. clip_by_previous_norm, with and without it.
#include "train/stepper/gradients.h"

#include "config/lora_config.h"
#include "kernels/path.h"
#include "optim/rules.h"
#include "tensor/parameter/use.h"
#include "train/family_model.h"

namespace trl::train {
namespace {

using base::MemoryKind;
using test::Settings;
using test::tiny_run;
using test::value;

Settings plus(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

const Settings kInBackward = {{"optimizer_in_backward", "true"}};

struct Stepped {
  std::vector<at::Tensor> weights;
  std::vector<std::pair<std::string, double>> log;
  int64_t gradients = 0;  // most bytes at once
};

Stepped stepped(test::SftRun& run, Trainer& trainer) {
  test::memory().reset_peak();
  while (trainer.step()) {
  }
  Stepped result;
  result.gradients = test::memory().peak(MemoryKind::gradients);
  result.weights = run.weights();
  for (model::Adapter* const adapter = run.model().adapters().trained();
       tensor::Parameter * p : adapter != nullptr ? adapter->parameters() : std::vector<tensor::Parameter*>())
    result.weights.push_back(p->read()->clone());
  for (const telemetry::Record& record : trainer.state().log_history) {
    std::map<std::string, double> entries;  // a resumed run has them in another order
    for (const telemetry::Entry& entry : record.entries()) entries[entry.name] = entry.value;
    result.log.insert(result.log.end(), entries.begin(), entries.end());
  }
  return result;
}

// family: a recorded case, or empty for the tiny qwen2
Stepped stepped(const Settings& settings, const std::string& family = {}, bool adapter = false) {
  std::optional<test::FamilyModel> model;
  if (!family.empty()) model.emplace(family);
  test::SftRun run(test::tiny_config(settings), model ? model->path() : test::golden_path("models/qwen2"),
                   test::golden_path("data/datasets/train_lm.jsonl"), {0, 63});
  if (adapter) {
    config::LoraConfig config;
    config.lora_dropout = 0.25;
    run.model().adapters().add("default", config, at::kFloat).start(42);
    run.model().train_only(run.model().adapters().get("default"));
  }
  return stepped(run, run.start());
}

void expect_same_run(const Stepped& got, const Stepped& want) {
  EXPECT_EQ(got.log, want.log);
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < want.weights.size(); ++i)
    EXPECT_TRUE(at::equal(got.weights[i], want.weights[i])) << "tensor " << i;
}

// body(usual, in backward)
Stepped expect_the_usual_step(const Settings& settings, const std::string& family = {},
                              bool adapter = false) {
  std::string trace = family;
  for (const auto& [key, setting] : settings) trace += fmt::format(" {}: {}", key, setting);
  SCOPED_TRACE(trace);
  const Settings all = plus({{"max_steps", "3"}, {"max_grad_norm", "0"}}, settings);
  const Stepped want = stepped(all, family, adapter), got = stepped(plus(all, kInBackward), family, adapter);
  expect_same_run(got, want);
  EXPECT_LT(got.gradients, want.gradients);
  return got;
}

TEST(BackwardStep, IsTheUsualStepWithEachOptimizer) {
  TRL_NEED_TINY_RUN();
  for (const char* optim : {"adamw_torch", "sgd", "rmsprop", "adagrad", "lion_32bit", "adafactor"}) {
    expect_the_usual_step({{"optim", optim}, {"weight_decay", "0.1"}});
    expect_the_usual_step({{"optim", optim}, {"dtype", "bfloat16"}, {"stochastic_rounding", "true"}});
  }
}

TEST(BackwardStep, IsTheUsualStepWithStatesInEveryForm) {
  TRL_NEED_TINY_RUN();
  const Settings rounded = {{"dtype", "bfloat16"}, {"stochastic_rounding", "true"}};
  for (const char* optim : {"adamw_8bit", "lion_8bit", "rmsprop_bnb_8bit", "ademamix", "ademamix_8bit",
                            "paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit",
                            "paged_ademamix_8bit", "paged_lion_32bit", "paged_lion_8bit"}) {
    Settings all = {{"optim", optim}, {"weight_decay", "0.1"}, {"offload_dir", TRL_BINARY_DIR}};
    if (std::string_view(optim).find("ademamix") != std::string_view::npos)
      all.push_back({"optim_args", "t_alpha=2,t_beta3=3"});
    expect_the_usual_step(all);
    all.insert(all.end(), rounded.begin(), rounded.end());
    if (std::string_view(optim).ends_with("8bit")) all.push_back({"optim_8bit_embeddings", "true"});
    expect_the_usual_step(all);
  }
}

TEST(BackwardStep, IsTheUsualStepInEveryForm) {
  TRL_NEED_TINY_RUN();
  expect_the_usual_step({{"bf16", "true"}, {"gradient_checkpointing", "true"}});
  expect_the_usual_step({{"dtype", "bfloat16"}, {"gradient_checkpointing", "true"}});
  expect_the_usual_step({{"gradient_dtype", "bfloat16"}});
  expect_the_usual_step({{"gradient_dtype", "float32"}, {"dtype", "bfloat16"}});
  expect_the_usual_step({{"packing", "true"}, {"max_length", "64"}});
  expect_the_usual_step({{"fused_kernels", "off"}, {"gradient_checkpointing", "true"}});
  expect_the_usual_step({{"profile_parts", "false"}, {"neftune_noise_alpha", "5"}});
  expect_the_usual_step({{"gradient_checkpointing", "true"}}, {}, true);
}

TEST(BackwardStep, IsTheUsualStepOfOtherModels) {
  TRL_NEED_TINY_RUN();
  for (const char* family : {"llama_bias_linear", "gpt2", "gemma3_text", "qwen3_moe"})
    for (const char* recompute : {"false", "true"})
      expect_the_usual_step({{"gradient_checkpointing", recompute}, {"max_length", "40"}}, family);
}

// The head, tied to the embedding, until the embedding's backward; beside it the gradients of one layer.
TEST(BackwardStep, HoldsAFewGradientsAtATime) {
  TRL_NEED_TINY_RUN();
  const Stepped got = expect_the_usual_step({{"bf16", "true"}});
  test::SftRun run = tiny_run({});
  int64_t table = 0, largest = 0, all = 0;
  for (const tensor::Parameter* p : run.model().parameters()) {
    const int64_t bytes = 4 * p->count() + 4096;
    (p->name.ends_with("embed_tokens.weight") ? table : largest) =
        p->name.ends_with("embed_tokens.weight") ? bytes : std::max(largest, bytes);
    all += bytes;
  }
  EXPECT_LE(got.gradients, table + 3 * largest);  // q, k and v, or gate and up, belong to one node
  EXPECT_LT(got.gradients, all);
}

const Settings kClipped = {{"max_steps", "4"}, {"max_grad_norm", "0.5"}, {"clip_by_previous_norm", "true"}};

std::vector<double> entries(const Stepped& run, const std::string& name) {
  std::vector<double> values;
  for (const auto& [key, number] : run.log)
    if (key == name) values.push_back(number);
  return values;
}

// Under plain SGD the step is learning rate, scale and gradient multiplied, so weights tell the scale.
TEST(ClipByPreviousNorm, ScalesByTheNormOfTheStepBefore) {
  TRL_NEED_TINY_RUN();
  const Settings settings = plus(kClipped, {{"optim", "sgd"}, {"lr_scheduler_type", "constant"}});
  test::SftRun run = tiny_run(settings);
  Trainer& trainer = run.start();
  std::vector<double> norms;
  for (;;) {
    const std::vector<at::Tensor> before = run.weights();
    if (!trainer.step()) break;
    const std::vector<at::Tensor> after = run.weights();
    double squares = 0;
    for (size_t i = 0; i < after.size(); ++i)
      squares += (after[i].to(at::kDouble) - before[i].to(at::kDouble)).square().sum().item<double>();
    norms.push_back(value(trainer.metrics(), "grad_norm"));
    const double by = norms.size() == 1 ? norms[0] : norms[norms.size() - 2];  // the first: its own
    const double want = 1e-3 * std::min(1.0, 0.5 / (by + 1e-6)) * norms.back();
    EXPECT_NEAR(std::sqrt(squares), want, 1e-3 * want) << norms.size();
  }
  ASSERT_EQ(norms.size(), 4u);
  EXPECT_GT(norms[0], 0.6);                                   // is clipped
  EXPECT_GT(std::abs(norms[1] - norms[2]), 0.01 * norms[1]);  // and one step's scale is not another's
}

TEST(ClipByPreviousNorm, IsTheSameInBackward) {
  TRL_NEED_TINY_RUN();
  for (const Settings& more : {Settings{{"bf16", "true"}, {"gradient_checkpointing", "true"}},
                               Settings{{"dtype", "bfloat16"}, {"neftune_noise_alpha", "5"}}}) {
    const Stepped want = stepped(plus(kClipped, more)),
                  got = stepped(plus(plus(kClipped, more), kInBackward));
    expect_same_run(got, want);
    EXPECT_LT(got.gradients, want.gradients);
    Settings usual = kClipped;
    usual.pop_back();
    EXPECT_NE(entries(stepped(plus(usual, more)), "loss"), entries(want, "loss"));
  }
}

TEST(ClipByPreviousNorm, GoesOnFromACheckpoint) {
  TRL_NEED_TINY_RUN();
  for (const char* in_backward : {"false", "true"}) {
    const test::Scratch scratch;
    const Settings settings = plus(kClipped, {{"optimizer_in_backward", in_backward}});
    test::SftRun whole = tiny_run(settings);
    Trainer& trainer = whole.start();
    ASSERT_TRUE(trainer.step());
    ASSERT_TRUE(trainer.step());
    trainer.save_checkpoint(scratch / "checkpoint");
    const Stepped want = stepped(whole, trainer);
    whole.stop();
    test::SftRun again = tiny_run(settings);
    Trainer& resumed = again.start();
    resumed.resume(scratch / "checkpoint");
    expect_same_run(stepped(again, resumed), want);
  }
}

// A request that comes during backward waits for its end; before it, the step has not begun.
TEST(BackwardStep, CancelledAnywhereGoesOn) {
  TRL_NEED_TINY_RUN();
  const Settings settings = plus(kClipped, {{"optimizer_in_backward", "true"}, {"max_steps", "3"}});
  const Stepped want = stepped(settings);
  test::StopsAt count;
  {
    test::SftRun run = tiny_run(settings);
    const base::InterruptScope scope(&count);
    stepped(run, run.start());
  }
  ASSERT_GT(count.polls, 200);
  constexpr int kRounds = 20;
  int cancelled = 0;
  for (int round = 0; round < kRounds; ++round) {
    test::StopsAt cancel(1 + (count.polls - 1) * round / (kRounds - 1));
    test::SftRun run = tiny_run(settings);
    Trainer& trainer = run.start();
    const base::InterruptScope scope(&cancel);
    for (;;) {
      const std::vector<at::Tensor> before = run.weights();
      try {
        if (!trainer.step()) break;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::cancelled) << error.message();
        const std::vector<at::Tensor> after = run.weights();
        for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
        ++cancelled;
        cancel.go_on();
      }
    }
    expect_same_run(stepped(run, trainer), want);
  }
  EXPECT_GE(cancelled, kRounds - 2);  // one during the last backward ends nothing
}

std::string error_text(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

// Memory that runs out before the first update leaves all as it was.
TEST(BackwardStep, OutOfMemoryBeforeTheFirstUpdateGoesOn) {
  TRL_NEED_TINY_RUN();
  const Settings settings = plus({{"max_steps", "3"}, {"max_grad_norm", "0"}}, kInBackward);
  const Stepped want = stepped(settings);
  test::SftRun run = tiny_run(settings);
  Trainer& trainer = run.start();
  const std::vector<at::Tensor> before = run.weights();
  tensor::trim();
  test::memory().set_limit(test::memory().now() + 1);
  EXPECT_NE(error_text([&] { trainer.step(); }).find("do not fit"), std::string::npos);
  test::memory().set_limit(0);
  const std::vector<at::Tensor> after = run.weights();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
  expect_same_run(stepped(run, trainer), want);
}

// After it, the trainer ends: some weights are new and some are not.
TEST(BackwardStep, OutOfMemoryInTheMiddleEndsTheTrainer) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string checkpoint = scratch / "checkpoint";
  const Settings settings = plus({{"max_steps", "3"}, {"max_grad_norm", "0"}}, kInBackward);
  for (const bool saved : {false, true}) {
    test::SftRun run = tiny_run(settings);
    Trainer& trainer = run.start();
    ASSERT_TRUE(trainer.step());
    if (saved) trainer.save_checkpoint(checkpoint);
    const std::vector<at::Tensor> before = run.weights();
    tensor::Parameter& middle = *run.model().parameters()[run.model().parameters().size() / 2];
    middle.on_complete([] {
      tensor::trim();
      test::memory().set_limit(test::memory().now());
    });
    const std::string message = error_text([&] { trainer.step(); });
    test::memory().set_limit(0);
    EXPECT_NE(message.find("step 2 ended in the middle of its updates"), std::string::npos) << message;
    EXPECT_NE(message.find("do not fit"), std::string::npos) << message;
    EXPECT_NE(message.find(saved ? "resume_from_checkpoint: " + checkpoint : "no checkpoint was saved"),
              std::string::npos)
        << message;
    const std::vector<at::Tensor> after = run.weights();
    EXPECT_TRUE(at::equal(before.front(), after.front()));
    EXPECT_FALSE(at::equal(before.back(), after.back()));
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { trainer.step(); }, [&] { trainer.save_model(scratch / "model"); },
             [&] { trainer.save_checkpoint(scratch / "other"); }, [&] { trainer.finish(); }})
      EXPECT_NE(error_text(call).find("cannot continue"), std::string::npos);
    EXPECT_FALSE(base::is_directory(scratch / "model"));
  }
  const Stepped want = stepped(settings);
  test::SftRun again = tiny_run(settings);
  Trainer& resumed = again.start();
  resumed.resume(checkpoint);
  expect_same_run(stepped(again, resumed), want);
}

// Two weights; the gradient of the second is not finite.
TEST(BackwardStep, AGradientThatIsNotFiniteIsSeenBeforeItsUpdate) {
  const kernels::PathScope fused(kernels::Path::fused);
  tensor::Parameter first("first", at::ones({8})), second("second", at::ones({8}));
  Gradients gradients({&first, &second}, std::nullopt);
  config::TrainingArguments arguments;
  const auto optimizer = optim::make_optimizer({&first, &second}, arguments);
  BackwardStep step(gradients, *optimizer);
  const auto run = [&](std::vector<tensor::Parameter*> order, bool need_finite) {
    gradients.begin_step(Gradients::Copies::none);
    const auto check = [&](const tensor::Parameter& p, bool finite) {
      if (need_finite && !finite) fail(Status::invalid_argument, "{}", p.name);
    };
    return step.run(BackwardStep::Updates{0.5, 1.0, check}, [&] {
      for (tensor::Parameter* p : order) {
        tensor::Use use(*p);
        use.add([&](at::Tensor& gradient) { gradient.add_(p == &second ? std::nan("") : 1.0); });
        use.end();
      }
    });
  };
  EXPECT_EQ(error_text([&] { run({&second, &first}, true); }), "second");
  EXPECT_FALSE(step.torn());
  EXPECT_EQ(optimizer->steps(), 0);
  EXPECT_EQ(error_text([&] { run({&first, &second}, true); }), "second");
  EXPECT_TRUE(step.torn());
  EXPECT_LT((*first.read())[0].item<float>(), 0.6f);
  EXPECT_EQ((*second.read())[0].item<float>(), 1.0f);
  EXPECT_TRUE(std::isnan(run({&first, &second}, false)));  // on_nonfinite: continue
  EXPECT_TRUE(std::isnan((*second.read())[0].item<float>()));
}

TEST(BackwardStep, RefusesWhatItCannotHold) {
  const auto refused = [](const Settings& settings) {
    return error_text([&] { config::training_arguments(test::tiny_config(plus(settings, kInBackward))); });
  };
  EXPECT_EQ(refused({{"max_grad_norm", "0"}}), "");
  EXPECT_EQ(refused({{"clip_by_previous_norm", "true"}}), "");
  const std::string clipping = refused({});
  EXPECT_NE(clipping.find("max_grad_norm: 0 (no clipping)"), std::string::npos) << clipping;
  EXPECT_NE(clipping.find("clip_by_previous_norm: true"), std::string::npos) << clipping;
  const std::string accumulation = refused({{"max_grad_norm", "0"}, {"gradient_accumulation_steps", "2"}});
  EXPECT_NE(accumulation.find("gradient_accumulation_steps: 2"), std::string::npos) << accumulation;
  const std::string skip = refused({{"max_grad_norm", "0"}, {"on_nonfinite", "skip"}});
  EXPECT_NE(skip.find("on_nonfinite: skip"), std::string::npos) << skip;
  const std::string nothing = error_text([&] {
    config::training_arguments(
        test::tiny_config({{"max_grad_norm", "0"}, {"clip_by_previous_norm", "true"}}));
  });
  EXPECT_NE(nothing.find("max_grad_norm: 0"), std::string::npos) << nothing;
}

}  // namespace
}  // namespace trl::train
