// What others have the thread of a model do between two steps.
#include <future>

#include "serve/engine/worker.h"

namespace trl::serve {

namespace {

// Throws what another thread has thrown, as a copy: no object of an exception belongs to two threads.
using Thrown = std::function<void()>;

Thrown copy_of(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const Refusal& refusal) {
    return [refusal] { throw refusal; };
  } catch (const Error& error) {
    return [error] { throw error; };
  } catch (...) {
    return [why] { std::rethrow_exception(why); };
  }
}

}  // namespace

// Something to do between two steps: whoever waits is answered once, whatever becomes of the thread.
struct Worker::Command {
  Command(Body what, Ran tell) : body(std::move(what)), ran(std::move(tell)) {}
  ~Command() { answer(ran ? std::make_exception_ptr(stopping()) : nullptr); }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  void answer(const std::exception_ptr& why) noexcept {
    const Ran tell = std::exchange(ran, nullptr);
    try {
      if (tell) tell(why);
    } catch (...) {  // no memory: whoever waits learns that nobody tells
    }
  }
  const Body body;
  Ran ran;
};

void Worker::between_steps(Body body, Ran ran) {
  const auto command = std::make_shared<Command>(std::move(body), std::move(ran));
  {
    const std::lock_guard lock(mutex_);
    if (has_thread_) {
      if (stops_) return;  // which answers
      if (!failure_.empty()) return command->answer(std::make_exception_ptr(refused(503, failure_)));
      commands_.push_back([this, command] { try_command(command); });
      wake_.notify_all();
      return;
    }
  }
  const std::lock_guard alone(alone_);
  try {
    while (!command->body(generator_)) std::this_thread::sleep_for(kBusy);
    if (before_work_) before_work_();
  } catch (...) {
    return command->answer(std::current_exception());
  }
  command->answer(nullptr);
}

void Worker::try_command(const std::shared_ptr<Command>& command) noexcept {
  try {
    if (command->body(generator_)) return command->answer(nullptr);
    std::this_thread::sleep_for(kBusy);
    const std::lock_guard lock(mutex_);
    commands_.push_back([this, command] { try_command(command); });
  } catch (...) {
    command->answer(std::current_exception());
  }
}

void Worker::between_steps(const std::function<void(trl_generator*)>& body) {
  auto done = std::make_shared<std::promise<Thrown>>();
  std::future<Thrown> end = done->get_future();
  between_steps(
      [&](trl_generator* generator) {
        body(generator);
        return true;
      },
      [done](const std::exception_ptr& why) { done->set_value(why ? copy_of(why) : Thrown()); });
  if (const Thrown thrown = end.get()) thrown();
}

}  // namespace trl::serve
