// trl_trainer_create, trl_trainer_save, and what a trainer tells of itself.
#include "capi/trainer/trainer_handle.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "run/open_model.h"

namespace trl::capi {

Trainer::Trainer(std::shared_ptr<Runtime> runtime, config::Config config, std::shared_ptr<Dataset> train,
                 std::shared_ptr<Dataset> eval)
    : runtime_(std::move(runtime)), train_(std::move(train)), eval_(std::move(eval)) {
  interrupt_.works_for(runtime_.get());
  run_.emplace(*runtime_, std::move(config), *train_, eval_.get());
  events_.run = &*run_;
  const run::MemoryCapScope capped(run_->cap());
  model_ = run_->open_model();
  samples_ = run_->open_samples(*model_);
  events_.samples = samples_.get();
  trainer_ = run_->create_trainer(*model_, events_);
  beside_ = static_cast<engine::ServingTrainer&>(*trainer_).beside();
  complete_ = trainer_->complete();
  if (samples_) samples_->check();
}

// The weights have the adapter in them while a merged model is written: nothing is answered with them then.
void Trainer::save(const std::string& directory, engine::SaveKind kind) {
  exclusively([&] {
    base::Turn alone(beside_turns_);
    if (kind == engine::SaveKind::merged) alone.wait([this] { return may_wait(false); });
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::save, [&] { return trainer_->save(directory, kind, error); }));
  });
}

void Trainer::add_adapter(const std::string& name, const std::string& directory) {
  exclusively([&] {
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::open, [&] { return model_->add_adapter(name, directory, error); }));
    added_.insert(name);
  });
}

void Trainer::remove_adapter(std::string_view name) {
  exclusively([&] {
    const auto found = added_.find(name);
    if (found == added_.end())
      fail(Status::not_found,
           "trl_model_add_adapter has added no adapter \"{}\" to this trainer's model, and those of the run "
           "itself stay",
           name);
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::open, [&] { return model_->remove_adapter(name, error); }));
    added_.erase(found);
  });
}

const char* Trainer::describe() {
  struct Taken final : engine::TextSink {
    void set(std::string_view state) override { text = state; }
    std::string text;
  } taken;
  engine::ErrorCapture error;
  error.check(trainer_->describe(taken, error));
  return described_.keep(std::move(taken.text));
}

std::vector<int64_t> Trainer::integers(std::string_view name) const {
  const engine::TrainedModel& model = trainer_->trained_model();
  if (name == "global_step") return {trainer_->global_step()};
  if (name == "max_steps") return {trainer_->max_steps()};
  if (name == "vocab_size") return {model.vocab_size};
  if (name == "parameter_count") return {model.parameters};
  if (name == "trained_parameter_count") return {model.trained_parameters};
  if (name == "eos_token_ids") return model.end_ids;
  fail(Status::not_found,
       "name: '{}' is not one of global_step, max_steps, vocab_size, parameter_count, "
       "trained_parameter_count, eos_token_ids",
       name);
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_trainer_create(trl_runtime* runtime, const trl_config* config, trl_dataset* train,
                              trl_dataset* eval, trl_trainer** out_trainer, trl_error** error) noexcept {
  return guard(error, out_trainer, [&] {
    need(out_trainer, "out_trainer");
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    *out_trainer = new trl_trainer(std::make_shared<Trainer>(held, get(config, "config")->copy(),
                                                             get(train, "train"), get_or_null(eval, "eval")));
  });
}

trl_status trl_trainer_save(trl_trainer* trainer, const char* path, const trl_config* options,
                            trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(trainer, "trainer");
    const auto kind = trl::run::save_kind(options_of(options).get("save.kind"));
    shared->save(path != nullptr ? path_of(path) : std::string(), kind);
  });
}

trl_status trl_trainer_describe(trl_trainer* trainer, const char** out_json, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    const auto shared = get(trainer, "trainer");
    need(out_json, "out_json");
    *out_json = shared->describe();
  });
}

trl_status trl_trainer_get_integers(const trl_trainer* trainer, const char* name, int64_t* values,
                                    size_t capacity, size_t* out_count, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_count, [&] {
    const auto shared = get(trainer, "trainer");
    if (capacity > 0) need(values, "values");
    const std::vector<int64_t> all = shared->integers(text(name, "name"));
    std::copy_n(all.begin(), std::min(all.size(), capacity), values);
    if (out_count != nullptr) *out_count = all.size();
  });
}
