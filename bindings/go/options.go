package trl

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"strings"
	"unsafe"
)

// Version returns the version of the library.
func Version() string { return C.GoString(C.trl_version_string()) }

// VersionNumber returns the version of the library: (major << 16) | (minor << 8) | patch.
func VersionNumber() uint32 { return uint32(C.trl_version()) }

// BuildInfo tells how the library was built, as a JSON object.
func BuildInfo() json.RawMessage { return json.RawMessage(C.GoString(C.trl_build_info())) }

// HasFeature tells whether this build has a feature of the list `features` of BuildInfo.
func HasFeature(name string) bool {
	if strings.IndexByte(name, 0) >= 0 {
		return false
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return C.trl_has_feature(text) == 1
}

// Option is a key of a configuration, as the library describes it.
type Option struct{ pointer *C.trl_option }

// AllOptions returns every option.
func AllOptions() []Option {
	var found []Option
	for option := C.trl_option_next(nil); option != nil; option = C.trl_option_next(option) {
		found = append(found, Option{option})
	}
	return found
}

func listed(text *C.char) []string {
	if *text == 0 {
		return nil
	}
	parts := strings.Split(C.GoString(text), ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// named copies the name of a trainer, or gives NULL for "". The result is freed by C.free.
func named(trainer string) *C.char {
	if trainer == "" {
		return nil
	}
	return C.CString(trainer)
}

func (o Option) ofTrainer(trainer string, ask func(*C.trl_option, *C.char) *C.char) (string, bool) {
	if strings.IndexByte(trainer, 0) >= 0 {
		return "", false
	}
	name := named(trainer)
	defer C.free(unsafe.Pointer(name))
	text := ask(o.pointer, name)
	return C.GoString(text), text != nil
}

// Name returns the key.
func (o Option) Name() string { return C.GoString(C.trl_option_name(o.pointer)) }

// Section returns TRL's class or a group of libtrl.
func (o Option) Section() string { return C.GoString(C.trl_option_section(o.pointer)) }

// Group returns the topic within the section.
func (o Option) Group() string { return C.GoString(C.trl_option_group(o.pointer)) }

// Origin returns "trl" or "ours".
func (o Option) Origin() string { return C.GoString(C.trl_option_origin(o.pointer)) }

// Type returns the type of the value in one trainer, or with "" in the table; false: that trainer lacks the option.
func (o Option) Type(trainer string) (OptionType, bool) {
	if strings.IndexByte(trainer, 0) >= 0 {
		return -1, false
	}
	name := named(trainer)
	defer C.free(unsafe.Pointer(name))
	kind := C.trl_option_type(o.pointer, name)
	return OptionType(kind), kind >= 0
}

// Nullable tells whether "null" is a value.
func (o Option) Nullable() bool { return C.trl_option_nullable(o.pointer) == 1 }

// Default returns the default as canonical text, in one trainer or with "" in the table; false: that trainer lacks the
// option.
func (o Option) Default(trainer string) (string, bool) {
	return o.ofTrainer(trainer, func(option *C.trl_option, name *C.char) *C.char { return C.trl_option_default(option, name) })
}

// Accepted returns a range such as "> 0", "a|b|c" for a choice, or "" for any value, of a trainer as Default does.
func (o Option) Accepted(trainer string) (string, bool) {
	return o.ofTrainer(trainer, func(option *C.trl_option, name *C.char) *C.char { return C.trl_option_accepted(option, name) })
}

// Doc returns the meaning, in a sentence or two, of a trainer as Default does.
func (o Option) Doc(trainer string) (string, bool) {
	return o.ofTrainer(trainer, func(option *C.trl_option, name *C.char) *C.char { return C.trl_option_doc(option, name) })
}

// Trainers returns the trainers that have the option.
func (o Option) Trainers() []string { return listed(C.trl_option_trainers(o.pointer)) }

// Aliases returns older names, which are understood.
func (o Option) Aliases() []string { return listed(C.trl_option_aliases(o.pointer)) }

// OtherNames returns names that other tools have for it, which are not accepted.
func (o Option) OtherNames() []string { return listed(C.trl_option_other_names(o.pointer)) }

// Since returns the first version that has the option.
func (o Option) Since() string { return C.GoString(C.trl_option_since(o.pointer)) }

// UnsupportedReason tells why other values than the default are refused, or "".
func (o Option) UnsupportedReason() string {
	return C.GoString(C.trl_option_unsupported_reason(o.pointer))
}

// IgnoredReason tells which effect the option lacks, or "".
func (o Option) IgnoredReason() string { return C.GoString(C.trl_option_ignored_reason(o.pointer)) }

// Taken returns the values besides the default that are neither refused nor ignored.
func (o Option) Taken() string { return C.GoString(C.trl_option_taken(o.pointer)) }
