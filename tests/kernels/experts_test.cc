#include "kernels/experts/experts.h"

#include "kernels/compare.h"
#include "kernels/gemm/gemm.h"
#include "kernels/reference.h"
#include "support/interrupts.h"

namespace trl::kernels::experts_test {
namespace {

using test::check_gradient;
using test::error_of;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;
using test::Threads;

double limit(at::ScalarType type) { return type == at::kFloat ? 4e-6 : 2e-2; }

struct Block {
  Parameter gate_up, down;
  Block(int64_t experts, int64_t hidden, int64_t width, at::ScalarType type, at::ScalarType grad = at::kFloat)
      : gate_up(parameter(random({experts, 2 * width, hidden}, 11, type) * 0.3, grad)),
        down(parameter(random({experts, hidden, width}, 12, type) * 0.3, grad)) {}
  ExpertWeights weights() { return {&gate_up, &down}; }
};

struct Reference {
  at::Tensor y, dx, d_logits, d_gate_up, d_down;
};
// Every expert for every token, in double, those that were not chosen with a share of 0.
Reference reference(const at::Tensor& x, const at::Tensor& logits, int64_t k, bool normalised, Block& block,
                    at::ScalarType compute, const at::Tensor& dy) {
  const auto wide = [&](const at::Tensor& t) { return leaf(t.detach().to(compute).to(at::kDouble)); };
  const at::Tensor xd = wide(x), zd = leaf(logits.detach().to(at::kDouble)), gu = wide(*block.gate_up.read()),
                   down = wide(*block.down.read());
  const at::Tensor p = zd.softmax(-1);
  const auto [top, chosen] = p.topk(k, -1);
  const at::Tensor shares = at::zeros_like(p).scatter(1, chosen, normalised ? top / top.sum(-1, true) : top);
  const at::Tensor inner = at::einsum("th,eoh->teo", {xd, gu});
  const auto half = inner.chunk(2, -1);
  const at::Tensor outer = at::einsum("tew,ehw->teh", {at::silu(half[0]) * half[1], down});
  const at::Tensor y = (outer * shares.unsqueeze(-1)).sum(1);
  const auto g = torch::autograd::grad({y}, {xd, zd, gu, down}, {dy.to(at::kDouble)});
  return {y.detach(), g[0], g[1], g[2], g[3]};
}

// No two of a row are equal, in bfloat16 either.
at::Tensor router_logits(int64_t tokens, int64_t experts, at::ScalarType type) {
  return (random({tokens, experts}, 2).argsort(-1, /*descending=*/false).to(at::kFloat) * 0.125).to(type);
}

struct Shape {
  int64_t tokens, experts, k, hidden, width;
};
constexpr Shape kShapes[] = {{1, 1, 1, 8, 4},    {2, 5, 2, 16, 12},  {37, 6, 2, 24, 20},
                             {90, 40, 8, 33, 7}, {700, 2, 1, 16, 8}, {300, 3, 3, 20, 10}};

void compare(const Shape& s, at::ScalarType type, at::ScalarType compute, bool normalised,
             at::ScalarType grad = at::kFloat) {
  SCOPED_TRACE(testing::Message() << s.tokens << " tokens, " << s.k << " of " << s.experts << ", " << type
                                  << " by " << compute << ", normalised " << normalised << ", gradients "
                                  << grad);
  Block block(s.experts, s.hidden, s.width, type, grad);
  block.gate_up.gradient().fill_(0.5);
  block.down.gradient().fill_(0.25);
  const at::Tensor x = leaf(random({s.tokens, s.hidden}, 1, type));
  const at::Tensor logits = leaf(router_logits(s.tokens, s.experts, compute));
  const at::Tensor dy = random({s.tokens, s.hidden}, 3, compute);
  const Reference want = reference(x, logits, s.k, normalised, block, compute, dy);
  const at::Tensor y = experts(x, route(logits, s.k, normalised), block.weights(), Activation::silu, compute);
  const auto got = torch::autograd::grad({y}, {x, logits}, {dy});
  EXPECT_EQ(y.scalar_type(), compute);
  EXPECT_EQ(got[0].scalar_type(), type);
  EXPECT_LT(error_of(y, want.y, 1.0), limit(compute));
  EXPECT_LT(error_of(got[0], want.dx, 1.0), limit(compute));
  EXPECT_LT(error_of(got[1], want.d_logits, 1.0), limit(compute));
  const double most = std::max(limit(compute), limit(grad));
  EXPECT_LT(error_of(block.gate_up.gradient(), want.d_gate_up + 0.5, 1.0), most);
  EXPECT_LT(error_of(block.down.gradient(), want.d_down + 0.25, 1.0), most);
}

TEST(Experts, MatchTheFormulaForwardAndBackward) {
  for (const Shape& s : kShapes) {
    for (const bool normalised : {false, true}) {
      compare(s, at::kFloat, at::kFloat, normalised);
      compare(s, at::kFloat, at::kBFloat16, normalised);
      compare(s, at::kFloat, at::kFloat, normalised, at::kBFloat16);
      compare(s, at::kBFloat16, at::kBFloat16, normalised);
    }
  }
}

// The terms of an adapter on frozen weights.
struct Terms {
  Parameter a, b;
  double scale;
  Terms(int64_t experts, int64_t in, int64_t out, int64_t rank, at::ScalarType type, uint64_t seed)
      : a(parameter(random({experts * rank, in}, seed, type) * 0.3)),
        b(parameter(random({out, experts * rank}, seed + 1, type) * 0.3)),
        scale(1.5) {}
  LowRank factors() { return {.a = &a, .b = &b, .scale = scale}; }
  // [experts, rank, in] and [experts, out, rank], in double
  at::Tensor a_of(int64_t experts) { return a.read()->to(at::kDouble).view({experts, -1, a.size(1)}); }
  at::Tensor b_of(int64_t experts) {
    return b.read()->to(at::kDouble).view({b.size(0), -1, experts}).permute({2, 0, 1});
  }
  at::Tensor delta(int64_t experts) { return b_of(experts).matmul(a_of(experts)) * scale; }
};

// With terms it is what it is with their products in the weights, and so are the gradients: those of the
// factors follow from that of the weight.
void compare_with_terms(const Shape& s, at::ScalarType type, at::ScalarType compute) {
  SCOPED_TRACE(testing::Message() << s.tokens << " tokens, " << s.k << " of " << s.experts << ", " << type
                                  << " by " << compute);
  Block block(s.experts, s.hidden, s.width, type);
  Parameter gate_up("gate_up", *block.gate_up.read()), down("down", *block.down.read());
  Terms wide(s.experts, s.hidden, 2 * s.width, 3, type, 21),
      narrow(s.experts, s.width, s.hidden, 2, type, 31);
  Block whole(s.experts, s.hidden, s.width, at::kFloat);
  whole.gate_up.write()->copy_(gate_up.read()->to(at::kDouble) + wide.delta(s.experts));
  whole.down.write()->copy_(down.read()->to(at::kDouble) + narrow.delta(s.experts));
  const at::Tensor x = leaf(random({s.tokens, s.hidden}, 1, type));
  const at::Tensor logits = leaf(router_logits(s.tokens, s.experts, compute));
  const at::Tensor dy = random({s.tokens, s.hidden}, 3, compute);
  const Reference want = reference(x, logits, s.k, true, whole, at::kFloat, dy);
  const ExpertWeights weights{&gate_up, &down, wide.factors(), narrow.factors()};
  for (Terms* const terms : {&wide, &narrow}) {
    terms->a.gradient().fill_(0.5);
    terms->b.gradient().fill_(0.25);
  }
  const at::Tensor y = experts(x, route(logits, s.k, true), weights, Activation::silu, compute);
  const auto got = torch::autograd::grad({y}, {x, logits}, {dy});
  const double most = compute == at::kFloat ? limit(compute) : 4e-2;  // the factors' products are rounded too
  EXPECT_LT(error_of(y, want.y, 1.0), most);
  EXPECT_LT(error_of(got[0], want.dx, 1.0), most);
  EXPECT_LT(error_of(got[1], want.d_logits, 1.0), most);
  for (const auto& [terms, d_weight] : {std::pair{&wide, want.d_gate_up}, {&narrow, want.d_down}}) {
    const at::Tensor d_a = terms->b_of(s.experts).transpose(1, 2).matmul(d_weight) * terms->scale;
    const at::Tensor d_b = d_weight.matmul(terms->a_of(s.experts).transpose(1, 2)) * terms->scale;
    EXPECT_LT(error_of(terms->a.gradient(), d_a.reshape(terms->a.shape()) + 0.5, 1.0), most);
    EXPECT_LT(error_of(terms->b.gradient(), d_b.permute({1, 2, 0}).reshape(terms->b.shape()) + 0.25, 1.0),
              most);
  }
}

TEST(Experts, TermsOfAnAdapterAreInTheWeights) {
  for (const Shape& s : kShapes) {
    compare_with_terms(s, at::kFloat, at::kFloat);
    compare_with_terms(s, at::kFloat, at::kBFloat16);
    compare_with_terms(s, at::kBFloat16, at::kBFloat16);
  }
}

TEST(Experts, TermsGiveTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor x = leaf(random({300, 24}, 1)), logits = leaf(random({300, 9}, 2)),
                   dy = random({300, 24}, 3, at::kBFloat16);
  std::vector<std::vector<at::Tensor>> all;
  for (const int threads : {1, 2, 5}) {
    const Threads scoped(threads);
    Block block(9, 24, 10, at::kFloat);
    Parameter gate_up("gate_up", *block.gate_up.read()), down("down", *block.down.read());
    Terms wide(9, 24, 20, 3, at::kFloat, 21), narrow(9, 10, 24, 2, at::kFloat, 31);
    const ExpertWeights weights{&gate_up, &down, wide.factors(), narrow.factors()};
    const at::Tensor y = experts(x, route(logits, 3, true), weights, Activation::silu, at::kBFloat16);
    all.push_back(torch::autograd::grad({y}, {x, logits}, {dy}));
    all.back().insert(all.back().end(), {y.detach(), wide.a.gradient(), wide.b.gradient(),
                                         narrow.a.gradient(), narrow.b.gradient()});
  }
  for (const size_t other : {1u, 2u}) {
    for (size_t i = 0; i < all[0].size(); ++i) EXPECT_TRUE(same_bits(all[0][i], all[other][i])) << i;
  }
}

TEST(Experts, ThoseWithoutATokenAreNotTouched) {
  Block block(4, 8, 6, at::kFloat);
  block.gate_up.gradient().fill_(-0.0);
  block.down.gradient().fill_(-0.0);  // adding 0 would make it +0
  block.gate_up.write()->select(0, 2).fill_(NAN);
  const at::Tensor x = leaf(random({9, 8}, 1)), shares = leaf(at::ones({9, 1}));
  const Routing routing{shares, at::ones({9, 1}, at::kInt)};
  const at::Tensor y = experts(x, routing, block.weights(), Activation::silu, at::kFloat);
  torch::autograd::grad({y}, {x, shares}, {at::ones({9, 8})});
  EXPECT_TRUE(at::isfinite(y).all().item<bool>());
  for (const int64_t idle : {0, 2, 3}) {
    const at::Tensor gate_up = block.gate_up.gradient()[idle], down = block.down.gradient()[idle];
    EXPECT_TRUE(same_bits(gate_up, at::full_like(gate_up, -0.0))) << idle;
    EXPECT_TRUE(same_bits(down, at::full_like(down, -0.0))) << idle;
  }
  EXPECT_GT(block.down.gradient()[1].abs().sum().item<float>(), 0.0f);
}

TEST(Experts, FrozenWeightsPassTheGradientOn) {
  Block block(4, 8, 6, at::kFloat);
  Parameter gate_up("gate_up", *block.gate_up.read()), down("down", *block.down.read());
  const at::Tensor x = leaf(random({9, 8}, 1)), logits = leaf(random({9, 4}, 2)), dy = random({9, 8}, 3);
  const auto run = [&](const ExpertWeights& weights) {
    const at::Tensor y = experts(x, route(logits, 2, true), weights, Activation::silu, at::kFloat);
    return torch::autograd::grad({y}, {x, logits}, {dy});
  };
  const auto want = run(block.weights()), got = run({&gate_up, &down});
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(got[i], want[i]));
  EXPECT_FALSE(gate_up.has_gradient());
}

// Few products, which are cut into tiles, and many.
TEST(Experts, SameBitsForAnyNumberOfThreads) {
  for (const int64_t count : {7, 40}) {
    const at::Tensor x = leaf(random({300, 24}, 1)), logits = leaf(random({300, count}, 2)),
                     dy = random({300, 24}, 3, at::kBFloat16);
    std::vector<std::vector<at::Tensor>> all;
    for (const int threads : {1, 2, 5}) {
      const Threads scoped(threads);
      Block block(count, 24, 10, at::kFloat);
      const at::Tensor y =
          experts(x, route(logits, 3, true), block.weights(), Activation::silu, at::kBFloat16);
      all.push_back(torch::autograd::grad({y}, {x, logits}, {dy}));
      all.back().insert(all.back().end(), {y.detach(), block.gate_up.gradient(), block.down.gradient()});
    }
    for (const size_t other : {1u, 2u}) {
      for (size_t i = 0; i < all[0].size(); ++i) EXPECT_TRUE(same_bits(all[0][i], all[other][i])) << i;
    }
  }
}

template <typename Body>
void expect_cancelled(const Body& body) {
  try {
    body();
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cancelled);
  }
}

