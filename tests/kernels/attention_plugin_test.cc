// Attention by a plug-in: the example computes what the built-in attention does, and each wrong one is
// refused with the reason.
#include "kernels/attention/attention_plugin.h"

#include "kernels/reference.h"
#include "support/error_of.h"
#include "tensor/counting_host.h"

namespace trl::kernels {
namespace {

using test::leaf;
using test::random;
using test::Threads;

std::string plugin_path(const std::string& name) { return std::string(TRL_TEST_PLUGINS "/") + name + ".so"; }

AttentionNeeds needs(at::ScalarType type = at::kFloat, int64_t window = 0) {
  return {type, 6, 2, 20, window};
}

std::pair<Status, std::string> refusal(const std::string& path, const AttentionNeeds& needs) {
  double agreement = 0;
  return test::error_of([&] { open_attention_plugin(path, needs, &agreement); });
}

// "attn_implementation: plug-in <path> <why>; give sdpa ..."
void expect_refused(const std::string& name, const AttentionNeeds& needs, const std::string& why) {
  const auto [status, message] = refusal(plugin_path(name), needs);
  EXPECT_EQ(status, Status::unsupported) << name;
  EXPECT_EQ(message, "attn_implementation: plug-in " + plugin_path(name) + " " + why +
                         "; give sdpa for the built-in attention");
}

TEST(AttentionPlugin, example_agrees_in_both_types_and_any_head) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const AttentionNeeds& n : {AttentionNeeds{type, 6, 2, 20, 0}, AttentionNeeds{type, 1, 1, 1, 4096},
                                    AttentionNeeds{type, 9, 3, 64, 0}, AttentionNeeds{type, 8, 8, 128, 5}}) {
      double agreement = 1;
      const AttentionPluginPtr plugin = open_attention_plugin(plugin_path("attention"), n, &agreement);
      EXPECT_LT(agreement, type == at::kFloat ? 5e-6 : 1.2e-2) << n.head_dim;
      EXPECT_EQ(plugin->name(), "plain example");
    }
  }
}

TEST(AttentionPlugin, refuses_what_it_does_not_know) {
  double agreement = 0;
  const AttentionPluginPtr plugin = open_attention_plugin(plugin_path("no_window"), needs(), &agreement);
  const at::Tensor q = random({12, 6, 20}, 1), k = random({12, 2, 20}, 2);
  const auto why = [&](const Segments& segments, double softcap) {
    const auto shared = std::make_shared<Segments>(segments);
    return test::error_of([&] { attention(q, k, k, shared, {0.2, 0, softcap, plugin}); }).second;
  };
  EXPECT_NE(why({{0, 4, 8, 12}, 4, {-1, 0, 0}}, 0).find("TRL_KERNEL_PREFIX"), std::string::npos);
  EXPECT_NE(why({{0, 12}, 12}, 30).find("cap scores"), std::string::npos);
  EXPECT_EQ(why({{0, 12}, 12}, 0), "");
}

TEST(AttentionPlugin, gives_values_and_gradients_through_autograd) {
  double agreement = 0;
  const auto segments = std::make_shared<Segments>(Segments{{0, 70, 71, 100}, 70});
  AttentionOptions with{0.2, 9, 0, open_attention_plugin(plugin_path("attention"), needs(), &agreement)};
  const AttentionOptions without{0.2, 9, 0, nullptr};
  const at::Tensor q = random({100, 6, 20}, 1), k = random({100, 2, 20}, 2), v = random({100, 2, 20}, 3),
                   d_out = random({100, 6, 20}, 4);
  const auto run = [&](const AttentionOptions& options) {
    const std::vector<at::Tensor> leaves = {leaf(q), leaf(k), leaf(v)};
    const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], segments, options);
    std::vector<at::Tensor> all = torch::autograd::grad({out}, leaves, {d_out});
    all.push_back(out.detach());
    return all;
  };
  const auto got = run(with), want = run(without);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(test::error_of(got[i], want[i], 1.0), 5e-6) << i;
  const Threads one(1);
  const auto again = run(with);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(test::same_bits(again[i], got[i])) << i;
  const at::Tensor alone = attention(q, k, v, segments, with);  // without a graph
  EXPECT_TRUE(test::same_bits(alone, got.back()));
}

TEST(AttentionPlugin, what_a_call_may_only_read_is_as_it_was) {
  for (const auto& [name, why] : {std::pair("writes_v", "(broken) writes to v in forward"),
                                  std::pair("writes_out", "(broken) writes to out in backward"),
                                  std::pair("writes_lse", "(broken) writes to lse in backward")})
    expect_refused(name, needs(), std::string(why) + ", which it may only read");
}

