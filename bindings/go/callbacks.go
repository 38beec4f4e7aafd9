package trl

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"io"
	"runtime/cgo"
)

// answer runs a function of the host for the call that this thread is in. An error that it returns and a panic end that
// call and come out of it; until then no other function of the host runs in it.
func answer(user C.uintptr_t, run func(host any) (int32, error)) C.int32_t {
	current := C.trlgo_current()
	if current == 0 {
		return C.int32_t(ECallback)
	}
	c := cgo.Handle(current).Value().(*call)
	if c.context != nil && !c.failed {
		if err := c.context.Err(); err != nil {
			c.fail(err)
		}
	}
	host := c.hostOf(cgo.Handle(user).Value())
	if c.failed || host == nil {
		return C.int32_t(ECallback)
	}
	left := true
	defer func() {
		if left { // the frames of the library cannot be left so: its locks would stay locked
			panic("trl: a function of the host must not call runtime.Goexit (t.FailNow and t.Fatal do); return an error")
		}
	}()
	number := c.protect(func() (int32, error) { return run(host) })
	left = false
	return C.int32_t(number)
}

// hostOf finds the function that user_data stands for: of one call, or one that an object keeps.
func (c *call) hostOf(user any) any {
	if own, ok := user.(*call); ok {
		return own.host
	}
	for ; c != nil; c = c.outer {
		for _, object := range c.objects {
			if function := object.find(user.(*slot)); function != nil {
				return function
			}
		}
	}
	return nil
}

func (c *call) protect(run func() (int32, error)) (number int32) {
	returned := false
	defer func() {
		if value := recover(); !returned {
			c.failed, c.panicked, c.value = true, true, value
			number = int32(ECallback)
		}
	}()
	number, err := run()
	if err != nil {
		c.fail(err)
		number = int32(ECallback)
	}
	returned = true
	return number
}

// stops makes a number of what a function of the host returned: with ErrStop the answer for it.
func stops(err error, stop int32) (int32, error) {
	if errors.Is(err, ErrStop) {
		return stop, nil
	}
	return 0, err
}

//export trlgoForget
func trlgoForget(user C.uintptr_t) {
	kept := cgo.Handle(user)
	kept.Value().(*slot).gone.Store(true)
	kept.Delete()
}

//export trlgoLog
func trlgoLog(user C.uintptr_t, level C.int32_t, component, text *C.char, size C.size_t) {
	answer(user, func(host any) (int32, error) {
		host.(LogFunc)(LogLevel(level), C.GoString(component), textAt(text, size))
		return 0, nil
	})
}

//export trlgoProgress
func trlgoProgress(user C.uintptr_t, phase *C.char, done, total C.int64_t) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		return stops(host.(ProgressFunc)(C.GoString(phase), int64(done), int64(total)), int32(ProgressStop))
	})
}

//export trlgoNext
func trlgoNext(user C.uintptr_t, pointer *C.trl_record) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		record := &Record{pointer}
		defer func() { record.pointer = nil }()
		err := host.(Rows).Next(record)
		if err == io.EOF {
			return int32(End), nil
		}
		return int32(OK), err
	})
}

//export trlgoRewind
func trlgoRewind(user C.uintptr_t) C.int32_t {
	return answer(user, func(host any) (int32, error) { return 0, host.(Rows).Rewind() })
}

//export trlgoBatch
func trlgoBatch(user C.uintptr_t, text *C.char, size C.size_t) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		return stops(host.(func(json.RawMessage) error)(json.RawMessage(textAt(text, size))), 1)
	})
}

//export trlgoEvent
func trlgoEvent(user C.uintptr_t, kind C.int32_t, metrics *C.trl_metrics) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		event := &Event{Kind: EventKind(kind), Metrics: metricsOf(metrics), pointer: metrics}
		defer func() { event.pointer = nil }()
		number, err := host.(EventFunc)(event)
		return int32(number), err
	})
}

//export trlgoRollout
func trlgoRollout(user C.uintptr_t, pointer *C.trl_rollout) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		rollout, later := &Rollout{pointer: pointer}, false
		defer func() {
			if !later {
				rollout.end()
			}
		}()
		err := host.(RolloutFunc)(rollout)
		if err == Later {
			later = true
			return int32(Later), nil
		}
		return int32(OK), err
	})
}

//export trlgoToken
func trlgoToken(user C.uintptr_t, completion C.size_t, token C.int32_t, text *C.char, size C.size_t) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		return stops(host.(TokenFunc)(int(completion), int32(token), textAt(text, size)), 1)
	})
}
