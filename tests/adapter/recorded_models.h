// The modules of the models that PEFT's choices and files were recorded for.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "adapter/target_modules.h"
#include "support/golden.h"

namespace trl::adapter::test_models {

struct Model {
  std::string type;
  std::vector<Module> modules;
};

inline Model model_of(const std::string& name) {
  const std::map<std::string, ModuleKind> kinds = {
      {"linear", ModuleKind::linear},   {"conv1d", ModuleKind::conv1d}, {"embedding", ModuleKind::embedding},
      {"experts", ModuleKind::experts}, {"router", ModuleKind::router}, {"other", ModuleKind::other}};
  const base::Json& recorded = test::golden_json("adapters/selections.json")["models"][name];
  Model model{recorded[0], {}};
  for (const base::Json& row : recorded[1]) {
    Module module;
    module.name = row[0];
    module.kind = kinds.at(row[1]);
    module.in = row[2];
    module.out = row[3];
    module.bias = row[4];
    module.head = row[5];
    module.experts = row[6];
    model.modules.push_back(module);
  }
  return model;
}

}  // namespace trl::adapter::test_models
