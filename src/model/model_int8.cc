#include "base/error.h"
#include "kernels/gemm/int8_products.h"
#include "model/model.h"

namespace trl::model {

namespace {

using kernels::Int8Products;
using kernels::Projection;

void check(const Projection& p) {
  if (!p.weight->device().is_cpu()) {
    fail_key(
        "frozen_compute",
        "frozen_compute: int8 is refused, because the model is on {}, and products in 8-bit integers are "
        "the CPU's: give auto, or use_cpu: true",
        p.weight->device().str());
  }
  if (const tensor::Encoded* const encoded = p.weight->encoded()) {
    fail_key(
        "frozen_compute",
        "frozen_compute: int8 would hold weights a second time, in 2 bytes each, and {} is held as {} to "
        "save memory: give auto, or open the model without quantisation",
        p.weight->name, encoded->form());
  }
  if (!kernels::has_int8_products()) {
    fail_key("frozen_compute",
             "frozen_compute: int8 needs a processor with AVX512-VNNI or AMX, and this one has neither (or "
             "ONEDNN_MAX_CPU_ISA hides it): give auto");
  }
}

// The int8 products that the layers use during its lifetime.
class Int8Layers {
 public:
  explicit Int8Layers(std::vector<Projection*> projections) : places_(std::move(projections)) {
    for (const Projection* p : places_) {
      check(*p);
      made_.push_back(std::make_unique<Int8Products>(*p));
    }
    for (size_t i = 0; i < places_.size(); ++i) places_[i]->int8 = made_[i].get();
  }
  ~Int8Layers() {
    for (Projection* p : places_) p->int8 = nullptr;
  }
  Int8Layers(const Int8Layers&) = delete;
  Int8Layers& operator=(const Int8Layers&) = delete;

 private:
  const std::vector<Projection*> places_;
  std::vector<std::unique_ptr<Int8Products>> made_;
};

}  // namespace

std::shared_ptr<void> Model::multiply_in_int8() {
  std::vector<Projection*> projections;
  for (const auto& layer : layers_)
    for (Projection* p : layer->projections()) projections.push_back(p);
  return std::make_shared<Int8Layers>(std::move(projections));
}

}  // namespace trl::model
