#include "model/weights/stacked_experts.h"

#include <string_view>

namespace trl::model {

namespace {

// Rows of one matrix in a stack [matrices, rows, columns].
io::TensorView part_of(const io::TensorView& stack, int64_t matrix, int64_t first, int64_t rows) {
  const auto row = static_cast<int64_t>(stack.bytes) / (stack.shape[0] * stack.shape[1]);
  io::TensorView part = stack;
  part.shape = {rows, stack.shape[2]};
  part.data = static_cast<const char*>(stack.data) + (matrix * stack.shape[1] + first) * row;
  part.bytes = static_cast<size_t>(rows * row);
  return part;
}

}  // namespace

void split_experts(std::map<std::string, io::TensorView>& tensors, const Family& family) {
  const Names& names = family.names;
  if (names.router.empty()) return;
  const std::string gate_up = std::string(names.experts) + "gate_up_proj",
                    down = std::string(names.experts) + "down_proj";
  std::map<std::string, io::TensorView> parts;
  for (auto it = tensors.begin(); it != tensors.end();) {
    const auto& [name, view] = *it;
    const bool first = name.ends_with(gate_up);
    const bool splits = view.shape.size() == 3 && view.shape[0] > 0 && view.shape[1] > 0 &&
                        (first ? view.shape[1] % 2 == 0 : name.ends_with(down));
    if (!splits) {
      ++it;
      continue;
    }
    const std::string layer = name.substr(0, name.size() - (first ? gate_up : down).size());
    for (int64_t i = 0; i < view.shape[0]; ++i) {
      const std::string expert = layer + fmt::format(fmt::runtime(names.expert), i);
      const auto add = [&](std::string_view part, int64_t row, int64_t rows) {
        parts.emplace(expert + std::string(part) + ".weight", part_of(view, i, row, rows));
      };
      const int64_t rows = first ? view.shape[1] / 2 : view.shape[1];
      add(first ? names.expert_gate : names.expert_down, 0, rows);
      if (first) add(names.expert_up, rows, rows);
    }
    it = tensors.erase(it);
  }
  tensors.merge(parts);
}

}  // namespace trl::model