TEST(Experts, EndWhereTheCallIsCancelled) {
  Block block(6, 24, 10, at::kFloat);
  const at::Tensor x = leaf(random({300, 24}, 1)), logits = leaf(random({300, 6}, 2));
  const Routing routing = route(logits, 2, true);
  const auto forward = [&] { return experts(x, routing, block.weights(), Activation::silu, at::kFloat); };
  const at::Tensor y = forward(), balance = balance_loss({logits}, 2);
  test::Stops stops;
  const base::InterruptScope scope(&stops);
  expect_cancelled(forward);
  expect_cancelled([&] { route(logits, 2, true); });
  expect_cancelled([&] { torch::autograd::grad({y}, {x}, {at::ones({300, 24})}); });
  expect_cancelled([&] { torch::autograd::grad({balance}, {logits}); });
}

TEST(Experts, MakeTheirInputAgain) {
  const at::Tensor base = random({50, 24}, 1), logits = random({50, 5}, 2), dy = random({50, 24}, 3);
  std::vector<at::Tensor> results[2];
  int made = 0;
  for (const bool again : {false, true}) {
    Block block(5, 24, 10, at::kFloat);
    const at::Tensor x = leaf(base);
    const Again recipe{[&](const std::vector<at::Tensor>& from) {
                         ++made;
                         return from[0];
                       },
                       {base}};
    const at::Tensor y = experts(x, route(logits, 2, true), block.weights(), Activation::silu, at::kFloat,
                                 again ? recipe : Again());
    EXPECT_EQ(made, 0);
    results[again] = torch::autograd::grad({y}, {x}, {dy});
    results[again].push_back(block.gate_up.gradient());
  }
  EXPECT_EQ(made, 1);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(results[0][i], results[1][i])) << i;
}

