#!/usr/bin/env bash
# The headers compile alone, twice, without a warning, in every language mode; comments and includes of those of C are C89's.
set -euo pipefail
source=$1 cc=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <trl.h>\n#include <trl.h>\n#include <trl/trl.h>\n#include <trl/kernel.h>\n#include <trl/kernel.h>\n#include <trl/serve.h>\n#include <trl/serve.h>\nint use(void);\nint use(void) { return (int)trl_version(); }\n' > "$work/once.c"
cp "$work/once.c" "$work/once.cc"
flags="-I$source/include -Wall -Wextra -pedantic -Werror -fsyntax-only"
modes=0
for mode in c89 c99 c11 c17 c2x; do
  "$cc" -std=$mode -Wstrict-prototypes -Wmissing-prototypes $flags "$work/once.c"
  "$cc" -std=$mode -fshort-enums $flags "$work/once.c"
  modes=$((modes + 1))
done
for mode in c++98 c++11 c++14 c++17 c++20 c++23; do
  "$cxx" -std=$mode $flags "$work/once.cc"
  modes=$((modes + 1))
done
# The classes of C++, alone and twice, and each of their headers alone; and programs that use them.
cpp_modes=0
sed -n '/^```cpp/,/^```$/ { /^```/d; p }' "$source/bindings/cpp/README.md" > "$work/readme.cc"
for mode in c++11 c++14 c++17 c++20 c++23; do
  for header in trl/trl.hpp trl/serve.hpp $(cd "$source/include" && echo trl/cpp/*.hpp); do
    printf '#include <%s>\n#include <trl/trl.hpp>\n#include <trl.h>\nstd::string use();\nstd::string use() { return trl::version(); }\n' "$header" > "$work/once.cc"
    "$cxx" -std=$mode $flags -Wshadow -Wconversion "$work/once.cc"
    [ $mode = c++11 ] || break  # the others once
  done
  "$cxx" -std=$mode $flags -Wshadow -Wconversion -Wno-sign-conversion "$work/readme.cc" "$source"/examples/cpp/*/main.cc
  cpp_modes=$((cpp_modes + 1))
done
printf '#include <trl/serve.h>\nint alone(void);\nint alone(void) { return trl_server_start(NULL, NULL) != TRL_OK; }\n' > "$work/serve.c"
cp "$work/serve.c" "$work/serve.cc"
"$cc" -std=c89 $flags "$work/serve.c"
"$cxx" -std=c++98 $flags "$work/serve.cc"
printf '#include <trl/kernel.h>\nint alone(uint32_t);\nint alone(uint32_t version) { return trl_kernel_attention(version) != 0; }\n' > "$work/kernel.c"
"$cc" -std=c89 $flags "$work/kernel.c"
if grep -nE '(^|[^:])//' "$source/include/trl/trl.h" "$source/include/trl/kernel.h" "$source/include/trl/serve.h"; then echo "a // comment"; exit 1; fi
[ "$(grep -h '^#include' "$source/include/trl/trl.h" | sort | tr -d '\n')" = '#include <stddef.h>#include <stdint.h>' ]
[ "$(grep -h '^#include' "$source/include/trl/kernel.h")" = '#include <stdint.h>' ]
[ "$(grep -h '^#include' "$source/include/trl/serve.h")" = '#include <trl/trl.h>' ]
echo "$modes language modes, $cpp_modes of the classes of C++"
