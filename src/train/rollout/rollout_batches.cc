#include "train/rollout/rollout_batches.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json/json.h"
#include "engine/error_capture.h"

namespace trl::train {

namespace {

// Streams of draws of evaluations begin here, so that every pass draws the same.
constexpr uint64_t kEvaluationStreams = uint64_t{1} << 40;

}  // namespace

RolloutBatches::RolloutBatches(const Setup& setup)
    : setup_(setup), source_(setup.training ? *setup.spec.train : *setup.spec.eval) {}

int64_t RolloutBatches::slices() const {
  return setup_.training ? setup_.arguments.online.steps_per_generation : 1;
}

int64_t RolloutBatches::repeats() const {
  return slices() * (setup_.training ? setup_.arguments.online.num_iterations : 1);
}

int64_t RolloutBatches::batches_per_epoch() noexcept { return source_.generations_per_epoch() * repeats(); }

int32_t RolloutBatches::start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t>,
                                    engine::ErrorSink&) noexcept {
  epoch_ = epoch;
  if (!setup_.training) drawn_epoch_ = -1;
  generation_ = skip / repeats();
  used_ = skip % repeats();
  rollout_.reset();
  source_positioned_ = false;
  source_state_.clear();
  return 0;
}

int32_t RolloutBatches::start_pass(int64_t, engine::ErrorSink& error) noexcept {
  return engine::answer(error, []() -> Status {
    fail(Status::unsupported, "rows of prompts alone have no pass: their completions are written in a step");
  });
}

int32_t RolloutBatches::next(const data::Batch** batch, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (drawn_epoch_ != epoch_) {
      if (!setup_.arguments.method->episodes) setup_.chance.generator.random_int64();
      drawn_epoch_ = epoch_;
    }
    if (rollout_ && used_ == repeats()) {
      rollout_.reset();
      used_ = 0;
    }
    const bool first = !rollout_;
    if (first && !make()) return Status::end;
    batch_ = method_->batch_of(*rollout_, slice());
    batch_.ends_update = ends_update();
    if (first) {
      batch_.metrics = rollout_->metrics;
      batch_.num_tokens = setup_.training ? method_->tokens(*rollout_) : 0;
    }
    ++used_;
    *batch = &batch_;
    return Status::ok;
  });
}

bool RolloutBatches::make() {
  engine::ErrorCapture error;
  if (!source_positioned_) {
    error.check(source_.start_epoch(epoch_, generation_, error));
    if (!source_state_.empty()) error.check(source_.load_state(source_state_, error));
    source_positioned_ = true;
  }
  source_positioned_ = false;  // unless all of this goes well
  const engine::PromptRows* prompts = nullptr;
  if (!error.check(source_.next(step_, &prompts, error))) return false;
  rollout_.emplace();
  try {
    write(*prompts);
    method_->before_rewards(*rollout_);
    error.check(source_.reward(method_->rewarded(*rollout_), &rollout_->rewards, error));
    check_rewards();
    method_->after_rewards(*rollout_);
    for (const auto& metric : rollout_->rewards.metrics) rollout_->metrics.push_back(metric);
    error.check(source_.scored(rollout_->completions, rollout_->rewards, rollout_->advantages, error));
  } catch (...) {
    rollout_.reset();
    throw;
  }
  order_ = drawn_order();
  source_positioned_ = true;
  ++generation_;
  ++made_;
  return true;
}

void RolloutBatches::sample() {
  engine::ErrorCapture error;
  error.check(source_.start_epoch(0, 0, error));
  const engine::PromptRows* prompts = nullptr;
  if (!error.check(source_.next(step_, &prompts, error))) return;
  generation_ = 0;
  rollout_.emplace();
  write(*prompts);
  error.check(source_.reward(method_->rewarded(*rollout_), &rollout_->rewards, error));
  error.check(source_.scored(rollout_->completions, rollout_->rewards, {}, error));
  rollout_.reset();
}

void RolloutBatches::write(const engine::PromptRows& prompts) {
  const engine::RolloutSpec& spec = setup_.spec;
  const auto rows = prompts.ids.size();
  Rollout& rollout = *rollout_;
  rollout.training = setup_.training;
  rollout.epoch = epoch_;
  rollout.prompts = prompts;
  engine::ErrorCapture error;
  if (!error.check(source_.complete(&rollout.completions, error))) {
    const engine::Sampling& sampling = setup_.training ? spec.sampling : spec.eval_sampling;
    const uint64_t before = setup_.training ? 0 : kEvaluationStreams;
    const auto number = static_cast<uint64_t>(setup_.training ? made_ : generation_);
    const config::TrainingArguments& arguments = setup_.arguments;
    const auto most = static_cast<uint64_t>(setup_.training ? arguments.online.generation_batch_size
                                                            : arguments.per_device_eval_batch_size);
    CompletionWriter& writer = prompts.for_teacher ? *setup_.writers.teacher : *setup_.writers.model;
    const auto go_on = [&](std::span<const engine::Completion> completions) {
      std::vector<engine::Continuation> more;
      error.check(source_.go_on(completions, &more, error));
      return more;
    };
    rollout.completions = writer.write(prompts, sampling, before + number * most,
                                       spec.continues ? CompletionWriter::GoOn(go_on) : nullptr);
  }
  if (rollout.completions.size() != rows)
    fail(Status::invalid_argument, "there are {} completions for {} prompts: give one for each",
         rollout.completions.size(), rows);
  for (const engine::Completion& own : rollout.completions) {
    const bool ended =
        !own.ids.empty() && std::ranges::find(spec.end_ids, own.ids.back()) != spec.end_ids.end();
    rollout.ended.push_back(ended ? 1 : 0);
    rollout.learned.push_back(ended || !setup_.arguments.online.mask_truncated_completions ? 1 : 0);
  }
}