TEST(Experts, OneTokenWithoutAGraphIsTheSame) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Block block(6, 40, 20, type);
    const at::Tensor x = random({1, 40}, 1, type);
    const Routing routing = route(random({1, 6}, 2, type), 3, true);
    const at::Tensor decoded = experts(x, routing, block.weights(), Activation::silu, type);
    const at::Tensor want = experts(leaf(x), routing, block.weights(), Activation::silu, type);
    EXPECT_EQ(decoded.scalar_type(), type);
    EXPECT_LT(error_of(decoded, want), limit(type));
  }
}

TEST(Experts, GradientsAreSlopes) {
  const at::Tensor x = random({11, 12}, 1), logits = random({11, 4}, 2), dy = random({11, 12}, 3);
  Block block(4, 12, 6, at::kFloat);
  const auto of = [&](const at::Tensor& input, const Routing& routing) {
    return experts(input, routing, block.weights(), Activation::gelu_tanh, at::kFloat);
  };
  const Routing fixed = route(logits, 2, true);
  const at::Tensor in = leaf(x), shares = leaf(fixed.weights);
  const auto got = torch::autograd::grad({of(in, {shares, fixed.experts})}, {in, shares}, {dy});
  check_gradient(x, dy, got[0], [&](const at::Tensor& at) { return of(at, fixed); });
  check_gradient(fixed.weights, dy, got[1], [&](const at::Tensor& at) { return of(x, {at, fixed.experts}); });
}

