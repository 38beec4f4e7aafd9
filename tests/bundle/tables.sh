#!/usr/bin/env bash
# tables.sh TOOL: the tables of a copy are smaller, and each name is still found where it was: two small libraries, one of
# which has every kind of symbol.
set -euo pipefail
tool=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p before after/trl

cat > first.c <<'END'
#include <stdlib.h>
int first_private(int x) { return x + 1; }
int first_public(int x) { return 2 * first_private(x); }
int first_asked(void) { return 5; }
int first_number = 7;
int* first_pointer = &first_number;
__thread int first_thread = 11;
int __attribute__((weak)) both(void) { return 1; }
int first_both(void) { return both(); }
static int chosen(void) { return 13; }
static void* choose(void) { return chosen; }
int first_chosen(void) __attribute__((ifunc("choose")));
int (*first_table[400])(void) = {[0 ... 396] = first_asked, both, first_chosen, 0};
char first_bytes[] = "bytes";
struct __attribute__((packed)) { char skip; char* odd; } first_odd = {1, first_bytes};
__asm__(".symver first_old, first_versioned@ONE\n.symver first_new, first_versioned@@TWO");
int first_old(void) { return 17; }
int first_new(void) { return 19; }
static int began;
__attribute__((constructor)) static void begin(void) { began = 23; }
int first_sum(void) {
  int sum = *first_pointer + first_thread + first_chosen() + began + (first_odd.odd == first_bytes) + atoi("100");
  for (int i = 0; first_table[i]; ++i) sum += first_table[i]();
  return sum;
}
END
{ for i in $(seq 2000); do echo "int first_unused_$i(void) { return $i; }"; done; } >> first.c
cat > second.c <<'END'
int both(void) { return 3; }
END
cat > root.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
int first_public(int), first_sum(void), first_both(void), first_versioned(void), both(void);
extern __thread int first_thread;
void root(const char* name) {
  int (*asked)(void) = (int (*)(void))dlsym(dlopen(name, RTLD_NOW | RTLD_NOLOAD), "first_asked");
  printf("%d %d %d %d %d %d %d\n", first_public(1), first_sum(), first_both(), both(), first_versioned(), ++first_thread, asked());
}
END
cat > program.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** arguments) {
  void* root = count == 3 ? dlopen(arguments[1], RTLD_NOW) : 0;
  if (!root) return puts(dlerror()), 1;
  ((void (*)(const char*))dlsym(root, "root"))(arguments[2]);
  return 0;
}
END
echo 'ONE { global: *; }; TWO { global: first_versioned; } ONE;' > first.map
cc -shared -fPIC first.c -o before/libfirst.so.1 -Wl,-soname,libfirst.so.1 -Wl,--version-script=first.map -Wl,-z,now
cc -shared -fPIC second.c -o before/libsecond.so.1 -Wl,-soname,libsecond.so.1
cc -shared -fPIC root.c -o before/libroot.so before/libsecond.so.1 before/libfirst.so.1 -Wl,-rpath,'$ORIGIN:$ORIGIN/trl'
cc program.c -o program

request() {  # FILE: the second line names what is looked up as the program runs
  printf 'system\tlibc.so.6\nsystem\tld-linux-x86-64.so.2\nsystem\tld-linux-aarch64.so.1\nasked\t%s\n' first_asked
  printf 'root\t%s\t%s\n' "$PWD/before/libroot.so" "$PWD/after/libroot.so"
  ldd before/libroot.so | sed -nE 's/^[[:space:]]*([^ ]*) => ([^ ]*) .*/loaded\t\1\t\2/p; s/^[[:space:]]*(\/[^ ]*\/([^ ]*)) .*/loaded\t\2\t\1/p'
}
request > request.txt
"$tool" request.txt after/trl .
./program before/libroot.so libfirst.so.1 > said.before
first=$(cd after/trl && echo ???first.so.1)
[[ $first =~ ^[0-9a-z]{3}first && $first != libfirst* ]] || { ls after/trl; exit 1; }
./program "$PWD/after/libroot.so" "$first" > said.after
cat said.after
cmp said.before said.after
LD_BIND_NOW=1 ldd -r after/libroot.so > ldd.said 2>&1
if grep -E 'undefined|not found' ldd.said; then exit 1; fi

names() { readelf --dyn-syms -W "$1" | awk '$7 != "UND" && NR > 3 { print $8 }' | sed 's/@.*//' | sort -u; }
names "after/trl/$first" > kept
for name in first_public first_asked first_thread both first_versioned first_chosen; do
  grep -qx "$name" kept || { echo "$name is gone"; exit 1; }
done
if grep -xE 'first_(private|unused_1|number|table|old)' kept; then echo "nothing asks for these"; exit 1; fi
readelf -dW "after/trl/$first" | grep -q '(RELR)'
readelf -VW "after/trl/$first" | grep -q GLIBC_ABI_DT_RELR
before=$(stat -c %s before/libfirst.so.1) after=$(stat -c %s "after/trl/$first")
[ "$after" -lt $((before - 60000)) ] || { echo "$before bytes became $after"; exit 1; }
# What tools for such files read agrees with what the dynamic linker read.
readelf -aW "after/trl/$first" > said 2> warned
[ ! -s warned ] || { cat warned; exit 1; }
strip -o stripped "after/trl/$first" && cp stripped "after/trl/$first"
./program "$PWD/after/libroot.so" "$first" | cmp - said.before
