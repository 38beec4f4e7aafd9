// NEFTune, label smoothing in evaluation, and a learning rate that follows evaluations, in whole runs.
#include "base/arithmetic/counter_random.h"
#include "tensor/threads/parallel.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::tiny_run;
using test::value;

std::vector<at::Tensor> trained(const test::Settings& settings,
                                std::vector<telemetry::Record>* log = nullptr) {
  test::SftRun run = tiny_run(settings, {0, 15}, test::Rows{16, 23});
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  if (log != nullptr) *log = trainer.state().log_history;
  return run.weights();
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

TEST(Neftune, same_bits_in_every_run_and_for_any_number_of_threads) {
  TRL_NEED_TINY_RUN();
  const test::Settings noisy = {
      {"max_steps", "3"}, {"gradient_accumulation_steps", "2"}, {"neftune_noise_alpha", "5"}};
  const int before = tensor::threads();
  const auto first = trained(noisy);
  EXPECT_TRUE(equal(trained(noisy), first));
  tensor::set_threads(1);
  const auto one = trained(noisy);
  EXPECT_TRUE(equal(trained(noisy), one));
  tensor::set_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_LT((one[i] - first[i]).abs().max().item<float>(), 1e-4f);
  }
  EXPECT_FALSE(equal(trained({{"max_steps", "3"}, {"gradient_accumulation_steps", "2"}}), first));
  EXPECT_FALSE(equal(trained({{"max_steps", "3"},
                              {"gradient_accumulation_steps", "2"},
                              {"neftune_noise_alpha", "5"},
                              {"seed", "43"}}),
                     first));
}

TEST(RouterLoss, is_refused_of_a_model_without_routers) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run({{"router_aux_loss_coef", "0.1"}});
  try {
    run.start();
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(
        error.message().find("router_aux_loss_coef: 0.1 weights the routers' loss of a mixture of experts, "
                             "and this model (qwen2) is not one"),
        std::string::npos)
        << error.message();
  }
  tiny_run({{"router_aux_loss_coef", "0"}}).start();
}

// The noise of a step is alpha / sqrt(longest row * hidden size), drawn from seed, step and micro-batch;
// evaluation has none.
TEST(Neftune, size_and_key) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run({{"neftune_noise_alpha", "5"}, {"seed", "9"}});
  model::Model& model = run.model();
  MicroBatch batch;
  batch.input_ids = at::tensor({5, 6, 7, 8, 9, 10, 11}, at::kInt);
  batch.position_ids = at::tensor({0, 1, 2, 0, 1, 2, 3}, at::kInt);
  batch.segments = std::make_shared<kernels::Segments>(kernels::Segments{{0, 3, 7}, 4});
  batch.width = 4;
  const auto method = make_method({run.setup.arguments, model});
  const model::ForwardInput input{batch.input_ids, batch.position_ids, batch.segments};
  model::ForwardOptions options;
  const at::NoGradGuard no_graph;
  const at::Tensor plain = model.forward(input, options).hidden;
  EXPECT_TRUE(at::equal(method->forward(batch, std::nullopt).hidden, plain));
  options.noise.size = 5.0 / std::sqrt(4.0 * static_cast<double>(model.config().hidden_size));
  options.noise.key = base::counter_seed({9, 3, 1});
  const at::Tensor noisy = model.forward(input, options).hidden;
  EXPECT_TRUE(at::equal(method->forward(batch, RunPosition{3, 1}).hidden, noisy));
  EXPECT_FALSE(at::equal(noisy, plain));
  EXPECT_FALSE(at::equal(method->forward(batch, RunPosition{3, 0}).hidden, noisy));
  EXPECT_FALSE(at::equal(method->forward(batch, RunPosition{4, 1}).hidden, noisy));
}

// In training and in evaluation.
TEST(GenerationExact, takes_the_sums_of_generation) {
  TRL_NEED_TINY_RUN();
  for (const char* const exact : {"false", "true"}) {
    test::SftRun run = tiny_run({{"generation_exact", exact}});
    model::Model& model = run.model();
    const bool wanted = std::string(exact) == "true";
    MicroBatch batch;
    // More rows than the products of few rows take.
    batch.input_ids = at::arange(5, 105, at::kInt);
    batch.position_ids = at::arange(100, at::kInt);
    batch.segments = std::make_shared<kernels::Segments>(kernels::Segments{{0, 100}, 100});
    const auto method = make_method({run.setup.arguments, model});
    const model::ForwardInput input{batch.input_ids, batch.position_ids, batch.segments};
    const at::NoGradGuard no_graph;
    const at::Tensor usual = model.forward(input, {}).hidden,
                     generated = model.forward(input, {.as_generated = true}).hidden;
    EXPECT_FALSE(at::equal(usual, generated));
    for (const auto& at : {std::optional<RunPosition>(), std::optional(RunPosition{3, 1})})
      EXPECT_TRUE(at::equal(method->forward(batch, at).hidden, wanted ? generated : usual)) << exact;
  }
}

// transformers' prediction_step goes through compute_loss: eval_loss is smoothed as the training loss is.
TEST(LabelSmoothing, is_in_eval_loss) {
  TRL_NEED_TINY_RUN();
  std::vector<telemetry::Record> plain, smoothed;
  trained({{"max_steps", "1"}, {"learning_rate", "0"}, {"eval_strategy", "steps"}}, &plain);
  trained({{"max_steps", "1"},
           {"learning_rate", "0"},
           {"eval_strategy", "steps"},
           {"label_smoothing_factor", "0.2"}},
          &smoothed);
  EXPECT_NE(value(plain.at(1), "eval_loss"), value(smoothed.at(1), "eval_loss"));
  EXPECT_GT(value(plain.at(1), "eval_entropy"), 0);
  EXPECT_EQ(value(plain.at(1), "eval_entropy"), value(smoothed.at(1), "eval_entropy"));
}

// With so large a threshold that nothing is ever an improvement, each evaluation after the first is a bad
// one.
TEST(Plateau, follows_evaluations) {
  TRL_NEED_TINY_RUN();
  std::vector<telemetry::Record> log;
  trained({{"max_steps", "4"},
           {"eval_strategy", "steps"},
           {"eval_steps", "1"},
           {"lr_scheduler_type", "reduce_lr_on_plateau"},
           {"lr_scheduler_kwargs", "{factor: 0.5, patience: 0, threshold: 100, threshold_mode: abs}"}},
          &log);
  std::vector<double> rates;
  for (const telemetry::Record& record : log) {
    if (record.entries().front().name == "loss") rates.push_back(value(record, "learning_rate"));
  }
  EXPECT_EQ(rates, (std::vector<double>{1e-3, 1e-3, 5e-4, 2.5e-4}));
}

}  // namespace
}  // namespace trl::train