// scale * sin(a i + b) for each element i
at::Tensor waves(at::IntArrayRef sizes, double a, double b, double scale) {
  const int64_t count = c10::multiply_integers(sizes);
  return ((at::arange(count, at::kDouble) * a + b).sin() * scale).to(at::kFloat).view(sizes);
}
void expect_values(const at::Tensor& got, const std::vector<double>& want) {
  EXPECT_LT(error_of(got.flatten(), at::tensor(want, at::kDouble)), 2e-6);
}
struct Recorded {
  bool normalised;
  std::vector<double> y0, y6, dx3, d_router, d_gate_up, d_down;
};

// transformers 5.23's Qwen2MoeSparseMoeBlock (eager experts) and load_balancing_loss_func, both as one loss.
void expect_recorded(const Recorded& want) {
  Parameter router = parameter(waves({5, 8}, 0.61, 0.2, 1)), gate = parameter(waves({1, 8}, 0.83, 0.7, 1));
  Parameter gate_up = parameter(waves({5, 12, 8}, 0.37, 0.5, 0.6));
  Parameter down = parameter(waves({5, 8, 6}, 0.53, 0.1, 0.6));
  Parameter shared_gate = parameter(waves({4, 8}, 0.41, 0.3, 0.6)),
            shared_up = parameter(waves({4, 8}, 0.73, 0.4, 0.6));
  Parameter shared_down = parameter(waves({8, 4}, 0.29, 0.6, 0.6));
  const at::Tensor x = leaf(waves({7, 8}, 0.47, 0.9, 1.3)), dy = waves({7, 8}, 0.31, 0.8, 1);
  const Projection projections[] = {
      {&router, nullptr}, {&gate, nullptr}, {&shared_gate, nullptr}, {&shared_up, nullptr}};
  const std::vector<at::Tensor> of_x = linear(x, projections, at::kFloat);
  const Routing routing = route(of_x[0], 2, want.normalised);
  EXPECT_TRUE(
      at::equal(routing.experts.flatten(), at::tensor({4, 0, 2, 1, 4, 3, 1, 0, 2, 3, 4, 0, 2, 1}, at::kInt)));
  const at::Tensor shared =
      linear(gated(Activation::silu, of_x[2], of_x[3]), shared_down, nullptr, at::kFloat);
  const at::Tensor y =
      add_gated(experts(x, routing, {&gate_up, &down}, Activation::silu, at::kFloat), of_x[1], shared);
  const at::Tensor balance = balance_loss({of_x[0], of_x[0] * 0.5}, 2);
  EXPECT_NEAR(balance.item<double>(), 2.06525898, 1e-6);
  ((y * dy).sum() + balance * 0.1).backward();
  expect_values(y[0].detach(), want.y0);
  expect_values(y[6].detach(), want.y6);
  expect_values(x.grad()[3], want.dx3);
  expect_values(router.gradient().sum(1), want.d_router);
  expect_values(gate_up.gradient().sum(2).sum(1), want.d_gate_up);
  expect_values(down.gradient().abs().sum(2).sum(1), want.d_down);
  expect_values(gate.gradient(), {0.24859336, 0.0990110114, -0.0720431358, -0.22747384, -0.333573788,
                                  -0.36733374, -0.321432471, -0.205824256});
}

