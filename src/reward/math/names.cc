#include "reward/math/names.h"

#include <algorithm>
#include <array>

namespace trl::reward::math {

namespace {

constexpr auto kSymbols = std::to_array<std::string_view>(
    {"Delta",  "Gamma", "Lambda", "Omega",    "Phi",      "Psi",      "Sigma",   "Theta",      "Xi",
     "alpha",  "angle", "beta",   "chi",      "delta",    "ell",      "epsilon", "eta",        "gamma",
     "hbar",   "iota",  "kappa",  "lambda",   "mu",       "nu",       "omega",   "omicron",    "phi",
     "psi",    "rho",   "sigma",  "tau",      "theta",    "triangle", "upsilon", "varepsilon", "varnothing",
     "varphi", "varpi", "varrho", "varsigma", "vartheta", "xi",       "zeta"});

constexpr auto kFunctionNames = std::to_array<std::string_view>(
    {"arccos", "arccosh", "arccot",       "arccsc", "arcsec", "arcsin", "arcsinh", "arctan", "arctanh",
     "cos",    "cosh",    "cot",          "csc",    "exp",    "gcd",    "lcm",     "ln",     "log",
     "max",    "min",     "operatorname", "sec",    "sin",    "sinh",   "sqrt",    "tan",    "tanh"});

constexpr auto kOthers = std::to_array<std::string_view>({"binom", "frac", "infty", "lceil", "lfloor", "pi"});

bool holds(auto& names, std::string_view name) { return std::ranges::find(names, name) != std::end(names); }

}  // namespace

bool is_symbol_name(std::string_view name) { return holds(kSymbols, name); }
bool is_function_name(std::string_view name) { return holds(kFunctionNames, name); }
bool begins_factor(std::string_view name) {
  return is_symbol_name(name) || is_function_name(name) || holds(kOthers, name);
}

}  // namespace trl::reward::math
