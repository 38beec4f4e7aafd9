# Sourced: header_functions FILE prints the names of the functions that a header declares, sorted.
header_functions() {
  tr '\n' ' ' < "$1" | sed 's@/\*\([^*]\|\*[^/]\)*\*/@ @g' | grep -o 'TRL_API [^;]*;' | grep -o 'trl_[a-z0-9_]*(' | tr -d '(' | sort
}
