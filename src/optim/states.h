// The buffers of an elementwise optimizer: for each parameter one or more states of its shape, in the type of
// the weight, in float32, or as 8-bit codes.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "memory/paged_memory.h"
#include "optim/flat.h"
#include "optim/optim.h"
#include "optim/update.h"

namespace trl::optim {

// A kind of state, for instance "exp_avg", and its codec when states are codes.
struct StateKind {
  std::string name;
  Codec codes = Codec::dynamic;
};

struct StateForm {
  config::OptimStates type = config::OptimStates::as_weights;
  bool eight_bit_embeddings = false;  // false: embeddings have float32 instead of codes
  // Not empty: states are in a file in this directory, except the absmax of blocks. Weights are on the CPU.
  std::string directory = {};
};
// Elements below which a parameter has float32 instead of codes, as in bitsandbytes.
inline constexpr int64_t kLeastCoded = 4096;

// A state of one parameter.
struct State {
  Codec codec = Codec::f32;
  at::Tensor values;  // [shape]: float32, bfloat16, or uint8 of codes
  at::Tensor absmax;  // float32 [blocks] for codes; else undefined

  Span span() const;
  at::Tensor read() const;                   // returns float32
  void write(const at::Tensor& next) const;  // next: float32
};

class States {
 public:
  States(const std::vector<Parameter*>& parameters, const std::vector<StateKind>& kinds, double initial,
         const StateForm& form);
  const State& of(size_t parameter, size_t state) const { return states_[parameter * kinds_.size() + state]; }
  size_t count() const { return kinds_.size(); }  // states of one parameter
  void append(size_t parameter, const std::string& name, std::vector<StateTensor>& out) const;
  // Releases elements of a parameter that are not needed before the next step; does nothing for states in
  // memory.
  void release(size_t parameter, int64_t begin, int64_t count) const;
  bool paged() const { return paged_ != nullptr; }
  // For a parameter with `count` elements, in a file.
  int64_t paged_bytes(size_t parameter, int64_t count) const;
  void check() const;  // throws Error(io) if the disk could not read a state

 private:
  std::vector<at::ScalarType> types(const std::vector<Parameter*>& parameters, size_t state) const;
  FlatViews place(const std::vector<Parameter*>& parameters, size_t state);

  const std::vector<StateKind> kinds_;
  std::vector<State> states_;
  std::shared_ptr<const memory::PagedMemory> paged_;
  int64_t placed_ = 0;  // bytes of it in use
};

Span span_of(const at::Tensor& numbers);

}  // namespace trl::optim
