// Checks whether llama.cpp computes the same as a configuration says: facts from its src/models/*.cpp and
// llama-model.cpp.
#include <algorithm>

#include "base/error.h"
#include "model/gguf/architectures.h"
#include "model/gguf/metadata.h"

namespace trl::model {

namespace {

class Check {
 public:
  Check(const ModelConfig& config, const GgufFamily& row) : c_(config), row_(row) {}

  void all() const {
    heads();
    biases();
    scales();
    rope();
    experts();
  }

 private:
  template <typename... Args>
  void need(bool holds, fmt::format_string<Args...> what, Args&&... args) const {
    if (holds) return;
    fail(Status::unsupported, "models of the family {} are written to GGUF files, but not this one: {}",
         c_.model_type, fmt::format(what, std::forward<Args>(args)...));
  }

  void heads() const {
    need(c_.labels == 0, "it is a classifier");
    need(row_.head != GgufHead::tied || c_.tie_word_embeddings,
         "llama.cpp uses the embedding as its head, and tie_word_embeddings is false");
    need(row_.head != GgufHead::own || !c_.tie_word_embeddings,
         "llama.cpp needs a separate head, and tie_word_embeddings is true");
    need(row_.free_heads || c_.head_dim * c_.num_attention_heads == c_.hidden_size,
         "llama.cpp needs heads of hidden_size / num_attention_heads, and head_dim is {}", c_.head_dim);
    need(!c_.qk_norm || c_.family->names.q_norm.find("{}") == std::string_view::npos,
         "norms of single heads are not written");
    need(c_.activation == row_.activation, "llama.cpp uses another activation than \"{}\" says",
         c_.family->activation_key);
  }

  void biases() const {
    const bool all = c_.attention_qkv_bias && c_.attention_out_bias && c_.mlp_bias;
    need(row_.biases != GgufBiases::all || all, "llama.cpp needs biases for every projection");
    const bool beyond = c_.attention_out_bias || c_.mlp_bias;
    need(row_.biases != GgufBiases::of_inputs || !beyond, "llama.cpp adds biases only to Q, K and V");
  }

  void scales() const {
    const double ratio = gguf_attention_ratio(c_, row_);
    need(row_.multipliers || ratio == 1 || c_.family->names.qkv.empty(),
         "llama.cpp scales attention by {}, and this model by {}", c_.attention_scale / ratio,
         c_.attention_scale);
    need(!row_.softcaps || (c_.attention_softcap > 0 && c_.logits_softcap > 0),
         "llama.cpp always caps its attention and its logits, and one of the two has no cap");
  }

  void rope() const {
    const std::string& type = c_.rope.type;
    const bool known = type == "default" || type == "linear" || type == "yarn" || type == "none" ||
                       (type == "llama3" && row_.rope_freqs) || (type == "longrope" && row_.longrope);
    need(known, "rope type \"{}\" is not written: llama.cpp {}; these are: default, linear, yarn{}{}", type,
         type == "dynamic"        ? "has no frequencies that follow the length of a text"
         : type == "proportional" ? "gives a part of a head no exponents of the whole"
                                  : "does not have it for this family",
         row_.rope_freqs ? ", llama3" : "", row_.longrope ? ", longrope" : "");
    if (type == "yarn") yarn();
    const bool slides = std::ranges::find(c_.sliding_layers, true) != c_.sliding_layers.end();
    need(!slides || !c_.sliding_rope || c_.sliding_rope->type == "default",
         "llama.cpp does not scale the rope of layers with a window");
    for (int64_t i = 0; type != "none" && i < c_.num_hidden_layers; ++i) {
      const bool turned = row_.unturned_every == 0 || (i + 1) % row_.unturned_every != 0;
      need(c_.turned_layers[static_cast<size_t>(i)] == turned,
           "llama.cpp has {} rotary embedding in layer {}", turned ? "a" : "no", i);
    }
  }

  // Checks values that llama.cpp has fixed for these families, whatever keys a file has.
  void yarn() const {
    need(c_.rope.beta_fast == 32 && c_.rope.beta_slow == 1,
         "llama.cpp computes yarn with beta_fast 32 and beta_slow 1, and they are {} and {}",
         c_.rope.beta_fast, c_.rope.beta_slow);
    need(c_.rope.truncate, "llama.cpp rounds the ends of yarn's ramp, and truncate is false");
    need(c_.rope.factor >= 1, "llama.cpp wants a factor of yarn from 1 on, and it is {}", c_.rope.factor);
    need(!c_.sliding_rope || gguf_rope_multiplier(c_.rope) == 1,
         "llama.cpp would multiply layers with a window by yarn's attention_factor too");
  }

  void experts() const {
    if (!row_.experts) return;
    const bool everywhere = std::ranges::find(c_.expert_layers, false) == c_.expert_layers.end();
    need(everywhere, "llama.cpp needs experts in every layer");
    need(c_.experts.normalised == row_.normalised, "llama.cpp {} the shares of a token's experts",
         row_.normalised ? "normalises" : "does not normalise");
  }

  const ModelConfig& c_;
  const GgufFamily& row_;
};

}  // namespace

void check_gguf(const ModelConfig& config, const GgufFamily& row) { Check(config, row).all(); }

}  // namespace trl::model