TEST(Experts, AreThoseOfTransformers) {
  expect_recorded(
      {true,
       {4.52647781, 4.15853119, 0.092425406, -5.36587906, -3.11516976, 1.63514471, 5.64184761, 1.67394996},
       {5.48137426, -5.45969677, 5.39698744, -5.31492186, 5.267097, -5.189291, 5.07949162, -5.00385332},
       {1.40660369, 1.81355715, 1.94234776, 1.78249586, 1.3721838, 0.787052453, 0.1225207, -0.525200903},
       {-0.550143957, -0.525299489, 0.144985259, 2.72053766, -1.79007947},
       {1.094751, 12.4590263, -0.365968168, 3.77982092, -0.843309999},
       {29.6358089, 50.3599014, 155.098831, 26.9601402, 38.8444138}});
  expect_recorded(
      {false,
       {4.52531004, 4.15968561, 0.0912854075, -5.36475515, -3.11627531, 1.63623095, 5.64078283, 1.67499208},
       {5.47751236, -5.45586824, 5.39319754, -5.31117582, 5.26340103, -5.18565035, 5.07591152, -5.00033903},
       {1.33629644, 1.77652788, 1.94361615, 1.81246483, 1.41133893, 0.814179003, 0.123315215, -0.552359104},
       {-0.504368126, -0.208489418, -0.114889562, 2.58066535, -1.75291848},
       {1.06307089, 12.182909, -0.364310682, 3.69159126, -0.73142457},
       {29.5698032, 49.3623886, 154.884537, 25.9417992, 38.4739952}});
}

