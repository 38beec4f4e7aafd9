// Package trl fine-tunes language models as Hugging Face TRL does, with libtrl.
package trl

/*
#cgo pkg-config: trl
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

type errorOut = **C.trl_error

// handle owns an object of the library. It knows nothing of the functions of the host that the object may call, so that
// its finalizer runs although these hold what they were given to.
type handle struct {
	mutex     sync.Mutex
	pointer   unsafe.Pointer
	destroy   func(unsafe.Pointer)
	interrupt func(unsafe.Pointer) // ends calls that are in progress; may be nil
	users     int
	closed    bool
}

func (h *handle) acquire() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.closed {
		h.users++
	}
	return !h.closed
}

func (h *handle) release() {
	h.mutex.Lock()
	h.users--
	last := h.closed && h.users == 0
	h.mutex.Unlock()
	if last {
		h.destroy(h.pointer)
	}
}

func (h *handle) close() {
	h.mutex.Lock()
	first, busy := !h.closed, h.users > 0
	h.closed = true
	if first && busy && h.interrupt != nil {
		h.interrupt(h.pointer)
	}
	h.mutex.Unlock()
	if first {
		runtime.SetFinalizer(h, nil)
		if !busy {
			h.destroy(h.pointer)
		}
	}
}

// object is what each type of the library has: its handle, what the library keeps alive for it, and the functions of the
// host that it may call.
type object struct {
	handle    *handle
	parents   []*object
	mutex     sync.Mutex
	functions map[*slot]any
}

// slot stands for a function of the host in the library, which owns it until it calls trlgoForget.
type slot struct {
	gone    atomic.Bool
	mounted *mounted // which calls of any object use; else an object keeps the function
}

// Close frees the object, at once or when the calls that use it are over. Objects that were made with it continue to
// work. It always returns nil.
func (o *object) Close() error {
	o.handle.close()
	return nil
}

// raw returns the object's address, or nil for no object.
func (o *object) raw() unsafe.Pointer {
	if o == nil || o.handle == nil {
		return nil
	}
	return o.handle.pointer
}

// keep keeps a function as long as the object lives and the library has it. The result is its user_data.
func (o *object) keep(function any) C.uintptr_t {
	kept := new(slot)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for old := range o.functions {
		if old.gone.Load() {
			delete(o.functions, old)
		}
	}
	if o.functions == nil {
		o.functions = map[*slot]any{}
	}
	o.functions[kept] = function
	return C.uintptr_t(cgo.NewHandle(kept))
}

func (o *object) find(wanted *slot) any {
	if o == nil {
		return nil
	}
	o.mutex.Lock()
	function, parents := o.functions[wanted], o.parents
	o.mutex.Unlock()
	for i := 0; function == nil && i < len(parents); i++ {
		function = parents[i].find(wanted)
	}
	return function
}

// adopt adds what the library keeps alive for the object from now on.
func (o *object) adopt(parents ...*object) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.parents = append(o.parents, parents...)
}

// call is one call of the library, which functions of the host may fail.
type call struct {
	context  context.Context // nil: it is not cancelled
	host     any             // the function of the host of this call alone
	objects  []*object
	outer    *call // within whose function of the host this one is
	self     cgo.Handle
	texts    []unsafe.Pointer
	closers  []*Config
	failed   bool
	panicked bool
	value    any   // of the panic
	failure  error // that a function of the host returned
	reward   error // that a reward returned, whose failure on_reward_error may let pass
}

// fail ends the call with an error, unless it was ended before.
func (c *call) fail(err error) {
	if !c.failed {
		c.failed, c.failure = true, err
	}
}

// text copies a key, a path or another text that ends in NUL.
func (c *call) text(text string) *C.char {
	if strings.IndexByte(text, 0) >= 0 {
		c.fail(&Error{Status: EInvalidArgument, Message: fmt.Sprintf("%q has a NUL byte", text)})
	}
	copied := C.CString(text)
	c.texts = append(c.texts, unsafe.Pointer(copied))
	return copied
}

// optional is text, or NULL for "".
func (c *call) optional(text string) *C.char {
	if text == "" {
		return nil
	}
	return c.text(text)
}

// json copies a value as JSON that ends in NUL.
func (c *call) json(value any) *C.char {
	data, err := json.Marshal(value)
	if err != nil {
		c.fail(err)
	}
	return c.text(string(data))
}

// options makes a configuration of what functions take as options, for this call.
func (c *call) options(options Options) *C.trl_config {
	if options == nil {
		return nil
	}
	config, made, err := options.config()
	if made {
		c.closers = append(c.closers, config)
	}
	if err != nil {
		c.fail(err)
		return nil
	}
	c.objects = append(c.objects, config.base())
	return config.pointer()
}

// do calls a function of the library. What a function of the host raised or returned within the call goes before the
// library's own error.
func (c *call) do(function func(e errorOut) C.trl_status, objects ...*object) (Status, error) {
	defer func() {
		for _, text := range c.texts {
			C.free(text)
		}
		for _, config := range c.closers {
			config.Close()
		}
	}()
	if c.failed {
		return EInvalidArgument, c.failure
	}
	if wrongVersion != nil {
		return wrongVersion.Status, wrongVersion
	}
	c.objects = append(c.objects, objects...)
	defer runtime.KeepAlive(c)
	for _, used := range c.objects {
		if used == nil || used.handle == nil {
			continue
		}
		if !used.handle.acquire() {
			return EInvalidArgument, &Error{Status: EInvalidArgument, Message: "the object is closed", cause: os.ErrClosed}
		}
		defer used.handle.release()
	}
	var failed *C.trl_error
	status := Status(c.enter(func() C.trl_status { return function(&failed) }))
	defer C.trl_error_destroy(failed)
	if status == ECallback && c.reward != nil && C.trl_error_callback_code(failed) == 0 {
		c.fail(c.reward)
	}
	switch {
	case c.failed:
		return ECallback, c.raise(failed)
	case status < 0:
		return status, c.cancelled(errorOf(status, failed))
	}
	return status, nil
}

// enter makes this call the one that the thread is in. Functions of the host find it there: the goroutine stays on its
// thread until the call is over.
func (c *call) enter(function func() C.trl_status) C.trl_status {
	self := cgo.NewHandle(c)
	defer self.Delete()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := C.trlgo_enter(C.uintptr_t(self))
	defer C.trlgo_enter(before)
	if before != 0 {
		c.outer = cgo.Handle(before).Value().(*call)
	}
	c.self = self
	return function()
}

// user is the user_data of the function of this call alone, within the call; 0: there is none.
func (c *call) user() C.uintptr_t {
	if c.host == nil {
		return 0
	}
	return C.uintptr_t(c.self)
}

// create makes an object, whose other parents are those that the library keeps alive for it. It is destroyed at once if a
// function of the host failed meanwhile.
func (c *call) create(made *object, function func(out *unsafe.Pointer, e errorOut) C.trl_status,
	destroy func(unsafe.Pointer), parents ...*object) error {
	var out unsafe.Pointer
	done := false
	defer func() {
		if !done && out != nil {
			destroy(out)
		}
	}()
	made.parents = parents
	_, err := c.do(func(e errorOut) C.trl_status { return function(&out, e) }, append([]*object{made}, parents...)...)
	if err == nil {
		made.own(out, destroy)
		done = true
	}
	return err
}

func (o *object) own(pointer unsafe.Pointer, destroy func(unsafe.Pointer)) {
	o.handle = &handle{pointer: pointer, destroy: destroy}
	runtime.SetFinalizer(o.handle, (*handle).close)
}

// ask returns a copy of the text that a function gives.
func (c *call) ask(function func(out **C.char, e errorOut) C.trl_status, objects ...*object) (string, error) {
	var out *C.char
	var copied string
	_, err := c.do(func(e errorOut) C.trl_status {
		status := function(&out, e)
		copied = C.GoString(out) // while the objects are held
		return status
	}, objects...)
	return copied, err
}

func (c *call) askJSON(function func(out **C.char, e errorOut) C.trl_status, objects ...*object) (json.RawMessage, error) {
	text, err := c.ask(function, objects...)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// chars copies a text that may hold NUL; NULL if it is empty.
func chars(text string) (*C.char, C.size_t) {
	if text == "" {
		return nil, 0
	}
	data := []byte(text)
	return (*C.char)(unsafe.Pointer(&data[0])), C.size_t(len(data))
}

// numbers gives token ids to the library; NULL if there are none.
func numbers(ids []int32) (*C.int32_t, C.size_t) {
	if len(ids) == 0 {
		return nil, 0
	}
	return (*C.int32_t)(unsafe.Pointer(&ids[0])), C.size_t(len(ids))
}

// textAt copies a text of the library.
func textAt(text *C.char, size C.size_t) string {
	if text == nil {
		return ""
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(size))) // C.GoStringN takes 31 bits
}

func flag(set bool) C.int32_t {
	if set {
		return 1
	}
	return 0
}
