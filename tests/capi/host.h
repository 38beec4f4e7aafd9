// What the tests of the C API share: owners of handles, errors with their text, recorded numbers, scratch
// folders.
#pragma once
#include <gtest/gtest.h>
#include <trl.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/recorded.h"

namespace host {

using Json = nlohmann::ordered_json;

Json parse(std::string_view text);  // throws

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};
using Config = std::unique_ptr<trl_config, Destroy<trl_config_destroy>>;
using Runtime = std::unique_ptr<trl_runtime, Destroy<trl_runtime_destroy>>;
using Dataset = std::unique_ptr<trl_dataset, Destroy<trl_dataset_destroy>>;
using Tokenizer = std::unique_ptr<trl_tokenizer, Destroy<trl_tokenizer_destroy>>;
using Model = std::unique_ptr<trl_model, Destroy<trl_model_destroy>>;
using Trainer = std::unique_ptr<trl_trainer, Destroy<trl_trainer_destroy>>;
using Evaluator = std::unique_ptr<trl_evaluator, Destroy<trl_evaluator_destroy>>;
using Generator = std::unique_ptr<trl_generator, Destroy<trl_generator_destroy>>;
using Completions = std::unique_ptr<trl_completions, Destroy<trl_completions_destroy>>;

// The error parameter of one call after the other.
class Error {
 public:
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() { trl_error_destroy(error_); }
  operator trl_error**() {
    trl_error_destroy(error_);
    error_ = nullptr;
    return &error_;
  }
  const trl_error* get() const { return error_; }
  std::string message() const { return trl_error_message(error_); }
  std::string key() const { return trl_error_key(error_) != nullptr ? trl_error_key(error_) : ""; }
  bool names(std::string_view text) const { return message().find(text) != std::string::npos; }

 private:
  trl_error* error_ = nullptr;
};

// The place of an error; a file without a name: it has none.
struct Place {
  std::string file;
  int64_t line = 0, column = 0, row = -1;
};
inline Place place_of(const Error& error) {
  const char* file = "not set";
  Place place;
  const int32_t known = trl_error_place(error.get(), &file, &place.line, &place.column, &place.row);
  EXPECT_EQ(known, file != nullptr);
  if (file != nullptr) place.file = file;
  return place;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

inline void set(trl_config* config, const Settings& settings) {
  Error error;
  for (const auto& [key, value] : settings) {
    ASSERT_EQ(trl_config_set(config, key.c_str(), value.c_str(), error), TRL_OK) << error.message();
  }
}

inline Config config(const Settings& settings = {}) {
  trl_config* made = nullptr;
  EXPECT_EQ(trl_config_create(&made, nullptr), TRL_OK);
  set(made, settings);
  return Config(made);
}

inline Runtime runtime(const Settings& settings = {}) {
  trl_runtime* made = nullptr;
  Error error;
  EXPECT_EQ(trl_runtime_create(config(settings).get(), &made, error), TRL_OK) << error.message();
  return Runtime(made);
}

inline Dataset rows(std::string_view jsonl) {
  trl_dataset* made = nullptr;
  Error error;
  EXPECT_EQ(trl_dataset_from_buffer(nullptr, "jsonl", jsonl.data(), jsonl.size(), nullptr, &made, error),
            TRL_OK)
      << error.message();
  return Dataset(made);
}

inline Dataset open_rows(const std::string& path, const trl_config* options = nullptr) {
  trl_dataset* made = nullptr;
  Error error;
  EXPECT_EQ(trl_dataset_open(nullptr, path.c_str(), options, &made, error), TRL_OK) << error.message();
  return Dataset(made);
}

inline double metric(const trl_metrics* metrics, const char* name) {
  double value = 0;
  EXPECT_EQ(trl_metrics_get(metrics, name, &value), TRL_OK) << name;
  return value;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream stream(path, std::ios::binary);
  stream << bytes;
  EXPECT_TRUE(stream.good()) << path;
}

using trl::test::close;
namespace limits = trl::test::limits;
inline std::string golden(const std::string& relative) { return trl::test::golden_path(relative); }
inline Json golden_json(const std::string& relative) { return parse(trl::test::read_golden(relative)); }
#define NEED_GOLDEN TRL_NEED_GOLDEN

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "trl-capi-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace host
