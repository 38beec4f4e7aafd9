// Sends the adapter of a run to a server, through a folder that both see (/v1/load_lora_adapter).
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/model.h"
#include "run/server/exchange.h"
#include "run/server/weights_out.h"

namespace trl::run {

class AdapterOut final : public WeightsOut {
 public:
  // folder: gets a folder for each adapter, which is removed once the next one is loaded; so are leftovers of
  // earlier runs of the same owner, a text. model, exchange: outlive this.
  AdapterOut(engine::Model& model, Exchange& exchange, std::string folder, std::string_view owner);
  // Each adapter has a name of its own: a server keeps keys and values by the name.
  std::string send(int64_t step) override;
  void forget() override { sent_.reset(); }

 private:
  struct Sent {
    int64_t step;
    std::string name, path;
  };
  Sent save(int64_t step);
  void remove_left();
  void load(const Sent& adapter);
  void unload(const Sent& adapter);

  engine::Model& model_;
  Exchange& exchange_;
  const std::string folder_, prefix_;
  std::optional<Sent> sent_;
};

}  // namespace trl::run