void RolloutBatches::check_rewards() const {
  const engine::Rewards& rewards = rollout_->rewards;
  const size_t wanted = rewards.names.size() * rollout_->completions.size();
  if (rewards.values.size() != wanted || rewards.weights.size() != rewards.names.size())
    fail(Status::internal, "{} rewards for {} completions and {} functions", rewards.values.size(),
         rollout_->completions.size(), rewards.names.size());
}

std::vector<int64_t> RolloutBatches::drawn_order() {
  const config::OnlineArguments& online = setup_.arguments.online;
  const int64_t rows = rollout_->rows();
  const bool shuffles = setup_.training && online.shuffle_rollouts;
  const bool episodes = setup_.arguments.method->episodes;
  base::TorchGenerator& generator = setup_.chance.generator;
  std::vector<int64_t> order;
  for (int64_t pass = 0; pass < (episodes ? online.num_iterations : 1); ++pass) {
    std::vector<int64_t> own(static_cast<size_t>(rows));
    std::iota(own.begin(), own.end(), 0);
    if (shuffles) own = episodes ? base::numpy_permutation(rows, generator) : base::randperm(rows, generator);
    order.insert(order.end(), own.begin(), own.end());
  }
  return order;
}

// In a method of episodes a pass has parts of equal size, and a micro-batch the rows of one part.
std::span<const int64_t> RolloutBatches::slice() const {
  const int64_t rows = rollout_->rows(), slice = used_ % slices();
  int64_t first = slice * (rows / slices()), end = first + rows / slices();
  if (setup_.arguments.method->episodes) {
    const int64_t parts = setup_.arguments.online.num_mini_batches, size = rows / parts;
    const int64_t of_part = slices() / parts, most = setup_.arguments.per_device_train_batch_size;
    const int64_t pass = used_ / slices() * rows, part = pass + slice / of_part * size;
    first = part + slice % of_part * most;
    end = std::min(first + most, part + size);
  }
  return std::span(order_).subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
}

// As Accelerate, which makes an update after each micro-batch once the loader has given its last batch.
bool RolloutBatches::ends_update() const {
  if (!setup_.arguments.method->episodes) return false;
  return generation_ == source_.generations_per_epoch() ||
         (used_ + 1) % setup_.arguments.gradient_accumulation_steps == 0;
}

int32_t RolloutBatches::state(std::string_view* bytes, engine::ErrorSink& error) noexcept {
  *bytes = {};
  if (!setup_.training) return 0;
  return engine::answer(error, [&] {
    std::string_view of_source = source_state_;
    if (source_positioned_) {
      engine::ErrorCapture inner;
      inner.check(source_.state(&of_source, inner));
    }
    base::Json json = {{"chance", setup_.chance.generator.state()},
                       {"drawn_epoch", drawn_epoch_},
                       {"generation", generation_},
                       {"made", made_},
                       {"used", used_},
                       {"source", std::string(of_source)},
                       {"order", order_}};
    std::string text;
    if (rollout_) text = bytes_of(*rollout_);
    json["rollout"] = base::Json::binary({text.begin(), text.end()});
    state_.clear();
    base::Json::to_cbor(json, state_);
    *bytes = state_;
    return Status::ok;
  });
}

int32_t RolloutBatches::load_state(std::string_view bytes, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    try {
      const base::Json json = base::Json::from_cbor(bytes);
      setup_.chance.generator.load_state(json.at("chance").get<std::string>());
      json.at("drawn_epoch").get_to(drawn_epoch_);
      json.at("made").get_to(made_);
      json.at("source").get_to(source_state_);
      json.at("order").get_to(order_);
      rollout_.reset();
      const std::vector<uint8_t>& kept = json.at("rollout").get_binary();
      if (kept.empty() || drawn_epoch_ != epoch_) return Status::ok;
      json.at("generation").get_to(generation_);
      json.at("used").get_to(used_);
      rollout_ = rollout_of({reinterpret_cast<const char*>(kept.data()), kept.size()});
    } catch (const base::Json::exception& why) {
      fail(Status::format, "the state of the rollouts is damaged: {}", why.what());
    }
    return Status::ok;
  });
}

Rollouts::Rollouts(const config::TrainingArguments& arguments, const engine::RolloutSpec& spec,
                   std::unique_ptr<CompletionWriter> writer)
    : arguments_(arguments),
      spec_(spec),
      writers_{std::move(writer), nullptr},
      chance_(static_cast<uint64_t>(arguments.seed)),
      train_({arguments_, spec_, writers_, chance_}) {
  if (spec.eval != nullptr)
    eval_.emplace(RolloutBatches::Setup{arguments_, spec_, writers_, chance_, /*training=*/false});
}

// As PPOTrainer.train.
bool Rollouts::samples_after(int64_t step, int64_t max_steps) const {
  const int64_t times = arguments_.online.num_sample_generations;
  return eval_ && times > 0 && (step - 1) % std::max<int64_t>(1, max_steps / times) == 0;
}

void Rollouts::set_step(int64_t step) {
  train_.set_step(step);
  if (eval_) eval_->set_step(step);
}

void Rollouts::learn_by(RolloutMethod& method) {
  if (const model::Model* const teacher = method.teacher())
    writers_.teacher = std::make_unique<CompletionWriter>(*teacher, spec_.generator);
  train_.learn_by(method);
  if (eval_) eval_->learn_by(method);
}

}  // namespace trl::train