TEST(AttentionPlugin, what_lies_beside_its_workspace_is_as_it_was) {
  for (const auto& [name, where] :
       {std::pair("behind_workspace", "past its workspace in forward, which is the "),
        std::pair("before_workspace", "before its workspace in backward, which is the ")}) {
    const auto [status, message] = refusal(plugin_path(name), needs());
    EXPECT_EQ(status, Status::unsupported);
    EXPECT_NE(message.find("/" + std::string(name) + ".so writes " + where), std::string::npos) << message;
  }
}

// Each is right for every window but some that a model may have.
TEST(AttentionPlugin, the_window_of_the_model_is_tried) {
  double agreement = 0;
  for (const auto& [name, window] : {std::pair("wrong_even_window", 64), std::pair("no_wide_window", 300),
                                     std::pair("no_wide_window", 32768), std::pair("no_grouped_window", 64),
                                     std::pair("wrong_window_backward", 300)}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      EXPECT_NO_THROW(open_attention_plugin(plugin_path(name), needs(type), &agreement)) << name;
      const auto [status, message] = refusal(plugin_path(name), needs(type, window));
      EXPECT_EQ(status, Status::unsupported) << name << " " << window;
      EXPECT_NE(
          message.find(fmt::format("heads 6, kv_heads 2, head_dim 20, window {});", std::min(window, 2048))),
          std::string::npos)
          << name << ": " << message;
    }
  }
}

TEST(AttentionPlugin, a_prefix_that_it_says_it_knows_is_tried) {
  for (const auto& [name, where] :
       {std::pair("ignores_prefix", "out of token "), std::pair("no_prefix_backward", "dq of token ")}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const auto [status, message] = refusal(plugin_path(name), needs(type));
      EXPECT_EQ(status, Status::unsupported);
      EXPECT_NE(message.find(std::string(" gives wrong numbers: ") + where), std::string::npos) << message;
      EXPECT_NE(message.find("documents of 70, 33, 5 tokens, prefix -1, 0, 0, heads 4"), std::string::npos)
          << message;
    }
  }
}

TEST(AttentionPlugin, its_seconds_are_those_of_attention) {
  double agreement = 0;
  const AttentionOptions options{0.2, 0, 0,
                                 open_attention_plugin(plugin_path("attention"), needs(), &agreement)};
  const auto segments = std::make_shared<Segments>(Segments{{0, 300}, 300});
  const at::Tensor q = leaf(random({300, 6, 20}, 1)), k = random({300, 2, 20}, 2);
  tensor::PartTimes forward, backward;
  at::Tensor out;
  {
    const tensor::TimeParts timing(&forward);
    out = attention(q, k, k, segments, options);
  }
  EXPECT_GT(forward.seconds(tensor::Part::attention), 0);
  const tensor::TimeParts timing(&backward);
  torch::autograd::grad({out}, {q}, {at::ones_like(out)});
  EXPECT_GT(backward.seconds(tensor::Part::attention), 0);
}

TEST(AttentionPlugin, what_is_no_plugin_is_refused) {
  const auto [status, message] = refusal("/nowhere/kernel.so", needs());
  EXPECT_EQ(status, Status::not_found);
  EXPECT_TRUE(message.starts_with("attn_implementation: plug-in /nowhere/kernel.so cannot be loaded: "))
      << message;
  const auto [text, no_elf] = refusal(TRL_SOURCE_DIR "/README.md", needs());
  EXPECT_EQ(text, Status::unsupported);
  EXPECT_NE(no_elf.find("invalid ELF header"), std::string::npos) << no_elf;
  EXPECT_EQ(refusal("kernel.so", needs()).first, Status::not_found);  // not looked for in the system
  expect_refused("no_function", needs(), "does not export the function trl_kernel_attention (trl/kernel.h)");
}

TEST(AttentionPlugin, a_table_that_does_not_fit_is_refused) {
  expect_refused("no_table", needs(), "has no table of version 1, which this build uses");
  expect_refused("newer", needs(), "has version 2 of trl/kernel.h, this build uses version 1");
  expect_refused("short_table", needs(), "has a table of 8 bytes (struct_size), version 1 has 56");
  expect_refused("no_name", needs(), "has a table without name");
  expect_refused("empty_name", needs(), "has a table without name");
  expect_refused("negative_heads", needs(), "has a max_head_dim of -3; accepted: 1 or more, or 0 for any");
  expect_refused("no_backward", needs(), "has a table without backward");
  expect_refused("no_types", needs(), "does not name a known type (dtypes is 64)");
}

