// A model of a test that has tensors and nothing else.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "engine/host.h"
#include "engine/model.h"
#include "engine/sampling.h"

namespace trl::test {

class FakeModel final : public engine::Model {
 public:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> numbers;
  };
  std::map<std::string, Tensor> tensors = {};

  void release() noexcept override {}
  std::string_view config_json() noexcept override { return "{}"; }
  std::span<const int32_t> end_ids() noexcept override { return {}; }
  int64_t parameter_count() noexcept override { return 0; }
  int64_t learned_positions() noexcept override { return 0; }
  int64_t positions() noexcept override { return 0; }
  int32_t save(std::string_view, engine::SaveKind, std::span<const engine::NamedBytes>,
               engine::ErrorSink&) noexcept override {
    return lacks();
  }
  int32_t add_adapter(std::string_view, std::string_view, engine::ErrorSink&) noexcept override {
    return lacks();
  }
  int32_t remove_adapter(std::string_view, engine::ErrorSink&) noexcept override { return lacks(); }
  int32_t use_adapter(std::string_view, engine::ErrorSink&) noexcept override { return lacks(); }
  int32_t merge_adapter(std::string_view, engine::ErrorSink&) noexcept override { return lacks(); }
  int32_t check_sampling(const engine::Sampling&, engine::ErrorSink&) noexcept override { return lacks(); }
  int32_t create_generator(const engine::GeneratorSpec&, engine::Generator**,
                           engine::ErrorSink&) noexcept override {
    return lacks();
  }
  int32_t score(const engine::ScoreSpec&, float*, engine::ErrorSink&) noexcept override { return lacks(); }
  int32_t list_tensors(engine::TensorList& list, engine::ErrorSink&) noexcept override {
    for (const auto& [name, tensor] : tensors)
      list.add({.name = name,
                .shape = tensor.shape,
                .dtype = "float32",
                .stored = "float32",
                .trained = true,
                .gradient = false});
    return static_cast<int32_t>(Status::ok);
  }
  int32_t read_tensor(std::string_view name, engine::TensorRead, engine::HeldTensor* out,
                      engine::ErrorSink&) noexcept override {
    Tensor& tensor = tensors.at(std::string(name));
    *out = {.type = io::ElementType::f32,
            .shape = tensor.shape,
            .data = tensor.numbers.data(),
            .gpu = -1,
            .owner = nullptr};
    return static_cast<int32_t>(Status::ok);
  }
  int32_t write_tensor(std::string_view, const engine::GivenTensor&, engine::ErrorSink&) noexcept override {
    return lacks();
  }

 private:
  static int32_t lacks() { return static_cast<int32_t>(Status::unsupported); }
};

}  // namespace trl::test
