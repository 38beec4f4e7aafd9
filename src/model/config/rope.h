// Rotary position embedding: its form in config.json, and the frequencies of a head.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "kernels/kinds.h"

namespace trl::model {

class ConfigKeys;
struct Family;

// The rotary embedding as given in config.json.
struct RopeConfig {
  // default, linear, dynamic, yarn, longrope, llama3, proportional; none: nothing is turned
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
  double partial = 1.0;  // share of each head that is turned
  int64_t max_position_embeddings = 0;
  double beta_fast = 32, beta_slow = 1;         // for yarn
  double mscale = 0, mscale_all_dim = 0;        // for yarn; 0: not given
  bool truncate = true;                         // for yarn
  std::optional<double> attention_factor = {};  // for yarn and longrope: factor of cosines and sines
  std::vector<double> short_factor = {}, long_factor = {};  // for longrope
  kernels::RopeLayout layout = kernels::RopeLayout::halves;

  // The most positions for which all batches have the same frequencies: a batch with a longer document turns
  // all its documents differently.
  int64_t common_positions() const {
    return type == "dynamic"    ? max_position_embeddings
           : type == "longrope" ? original_max_position_embeddings
                                : std::numeric_limits<int64_t>::max();
  }
  // Counts as vLLM does: linear, dynamic and yarn stretch the positions that a model was trained on.
  int64_t stretched_positions() const;
};

// keys: config.json's. Throws the Errors of parse_config().
RopeConfig parse_rope(const ConfigKeys& keys, const Family& family, int64_t max_positions, int64_t head_dim);
// For the layers with a window, if the family has a different one for them.
std::optional<RopeConfig> parse_sliding_rope(const ConfigKeys& keys, const Family& family,
                                             int64_t max_positions, int64_t head_dim);

// One frequency for every pair of elements that is turned, in float32 as transformers computes them
// (modeling_rope_utils.py). length: number of positions that the batch reaches, on which "dynamic" and
// "longrope" depend.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t length = 0);
// The factor of cosines and sines, which yarn and longrope have.
double rope_attention_factor(const RopeConfig& rope);

}  // namespace trl::model