TEST(Route, OfEqualLogitsTheFirstAreChosen) {
  const at::Tensor logits = at::tensor({1.f, 3.f, 3.f, 0.f, 3.f, 1.f}).view({1, 6});
  const Routing routing = route(logits, 5, false);
  EXPECT_TRUE(at::equal(routing.experts, at::tensor({1, 2, 4, 0, 5}, at::kInt).view({1, 5})));
  EXPECT_TRUE(same_bits(routing.weights.select(1, 0), routing.weights.select(1, 2)));
  EXPECT_THROW(route(logits, 7, false), Error);
}

TEST(Route, SharesAreOfAllExpertsOrOfTheChosen) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor logits = random({500, 33}, 1, type);
    const auto [top, chosen] = logits.to(at::kDouble).softmax(-1).topk(4, -1);
    const Routing plain = route(logits, 4, false), normalised = route(logits, 4, true);
    EXPECT_LT(error_of(plain.weights, top), 1e-6);
    EXPECT_LT(error_of(normalised.weights, top / top.sum(-1, true)), 1e-6);
    const at::Tensor at_chosen = logits.gather(1, plain.experts.to(at::kLong));
    EXPECT_TRUE(at::equal(at_chosen, logits.gather(1, chosen)));
  }
}

TEST(AddGated, MatchesTheFormulaForwardAndBackward) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor y = leaf(random({70, 33}, 1, type)), gate = leaf(random({70, 1}, 2, type) * 3);
    const at::Tensor branch = leaf(random({70, 33}, 3, type)), dy = random({70, 33}, 4, type);
    const at::Tensor sum = add_gated(y, gate, branch);
    const auto got = torch::autograd::grad({sum}, {y, gate, branch}, {dy});
    const auto wide = [](const at::Tensor& t) { return leaf(t.detach().to(at::kDouble)); };
    const at::Tensor yd = wide(y), gd = wide(gate), bd = wide(branch), want = yd + gd.sigmoid() * bd;
    const auto grads = torch::autograd::grad({want}, {yd, gd, bd}, {dy.to(at::kDouble)});
    EXPECT_LT(error_of(sum, want, 1.0), type == at::kFloat ? 1e-6 : 8e-3);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got[i].scalar_type(), type);
      EXPECT_LT(error_of(got[i], grads[i], 1.0), type == at::kFloat ? 1e-6 : 4e-3) << i;
    }
  }
}

