#include "support/classifier.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace trl::bench {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWeights = "model.safetensors";

Json config_of(const fs::path& model) {
  std::ifstream file(model / "config.json");
  Json config = Json::parse(file);
  std::string name = config.at("architectures").at(0);
  const size_t at = name.find("ForCausalLM");
  if (at == std::string::npos) throw std::runtime_error(name + ": there is no classifier for it");
  config["architectures"] = Json::array({name.replace(at, std::string::npos, "ForSequenceClassification")});
  config["id2label"] = {{"0", "LABEL_0"}};
  config["label2id"] = {{"LABEL_0", 0}};
  return config;
}

// Returns numbers between -0.05 and 0.05 that have no order.
std::vector<float> head_of(int64_t width) {
  std::vector<float> head;
  for (int64_t i = 0; i < width; ++i) head.push_back(0.001f * static_cast<float>(i * 7919 % 101 - 50));
  return head;
}

// Copies all weights as they are, and adds those of the head.
void write_weights(const fs::path& from, const fs::path& to, int64_t width) {
  std::ifstream in(from, std::ios::binary);
  if (!in) throw std::runtime_error(from.string() + ": not there");
  uint64_t size = 0;
  in.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string text(size, ' ');
  in.read(text.data(), static_cast<std::streamsize>(size));
  Json header = Json::parse(text);
  const uint64_t end = fs::file_size(from) - sizeof size - size;
  const std::vector<float> head = head_of(width);
  const uint64_t bytes = head.size() * sizeof(float);
  header["score.weight"] = {{"dtype", "F32"}, {"shape", {1, width}}, {"data_offsets", {end, end + bytes}}};
  text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  size = text.size();
  std::ofstream out(to, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << text << in.rdbuf();
  out.write(reinterpret_cast<const char*>(head.data()), static_cast<std::streamsize>(bytes));
  if (!out.flush()) throw std::runtime_error(to.string() + ": cannot be written");
}

}  // namespace

void write_classifier(const std::string& model, const std::string& directory) {
  const fs::path from(model), to(directory);
  fs::create_directories(to);
  const Json config = config_of(from);
  std::ofstream(to / "config.json") << config.dump(2) << '\n';
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    if (fs::exists(from / name)) fs::copy_file(from / name, to / name);
  write_weights(from / kWeights, to / kWeights, config.at("hidden_size"));
}

}  // namespace trl::bench
