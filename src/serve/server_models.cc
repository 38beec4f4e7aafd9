// Functions that a host calls for a server's models: adapters and sleep.
#include <fmt/format.h>

#include <future>

#include "base/json/json.h"
#include "serve/server.h"
#include "serve/weights/adapter_files.h"

namespace trl::serve {

namespace {

struct Module {
  std::string name, path;
};

// Reads NAME=PATH, or vLLM's object {name, path, base_model_name}.
Module module_of(const std::string& text, const ServedModel& model) {
  constexpr const char* kKey = "serve.lora_modules";
  if (!text.starts_with('{')) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size())
      fail_key(kKey, "{}: \"{}\" is not accepted; give NAME=PATH", kKey, text);
    return {text.substr(0, equals), text.substr(equals + 1)};
  }
  const base::Json object = base::parse_json(text, kKey);
  Module out;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) fail_key(kKey, "{}: {} has to be a text", kKey, name);
    const std::string given = value.get<std::string>();
    if (name == "name") {
      out.name = given;
    } else if (name == "path") {
      out.path = given;
    } else if (name != "base_model_name") {
      fail_key(kKey, "{}: unknown {}; give name, path, base_model_name", kKey, name);
    } else if (std::ranges::find(model.names(), given) == model.names().end()) {
      fail_key(kKey, "{}: base_model_name: the model is not \"{}\" but \"{}\"", kKey, given, model.name());
    }
  }
  if (out.name.empty() || out.path.empty()) fail_key(kKey, "{}: {} lacks name or path", kKey, text);
  return out;
}

// Runs body; a refusal becomes the error of a call. name: of the parameter that gives an adapter its name.
template <class Body>
void as_call(Body&& body, std::string_view name = {}) {
  try {
    body();
  } catch (const Refusal& refusal) {
    const Status status = refusal.status == 404   ? Status::not_found
                          : refusal.status == 400 ? Status::invalid_argument
                                                  : Status::busy;
    constexpr std::string_view kField = "lora_name:";
    const bool named = !name.empty() && refusal.message.starts_with(kField);
    throw Error(status,
                named ? fmt::format("{}:{}", name, refusal.message.substr(kField.size())) : refusal.message);
  }
}

// Waits until the function that body gets is called, and passes on its reason.
template <class Body>
void wait_for(const Body& body) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> end = done->get_future();
  body([done](const std::exception_ptr& why) { why ? done->set_exception(why) : done->set_value(); });
  done.reset();
  end.get();
}

}  // namespace

ServedModel& Server::named(const std::string& model) const {
  if (context_.models.empty())
    fail(Status::not_found, "server: it has no model; call trl_server_add_model first");
  if (model.empty()) return *context_.models.front();
  for (const auto& one : context_.models)
    if (std::ranges::find(one->names(), model) != one->names().end()) return *one;
  fail(Status::not_found, "model: the server has no model '{}'", model);
}

void Server::load_adapters(const std::vector<std::string>& modules) {
  ServedModel& model = *context_.models.back();
  for (const std::string& text : modules) {
    const Module module = module_of(text, model);
    as_call(
        [&] {
          check_rank(module.path, model.options().max_lora_rank);
          wait_for([&](auto done) { context_.load_adapter(model, module.name, module.path, false, done); });
        },
        "serve.lora_modules");
  }
}

void Server::set_adapter(const std::string& model, const std::string& name, const std::string& path) {
  ServedModel& to = named(model);
  as_call(
      [&] {
        if (path.empty()) return to.adapters().unload(name);
        check_files(path);
        wait_for([&](auto done) { context_.load_adapter(to, name, path, true, done); });
      },
      "name");
}

void Server::sleep(const std::string& model, int64_t level, const std::string& mode) {
  ServedModel& of = named(model);
  as_call([&] {
    wait_for([&](auto done) {
      of.worker().sleep(level, sleep_mode(mode), [done, &of](const std::optional<Refusal>& why) {
        if (!why) of.weights().release_memory();
        done(why ? std::make_exception_ptr(*why) : nullptr);
      });
    });
  });
}

void Server::wake_up(const std::string& model, const std::string& tags) {
  ServedModel& of = named(model);
  as_call([&] {
    const std::vector<std::string> given(tags.empty() ? 0 : 1, tags);
    wait_for([&](auto done) { of.worker().wake_up(wake_tags(given), done); });
  });
}

}  // namespace trl::serve
