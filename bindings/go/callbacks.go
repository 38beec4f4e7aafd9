package trl

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"runtime/cgo"
	"unsafe"
)

// answer runs a function of the host for the call that this thread is in. An error that it returns and a panic end that
// call and come out of it; until then no other function of the host runs in it.
func answer(user C.uintptr_t, run func(host any) (int32, error)) C.int32_t {
	return C.int32_t(reply(user, false, func(host any) (int64, error) {
		number, err := run(host)
		return int64(number), err
	}))
}

// reply is answer for a larger number; always: the function also runs in a call that was ended.
func reply(user C.uintptr_t, always bool, run func(host any) (int64, error)) int64 {
	current := C.trlgo_current()
	if current == 0 {
		return int64(ECallback)
	}
	c := cgo.Handle(current).Value().(*call)
	if c.context != nil {
		if err := c.context.Err(); err != nil {
			c.fail(err)
		}
	}
	host := c.hostOf(cgo.Handle(user).Value())
	if c.failed && !always || host == nil {
		return int64(ECallback)
	}
	left := true
	defer func() {
		if left { // the frames of the library cannot be left so: its locks would stay locked
			panic("trl: a function of the host must not call runtime.Goexit (t.FailNow and t.Fatal do); return an error")
		}
	}()
	number := c.protect(func() (int64, error) { return run(host) })
	left = false
	return number
}

// hostOf finds the function that user_data stands for: of one call, of a mount, or one that an object keeps.
func (c *call) hostOf(user any) any {
	if own, ok := user.(*call); ok {
		return own.host
	}
	if mounted := user.(*slot).mounted; mounted != nil {
		return mounted
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

func (c *call) protect(run func() (int64, error)) (number int64) {
	returned := false
	defer func() {
		if value := recover(); !returned {
			if !c.failed {
				c.failed, c.panicked, c.value = true, true, value
			}
			number = int64(ECallback)
		}
	}()
	number, err := run()
	if err != nil {
		c.fail(err)
		number = int64(ECallback)
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

//export trlgoRead
func trlgoRead(user C.uintptr_t, file *C.char, offset C.uint64_t, buffer unsafe.Pointer, size C.size_t) C.int64_t {
	return C.int64_t(reply(user, false, func(host any) (int64, error) {
		var into []byte
		if buffer != nil {
			into = unsafe.Slice((*byte)(buffer), int(size))
		}
		count, err := host.(*mounted).read(C.GoString(file), int64(offset), into)
		if errors.Is(err, fs.ErrNotExist) {
			return int64(ENotFound), nil
		}
		if err == io.EOF {
			err = nil
		}
		return count, err
	}))
}

//export trlgoWrite
func trlgoWrite(user C.uintptr_t, what C.int32_t, file *C.char, offset C.uint64_t, data unsafe.Pointer, size C.size_t) C.int32_t {
	return C.int32_t(reply(user, WriteKind(what) == WriteDropped, func(host any) (int64, error) {
		piece := unsafe.Slice((*byte)(data), int(size))
		return 0, host.(*mounted).write(WriteKind(what), C.GoString(file), int64(offset), piece)
	}))
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
		return answerRollout(host.(RolloutFunc), pointer)
	})
}

//export trlgoReward
func trlgoReward(user C.uintptr_t, pointer *C.trl_rollout) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		number, err := answerRollout(host.(RolloutFunc), pointer)
		if err == nil {
			return number, nil
		}
		// The library is told why, and decides whether that ends the call.
		if (&Rollout{pointer: pointer}).Finish(err) != nil {
			return number, err
		}
		current := cgo.Handle(C.trlgo_current()).Value().(*call)
		if current.reward == nil {
			current.reward = err
		}
		return int32(Later), nil
	})
}

func answerRollout(function RolloutFunc, pointer *C.trl_rollout) (int32, error) {
	rollout, later := &Rollout{pointer: pointer}, false
	defer func() {
		if !later {
			rollout.end()
		}
	}()
	err := function(rollout)
	if err == Later {
		later = true
		return int32(Later), nil
	}
	return int32(OK), err
}

//export trlgoToken
func trlgoToken(user C.uintptr_t, completion C.size_t, id C.int32_t, text *C.char, size C.size_t, logProb C.double) C.int32_t {
	return answer(user, func(host any) (int32, error) {
		return stops(host.(TokenFunc)(int(completion), Token{int32(id), textAt(text, size), float64(logProb)}), 1)
	})
}