TEST(BalanceLoss, MatchesTheFormulaOverAllLayers) {
  const std::vector<at::Tensor> logits{leaf(random({70, 6}, 1)), leaf(random({70, 6}, 2) * 2),
                                       leaf(random({70, 6}, 3))};
  const at::Tensor loss = balance_loss(logits, 2);
  const at::Tensor all = leaf(at::cat(logits).detach().to(at::kDouble)), p = all.softmax(-1);
  const at::Tensor assigned = at::one_hot(std::get<1>(p.topk(2, -1)), 6).to(at::kDouble).sum(1).mean(0);
  const at::Tensor want = 6 * (assigned * p.mean(0)).sum();
  EXPECT_NEAR(loss.item<double>(), want.item<double>(), 1e-6);
  const auto got = torch::autograd::grad({loss * 0.001}, logits);
  const at::Tensor gradient = torch::autograd::grad({want * 0.001}, {all})[0];
  EXPECT_LT(error_of(at::cat(got), gradient, 1e-9), 4e-6);
}

// A token that counts as three rows is three rows.
TEST(BalanceLoss, CountsTheRowsOfEachToken) {
  const std::vector<int64_t> rows = {1, 3, 2, 0, 1};
  const at::Tensor logits = leaf(random({5, 6}, 1)), more = leaf(random({5, 6}, 2));
  const at::Tensor repeats = at::tensor(rows);
  const auto expect = [&] {
    const at::Tensor loss = balance_loss({logits, more}, 2, rows);
    const at::Tensor want =
        balance_loss({logits.repeat_interleave(repeats, 0), more.repeat_interleave(repeats, 0)}, 2);
    EXPECT_NEAR(loss.item<double>(), want.item<double>(), 1e-6);
    const auto got = torch::autograd::grad({loss}, {logits, more}),
               grads = torch::autograd::grad({want}, {logits, more});
    for (const size_t i : {0u, 1u}) EXPECT_LT(error_of(got[i], grads[i], 1e-9), 4e-6);
  };
  expect();
  const test::PathScope plain(Path::plain);
  expect();
  EXPECT_THROW(balance_loss({logits}, 2, at::IntArrayRef(rows).slice(1)), Error);
}

TEST(BalanceLoss, IsKWhenAllAreEquallyBusy) {
  const at::Tensor logits = at::eye(4).repeat({5, 1}) * 3;
  EXPECT_NEAR(balance_loss({logits}, 1).item<double>(), 1.0, 1e-6);
  EXPECT_GT(balance_loss({at::eye(4).narrow(0, 0, 1).repeat({5, 1}) * 3}, 1).item<double>(), 3.0);
  EXPECT_THROW(balance_loss({}, 1), Error);
}

TEST(BalanceLoss, SameBitsForAnyNumberOfThreads) {
  const at::Tensor logits = leaf(random({3000, 20}, 1, at::kBFloat16));
  std::vector<at::Tensor> all;
  for (const int threads : {1, 2, 5}) {
    const Threads scoped(threads);
    const at::Tensor loss = balance_loss({logits}, 4);
    all.push_back(torch::autograd::grad({loss}, {logits})[0]);
    all.push_back(loss.detach());
  }
  for (const size_t i : {2u, 3u, 4u, 5u}) EXPECT_TRUE(same_bits(all[i], all[i % 2])) << i;
}

TEST(Gemm, SeveralProductsAreAsEachAlone) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> a, b, c;
    std::vector<Multiplication> all;
    for (const int64_t m : {0, 3, 16, 300}) {
      a.push_back(random({m, 40}, m, type));
      b.push_back(random({24, 40}, m + 1, type));
      c.push_back(at::ones({m, 24}));
      all.push_back({{a.back().data_ptr(), type, m, 40, 40, false},
                     {b.back().data_ptr(), type, 40, 24, 40, true},
                     c.back().data_ptr(),
                     at::kFloat,
                     24,
                     1.0f});
    }
    gemm(all);
    for (size_t i = 0; i < a.size(); ++i) {
      at::Tensor alone = at::ones_like(c[i]);
      gemm(a[i], false, b[i], true, alone, 1.0f);
      EXPECT_TRUE(same_bits(c[i], alone)) << i;
    }
  }
}

}  // namespace
}  // namespace trl::kernels::experts_test
