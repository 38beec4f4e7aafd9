// The scenario of bindings/scenario.json in C++11: scenario SCENARIO MODEL OUTPUT. bindings/README.md says
// what it does and prints; every language prints the same text.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <trl/trl.hpp>
#include <utility>
#include <vector>

namespace {

using Json = nlohmann::json;

std::int32_t on_event(const trl::Event& event) {
  const int step = static_cast<int>(event["step"]);
  if (event.kind() == trl::EventKind::step) {
    std::printf("step %d of %d loss %.9f\n", step, static_cast<int>(event["max_steps"]), event["loss"]);
    return step == 3 ? trl::Answer::stop : 0;
  }
  std::printf("event %d at %d\n", event.kind(), step);
  return 0;
}

void fail(const trl::Event& event) {
  throw std::runtime_error("event " + std::to_string(event.kind()) + " at " +
                           std::to_string(static_cast<int>(event["step"])));
}

// Pauses a trainer, and calls a function on another thread a little later, while the next call is held.
std::thread meanwhile(const trl::Trainer& trainer, std::function<void()> function) {
  trainer.pause();
  return std::thread([function] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    function();
  });
}

void train(const trl::Config& config, const trl::Dataset& rows, const std::string& output) {
  trl::Trainer trainer(config, rows, &rows);
  std::printf("trained %d\n", trainer.train(on_event));
  std::printf("eval_loss %.9f\n", trainer.evaluate()["eval_loss"]);

  std::thread thread = meanwhile(trainer, [&] { trainer.resume(); });
  const trl::Metrics metrics = trainer.step();
  thread.join();
  std::printf("step %d after a pause, loss %.9f\n", static_cast<int>(metrics["step"]), metrics["loss"]);

  thread = meanwhile(trainer, [&] { trainer.cancel(); });
  try {
    trainer.step();
  } catch (const trl::Error& error) {
    std::printf("cancelled, status %d\n", error.status());
  }
  thread.join();
  trainer.resume();

  trainer.save({{"save.kind", "checkpoint"}});
  std::printf("checkpoint %d\n", std::ifstream(output + "/checkpoint-4/trainer_state.json").good());

  try {
    trainer.train(fail);
  } catch (const std::runtime_error& error) {
    std::printf("raised again: %s\n", error.what());
  }
  std::printf("trained %d\n", trainer.train(on_event));
  std::printf("trained %d\n", trainer.train(on_event));
  trainer.save(output + "/model");
}

trl::Config config_of(const Json& keys) {
  trl::Config config;
  for (const auto& item : keys.items()) config.set(item.key(), item.value().get<std::string>());
  return config;
}

void generate(const std::string& path, const Json& scenario) {
  trl::Model model(path);
  trl::Generator generator = model.generator();
  for (const char* name : {"generate", "sample"}) {
    std::string pieces;
    auto on_token = [&](std::size_t, std::int32_t token, const std::string& text, double) {
      std::printf("token %d\n", token);
      pieces += text;
    };
    const trl::Completion completion = generator.generate({scenario.at("prompt").get<std::string>()},
                                                          config_of(scenario.at(name)), on_token)[0];
    std::printf("%s\nstreamed %d\n", completion.json.c_str(), pieces == completion.text);
  }
}

void run(const Json& scenario, const std::string& model, const std::string& output) {
  std::printf("version %s\n", trl::version().c_str());

  trl::Config config = config_of(scenario.at("config"));
  config.set("model_name_or_path", model);
  config.set("output_dir", output);
  for (const char* key : {"learning_rate", "weight_decay"})
    std::printf("%s %s from %s\n", key, config.value(key).c_str(), config.origin(key).c_str());
  try {
    config.set(scenario.at("unknown_key").get<std::string>(), 1);
  } catch (const trl::Error& error) {
    std::printf("refused %s status %d\n", error.key().c_str(), error.status());
  }

  std::string lines;
  const auto texts = scenario.at("rows").get<std::vector<std::string>>();
  for (const std::string& text : texts) lines += Json{{"text", text}}.dump() + "\n";
  const trl::Dataset memory = trl::Dataset::from_buffer("jsonl", lines);
  std::size_t next = 0;
  const trl::Dataset asked = trl::Dataset::from_callback(
      [&](trl::Record row) {
        if (next == texts.size()) return false;
        row.set_text("text", texts[next++]);
        return true;
      },
      [&] { next = 0; });
  std::printf("rows in memory %d rows of a callback %d\n", static_cast<int>(memory.row_count()),
              static_cast<int>(asked.row_count()));
  train(config, memory, output);

  config.set("resume_from_checkpoint", output + "/checkpoint-4");
  {
    trl::Trainer resumed(config, asked);
    std::printf("resumed at %d\n", Json::parse(resumed.describe()).at("global_step").get<int>());
    resumed.train(on_event);
  }
  generate(output + "/model", scenario);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    std::ifstream file(argv[1]);
    run(Json::parse(file), argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
