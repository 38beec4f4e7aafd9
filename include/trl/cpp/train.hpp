// Trainers, what they tell and what they ask, and evaluators. Included by trl/trl.hpp.
#ifndef TRL_CPP_TRAIN_HPP
#define TRL_CPP_TRAIN_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "generate.hpp"

namespace trl {
inline namespace cpp {

// ---- trainer ---------------------------------------------------------------------------------------------

// Numbers by their names, copied, in the order of TRL's records: for (const auto& number : metrics).
class Metrics {
 public:
  using value_type = std::pair<std::string, double>;
  using const_iterator = std::vector<value_type>::const_iterator;

  Metrics() = default;
  explicit Metrics(const trl_metrics* metrics) {
    for (const char* name = nullptr; (name = trl_metrics_next(metrics, name)) != nullptr;) {
      double value = 0;
      trl_metrics_get(metrics, name, &value);
      numbers_.emplace_back(name, value);
    }
  }

  const_iterator begin() const noexcept { return numbers_.begin(); }
  const_iterator end() const noexcept { return numbers_.end(); }
  std::size_t size() const noexcept { return numbers_.size(); }
  bool empty() const noexcept { return numbers_.empty(); }
  explicit operator bool() const noexcept { return !empty(); }
  const_iterator find(const std::string& name) const {
    const_iterator found = begin();
    while (found != end() && found->first != name) ++found;
    return found;
  }
  // The number of this name; std::out_of_range if there is none.
  double operator[](const std::string& name) const {
    const const_iterator found = find(name);
    if (found == end()) throw std::out_of_range("there is no number " + name + " in these metrics");
    return found->second;
  }

 private:
  std::vector<value_type> numbers_;
};

// An event of a run; valid while the function that receives it runs.
class Event {
 public:
  Event(std::int32_t kind, const trl_metrics* metrics) : kind_(kind), metrics_(metrics), pointer_(metrics) {}
  std::int32_t kind() const noexcept { return kind_; }  // EventKind
  const Metrics& metrics() const noexcept { return metrics_; }
  double operator[](const std::string& name) const { return metrics_[name]; }
  // A text, such as `path` of EventKind::save; empty if there is none.
  std::string text(const std::string& name) const {
    return detail::text_or_empty(trl_metrics_text(pointer_, detail::terminated(name)));
  }

 private:
  std::int32_t kind_;
  Metrics metrics_;
  const trl_metrics* pointer_;
};

// Rows that a trainer asks the host about: valid until the function returns, or until finish. May be copied.
class Rollout {
 public:
  using value_type = std::string;
  using const_iterator = detail::Iterator<detail::Index<Rollout>>;

  explicit Rollout(trl_rollout* rollout) noexcept : rollout_(rollout) {}
  trl_rollout* get() const noexcept { return rollout_; }
  std::size_t size() const noexcept { return trl_rollout_count(rollout_); }
  // Returns a row and its completion as JSON.
  std::string operator[](std::size_t index) const { return detail::ask(trl_rollout_get, rollout_, index); }
  const_iterator begin() const { return const_iterator({this, 0}); }
  const_iterator end() const { return const_iterator({this, size()}); }

  void set_reward(std::size_t index, double reward) {
    detail::call(trl_rollout_set_reward, rollout_, index, reward);
  }
  // log_probs and written are empty, or have a value for each id; columns is a JSON object or empty.
  void set_completion(std::size_t index, View<std::int32_t> ids, View<float> log_probs = View<float>(),
                      View<std::uint8_t> written = View<std::uint8_t>(),
                      const std::string& columns = std::string()) {
    if ((log_probs.size() != 0 && log_probs.size() != ids.size()) ||
        (written.size() != 0 && written.size() != ids.size()))
      throw std::invalid_argument("log_probs and written have a value for each of the " +
                                  std::to_string(ids.size()) + " token ids, or none");
    detail::call(trl_rollout_set_completion, rollout_, index, ids.data(), ids.size(),
                 log_probs.size() ? log_probs.data() : nullptr, written.size() ? written.data() : nullptr,
                 columns.empty() ? nullptr : detail::terminated(columns));
  }
  void set_value(std::size_t index, const std::string& name, const std::string& json) {
    detail::call(trl_rollout_set_value, rollout_, index, detail::terminated(name), detail::terminated(json));
  }
  void log(const std::string& name, double value) {
    detail::call(trl_rollout_log, rollout_, detail::terminated(name), value);
  }
  // Ends a rollout whose function returned Status::later.
  void finish() { detail::call(trl_rollout_finish, rollout_, nullptr); }
  void finish(const std::string& failure) {
    detail::call(trl_rollout_finish, rollout_, detail::terminated(failure));
  }

 private:
  trl_rollout* rollout_;
};

namespace detail {

// Copies the numbers that a function gives by its last parameter but one; none if nothing is left.
template <class... Parameters, class... Arguments>
Metrics measure(trl_status (*function)(Parameters...), Arguments... arguments) {
  const trl_metrics* metrics = nullptr;
  return call(function, arguments..., &metrics) == TRL_END ? Metrics() : Metrics(metrics);
}

template <class Function>
std::int32_t on_event(void* function, std::int32_t kind, const trl_metrics* metrics) {
  return guard([&]() -> std::int32_t {
    const Event event(kind, metrics);
    return answer(*static_cast<Function*>(function), event);
  });
}

template <class Function>
std::int32_t on_rollout(void* function, trl_rollout* pointer) {
  Rollout rollout(pointer);
  return guard([&] { return answer(*static_cast<Function*>(function), rollout); });
}

// Calls a reward. If it fails, the library is told why, and decides whether that ends the call.
template <class Function>
std::int32_t on_reward(void* function, trl_rollout* pointer) {
  Rollout rollout(pointer);
  return guard([&]() -> std::int32_t {
    try {
      return answer(*static_cast<Function*>(function), rollout);
    } catch (const std::exception& failure) {
      Thread& thread = this_thread();
      if (thread.calls == 0 || trl_rollout_finish(pointer, failure.what(), nullptr) != TRL_OK) throw;
      if (!thread.reward) thread.reward = std::current_exception();
      return TRL_LATER;
    }
  });
}

}  // namespace detail

class Trainer : public detail::Handle<trl_trainer, trl_trainer_destroy> {
 public:
  using Handle::Handle;
  Trainer() noexcept = default;
  Trainer(const Options& config, const Dataset& train, const Dataset* evaluation = nullptr,
          const Runtime* runtime = nullptr) {
    detail::call(trl_trainer_create, detail::raw(runtime), config.get(), train.get(), detail::raw(evaluation),
                 receive());
  }

  // Trains to the end, or until on_event(const trl::Event&) answers Answer::stop; false if the run was
  // complete before.
  bool train() { return detail::call(trl_trainer_train, get(), nullptr, nullptr) != TRL_END; }
  template <class Function>
  bool train(Function on_event) {
    return detail::call(trl_trainer_train, get(), detail::on_event<Function>, &on_event) != TRL_END;
  }
  // One optimizer step; empty when nothing is left.
  Metrics step() { return detail::measure(trl_trainer_step, get()); }
  // The halves of a step: gradients, which can then be read, and the update of weights or its omission.
  Metrics backward() { return detail::measure(trl_trainer_backward, get()); }
  Metrics update(bool apply = true) { return detail::measure(trl_trainer_update, get(), apply); }
  // Takes effect from the next step, from any thread. NaN: as the schedule says again.
  void set_learning_rate(double rate) { detail::call(trl_trainer_set_learning_rate, get(), rate); }
  // On the trainer's evaluation rows, or on others.
  Metrics evaluate() { return detail::measure(trl_trainer_evaluate, get(), nullptr); }
  Metrics evaluate(const Dataset& rows) { return detail::measure(trl_trainer_evaluate, get(), rows.get()); }
  // Without a path: into output_dir.
  void save(const Options& options = Options()) {
    detail::call(trl_trainer_save, get(), nullptr, options.get());
  }
  void save(const std::string& path, const Options& options = Options()) {
    detail::call(trl_trainer_save, get(), detail::terminated(path), options.get());
  }

  // function(trl::Rollout rollout) rewards the rows, writes their completions, or answers tools.
  // Status::later as its result: another thread does, and calls finish.
  template <class Function>
  void add_reward(const std::string& name, Function function) {
    detail::call(trl_trainer_add_reward, get(), detail::terminated(name), detail::on_reward<Function>,
                 detail::Given<Function>(std::move(function)), detail::forget<Function>);
  }
  template <class Function>
  void set_rollout(Function function) {
    detail::call(trl_trainer_set_rollout, get(), detail::on_rollout<Function>,
                 detail::Given<Function>(std::move(function)), detail::forget<Function>);
  }
  template <class Function>
  void set_tools(Function function) {
    detail::call(trl_trainer_set_tools, get(), detail::on_rollout<Function>,
                 detail::Given<Function>(std::move(function)), detail::forget<Function>);
  }

  // From any thread, and from a signal handler.
  void cancel() const noexcept { trl_trainer_cancel(get()); }
  void pause() const noexcept { trl_trainer_pause(get()); }
  void resume() const noexcept { trl_trainer_resume(get()); }

  // From any thread, also while another one trains.
  std::string describe() const { return detail::ask(trl_trainer_describe, get()); }
  // name: global_step, max_steps, vocab_size, parameter_count, trained_parameter_count or eos_token_ids.
  std::vector<std::int64_t> integers(const std::string& name) const {
    return detail::fill<std::vector<std::int64_t>>(
        4, [&](std::int64_t* values, std::size_t capacity, std::size_t* count) {
          detail::call(trl_trainer_get_integers, get(), detail::terminated(name), values, capacity, count);
        });
  }

  // The model that is trained; it sees every step at once, and keeps what it needs of the trainer alive.
  Model model() {
    Model made;
    detail::call(trl_model_from_trainer, get(), made.receive());
    return made;
  }
  Generator generator() { return model().generator(); }
};

// The memory, time and disk that a trainer of this configuration needs.
inline Profile plan(const Options& config, const Dataset* train = nullptr, const Runtime* runtime = nullptr) {
  const Runtime own = runtime ? Runtime(nullptr) : Runtime();  // of the texts, until they are copied
  const char *json = nullptr, *text = nullptr;
  detail::call(trl_trainer_plan, (runtime ? *runtime : own).get(), config.get(), detail::raw(train), &json,
               &text);
  return {json, text};
}

// Checks a run as a trainer does before it reads rows and weights, and creates nothing.
inline void check(const Options& config, const Runtime* runtime = nullptr) {
  detail::call(trl_trainer_check, detail::raw(runtime), config.get());
}

// ---- evaluation ------------------------------------------------------------------------------------------

class Evaluator : public detail::Handle<trl_evaluator, trl_evaluator_destroy> {
 public:
  using Handle::Handle;
  Evaluator() noexcept = default;
  explicit Evaluator(const Options& config, const Runtime* runtime = nullptr) {
    detail::call(trl_evaluator_create, detail::raw(runtime), config.get(), receive());
  }
  Metrics evaluate(const Dataset& rows) { return detail::measure(trl_evaluator_evaluate, get(), rows.get()); }
  std::string complete() { return detail::ask(trl_evaluator_complete, get()); }
};

}  // namespace cpp
}  // namespace trl

#endif  // TRL_CPP_TRAIN_HPP
