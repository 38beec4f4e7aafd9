#include "train/rollout/rollout_batches.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "engine/error_capture.h"
#include "train/run/run_state.h"

namespace trl::train {

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
    if (!source_positioned_) position("");
    check_run();
    const bool first = !rollout_;
    if (first && !make()) return Status::end;
    if (!first && window_ > 0) forget_generated();
    window_ = 0;
    batch_ = method_->batch_of(*rollout_, slice(used_));
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

void RolloutBatches::position(const std::string& state) {
  engine::ErrorCapture error;
  error.check(source_.start_epoch(epoch_, generation_, error));
  if (!state.empty()) error.check(source_.load_state(state, error));
  source_positioned_ = true;
}

void RolloutBatches::check_run() {
  if (!length_ || checked_) return;
  const int64_t done = (rollout_ ? generation_ - 1 : generation_) * repeats() + used_;
  const RunAhead ahead(setup_.arguments, *length_,
                       {.step = step_,
                        .epoch = epoch_,
                        .done_in_epoch = done,
                        .next_generation = generation_,
                        .micro_batches_of_generation = repeats(),
                        .has_evaluation = setup_.spec.eval != nullptr});
  engine::ErrorCapture error;
  error.check(source_.check_run(ahead, error));
  checked_ = true;
}

void RolloutBatches::work_ahead() {
  if (!work_ || window_ == 0 || used_ + window_ > repeats()) return;
  std::vector<data::Batch> window;
  for (int64_t i = 0; i < window_; ++i) window.push_back(method_->batch_of(*rollout_, slice(used_ + i)));
  work_(window);
}

// In a method of episodes a pass has parts of equal size, and a micro-batch the rows of one part.
std::span<const int64_t> RolloutBatches::slice(int64_t used) const {
  const int64_t rows = rollout_->rows(), slice = used % slices();
  int64_t first = slice * (rows / slices()), end = first + rows / slices();
  if (setup_.arguments.method->episodes) {
    const int64_t parts = setup_.arguments.online.num_mini_batches, size = rows / parts;
    const int64_t of_part = slices() / parts, most = setup_.arguments.per_device_train_batch_size;
    const int64_t pass = used / slices() * rows, part = pass + slice / of_part * size;
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
    std::string_view of_source;
    engine::ErrorCapture inner;
    inner.check(source_.state(&of_source, inner));
    base::Json json = {{"chance", setup_.chance.generator.state()},
                       {"drawn_epoch", drawn_epoch_},
                       {"generation", generation_},
                       {"made", made_},
                       {"used", used_},
                       {"redrawn", redrawn_},
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
    std::string of_source;
    try {
      const base::Json json = base::Json::from_cbor(bytes);
      setup_.chance.generator.load_state(json.at("chance").get<std::string>());
      json.at("drawn_epoch").get_to(drawn_epoch_);
      json.at("made").get_to(made_);
      redrawn_ = json.value("redrawn", uint64_t{0});
      json.at("source").get_to(of_source);
      json.at("order").get_to(order_);
      rollout_.reset();
      const std::vector<uint8_t>& kept = json.at("rollout").get_binary();
      if (!kept.empty() && drawn_epoch_ == epoch_) {
        json.at("generation").get_to(generation_);
        json.at("used").get_to(used_);
        rollout_ = rollout_of({reinterpret_cast<const char*>(kept.data()), kept.size()});
      }
    } catch (const base::Json::exception& why) {
      fail(Status::format, "the state of the rollouts is damaged: {}", why.what());
    }
    position(of_source);  // an evaluation before the next generation continues from this state
    return Status::ok;
  });
}

}  // namespace trl::train