TEST(AttentionPlugin, what_it_cannot_do_is_refused_where_it_is_needed) {
  double agreement = 0;
  expect_refused("only_float32", needs(at::kBFloat16),
                 "computes only in float32, and this run in bfloat16 (bf16, dtype)");
  EXPECT_NO_THROW(open_attention_plugin(plugin_path("only_float32"), needs(), &agreement));
  expect_refused("small_heads", needs(), "takes a head_dim of at most 8, that of the model is 20");
  EXPECT_NO_THROW(open_attention_plugin(plugin_path("small_heads"), {at::kFloat, 6, 2, 8, 0}, &agreement));
  expect_refused("no_window", needs(at::kFloat, 4096),
                 "has no sliding window (TRL_KERNEL_WINDOW), the model has one of 4096");
  EXPECT_NO_THROW(open_attention_plugin(plugin_path("no_window"), needs(), &agreement));
}

TEST(AttentionPlugin, a_workspace_that_cannot_be_is_refused_by_name) {
  const std::string accepted = "; accepted: 0 to 1099511627776";
  expect_refused("negative_workspace", needs(), "asks for -5 bytes of workspace in backward" + accepted);
  expect_refused("huge_workspace", needs(),
                 "asks for 9223372036854775807 bytes of workspace in forward" + accepted);
  test::CountingHost host;
  host.counter.set_limit(1 << 30);
  tensor::set_host(&host);
  double agreement = 0;
  try {
    open_attention_plugin(plugin_path("large_workspace"), needs(), &agreement);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::out_of_memory);
    EXPECT_EQ(error.key(), "attn_implementation");
    EXPECT_TRUE(error.message().starts_with("attn_implementation: plug-in " + plugin_path("large_workspace") +
                                            " asks for 1099511627776 bytes of workspace in forward: "
                                            "runtime.host_memory_limit: "))
        << error.message();
  }
  tensor::set_host(nullptr);
}

TEST(AttentionPlugin, wrong_numbers_are_named) {
  const std::string refused = " (broken) gives wrong numbers: ";
  for (const auto& [name, where] :
       {std::pair("wrong_scale", "out of token "), std::pair("misses_documents", "out of token "),
        std::pair("wrong_window", "out of token "),
        std::pair("sees_the_future", "out of token 53, head 0, element 0 is 0.25, that of the built-in "),
        std::pair("nan_late",
                  "out of token 53, head 0, element 0 is nan, that of the built-in attention is "),
        std::pair("unwritten_dq", "dq of token 0, head 0, element 0 is nan, that of the built-in "),
        std::pair("wrong_dk", "dk of token 53, head 0, element 0 is 3, that of the built-in attention is "),
        std::pair("negative_dv", "dv of token 53, head 0, element 0 is -100, that of the built-in ")}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const auto [status, message] = refusal(plugin_path(name), needs(type));
      EXPECT_EQ(status, Status::unsupported) << name;
      EXPECT_TRUE(message.starts_with("attn_implementation: plug-in " + plugin_path(name) + refused + where))
          << message;
      EXPECT_NE(message.find(type == at::kFloat ? " is allowed between them (float32, documents of "
                                                : " is allowed between them (bfloat16, documents of "),
                std::string::npos)
          << message;
      EXPECT_TRUE(message.ends_with("); give sdpa for the built-in attention")) << message;
    }
  }
}

TEST(AttentionPlugin, what_it_says_of_a_failure_is_passed_on) {
  double agreement = 0;
  try {
    open_attention_plugin(plugin_path("fails"), needs(), &agreement);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::callback);
    EXPECT_EQ(error.callback_code(), 7);
    EXPECT_EQ(error.key(), "attn_implementation");
    EXPECT_EQ(error.message(), "attn_implementation: forward of plug-in " + plugin_path("fails") +
                                   " (broken) failed with 7: the accelerator is on fire");
  }
  EXPECT_EQ(
      refusal(plugin_path("odd_text"), needs()).second,
      "attn_implementation: forward of plug-in " + plugin_path("odd_text") +
          " (odd\xEF\xBF\xBD name) failed with 7: caf\xC3\xA9 on fire \xEF\xBF\xBD  [2Jsecond line third");
}

}  // namespace
}  // namespace trl::kernels
