package trl

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"unsafe"
)

// Metrics are numbers under TRL's names.
type Metrics map[string]float64

func metricsOf(pointer *C.trl_metrics) Metrics {
	found := Metrics{}
	for name := C.trl_metrics_next(pointer, nil); name != nil; name = C.trl_metrics_next(pointer, name) {
		var value C.double
		C.trl_metrics_get(pointer, name, &value)
		found[C.GoString(name)] = float64(value)
	}
	return found
}

// Event is what happens in a run.
type Event struct {
	Kind    EventKind
	Metrics Metrics
	pointer *C.trl_metrics
}

// Text returns a text, such as the path of a save, while the function that got the event runs; false: there is none.
func (e *Event) Text(name string) (string, bool) {
	if e.pointer == nil {
		return "", false
	}
	var call call
	var text *C.char
	copied := call.text(name)
	call.do(func(errorOut) C.trl_status {
		text = C.trl_metrics_text(e.pointer, copied)
		return C.TRL_OK
	})
	return C.GoString(text), text != nil
}

// EventFunc gets the events of a run. It returns 0, or EventStop, EventSave and EventEvaluate, combined by |; an error
// ends the call.
type EventFunc func(event *Event) (Answer, error)

// RolloutFunc answers what a trainer asks about the rows of a rollout. With Later another goroutine does so, and calls
// Finish.
type RolloutFunc func(rollout *Rollout) error

// Rollout has rows that a trainer asks the host about; it is valid until the function returns, or until Finish.
type Rollout struct {
	mutex   sync.RWMutex
	pointer *C.trl_rollout
}

func (r *Rollout) end() {
	r.mutex.Lock()
	r.pointer = nil
	r.mutex.Unlock()
}

func (r *Rollout) do(call *call, function func(e errorOut) C.trl_status) error {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	_, err := call.do(function)
	return err
}

// Count returns how many rows there are.
func (r *Rollout) Count() int {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return int(C.trl_rollout_count(r.pointer))
}

// Row describes a row, as a JSON object.
func (r *Rollout) Row(index int) (json.RawMessage, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status {
		return C.trl_rollout_get(r.pointer, C.size_t(index), out, e)
	})
}

// SetReward sets the reward of a row; math.NaN(): the function does not score this completion.
func (r *Rollout) SetReward(index int, reward float64) error {
	return r.do(new(call), func(e errorOut) C.trl_status {
		return C.trl_rollout_set_reward(r.pointer, C.size_t(index), C.double(reward), e)
	})
}

// Written is a completion that the host has written.
type Written struct {
	Tokens   []int32
	LogProbs []float32      // of each token, math.NaN(): not known; nil: of none
	ByModel  []bool         // of each token, false: the model did not write it; nil: it wrote all
	Columns  map[string]any // that are added to the row for its rewards; nil: none
}

// SetCompletion sets the completion of a row.
func (r *Rollout) SetCompletion(index int, completion Written) error {
	count := len(completion.Tokens)
	if completion.LogProbs != nil && len(completion.LogProbs) != count || completion.ByModel != nil && len(completion.ByModel) != count {
		return &Error{Status: EInvalidArgument, Message: "LogProbs and ByModel have one value for each of the Tokens"}
	}
	var call call
	var logProbs *C.float
	var written *C.uint8_t
	var columns *C.char
	if completion.Columns != nil {
		columns = call.json(completion.Columns)
	}
	if count > 0 && completion.LogProbs != nil {
		logProbs = (*C.float)(unsafe.Pointer(&completion.LogProbs[0]))
	}
	if count > 0 && completion.ByModel != nil {
		flags := make([]C.uint8_t, count)
		for i, own := range completion.ByModel {
			if own {
				flags[i] = 1
			}
		}
		written = &flags[0]
	}
	ids, size := numbers(completion.Tokens)
	return r.do(&call, func(e errorOut) C.trl_status {
		return C.trl_rollout_set_completion(r.pointer, C.size_t(index), ids, size, logProbs, written, columns, e)
	})
}

// SetValue sets a named value of a row, which is written as JSON.
func (r *Rollout) SetValue(index int, name string, value any) error {
	var call call
	column, data := call.text(name), call.json(value)
	return r.do(&call, func(e errorOut) C.trl_status {
		return C.trl_rollout_set_value(r.pointer, C.size_t(index), column, data, e)
	})
}

// Log adds a value to the metrics of the step.
func (r *Rollout) Log(name string, value float64) error {
	var call call
	metric := call.text(name)
	return r.do(&call, func(e errorOut) C.trl_status { return C.trl_rollout_log(r.pointer, metric, C.double(value), e) })
}

// Finish ends a rollout whose function returned Later, from any goroutine; failure is why it failed, or nil.
func (r *Rollout) Finish(failure error) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var call call
	var message *C.char
	if failure != nil {
		message = call.text(failure.Error())
	}
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_rollout_finish(r.pointer, message, e) })
	if err == nil {
		r.pointer = nil
	}
	return err
}

// errBusy refuses a call that would end what another one is copying.
var errBusy = &Error{Status: EBusy, Message: "another call of this object runs"}

// Trainer is a run of the method that its configuration names. It is made by NewTrainer.
type Trainer struct {
	*object
	borrows sync.Mutex // held while metrics, which the library lends until the next step or evaluation, are copied
}

func (t *Trainer) pointer() *C.trl_trainer { return (*C.trl_trainer)(t.raw()) }

// NewTrainer reads the rows, opens the model and checks everything; evaluation may be nil. Closing a trainer ends the call
// that runs on it.
func NewTrainer(runtime *Runtime, config Options, train, evaluation *Dataset) (*Trainer, error) {
	made, call := &Trainer{object: new(object)}, new(call)
	keys := call.options(config)
	err := call.create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_trainer_create(runtime.pointer(), keys, train.pointer(), evaluation.pointer(),
			(**C.trl_trainer)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_trainer_destroy((*C.trl_trainer)(pointer)) },
		runtime.base(), train.base(), evaluation.base())
	if err != nil {
		return nil, err
	}
	made.handle.interrupt = cancelTrainer
	return made, nil
}

func cancelTrainer(pointer unsafe.Pointer) { C.trl_trainer_cancel((*C.trl_trainer)(pointer)) }

// run makes a call that the context cancels. A request to cancel that came when the call was over would end the next one:
// a short one takes it.
func (t *Trainer) run(c *call, function func(e errorOut) C.trl_status, objects ...*object) (Status, error) {
	if err := cancelledBefore(c.context); err != nil {
		return ECancelled, err
	}
	if !t.borrows.TryLock() {
		return EBusy, errBusy
	}
	defer t.borrows.Unlock()
	if c.context.Done() != nil {
		over, asked := make(chan struct{}), make(chan bool)
		go func() {
			select {
			case <-c.context.Done():
				t.Cancel()
				asked <- true
			case <-over:
				asked <- false
			}
		}()
		defer func() {
			close(over)
			if <-asked {
				t.takeCancel()
			}
		}()
	}
	return c.do(function, append(objects, t.object)...)
}

func (t *Trainer) takeCancel() {
	if model, err := t.Model(); err == nil {
		defer model.Close()
		model.Tensors()
	}
}

// measure makes a call that gives metrics; io.EOF: nothing is left.
func (t *Trainer) measure(ctx context.Context, function func(out **C.trl_metrics, e errorOut) C.trl_status,
	objects ...*object) (metrics Metrics, err error) {
	var out *C.trl_metrics
	status, err := t.run(&call{context: ctx}, func(e errorOut) C.trl_status {
		status := function(&out, e)
		if status >= C.TRL_OK && status != C.TRL_END {
			metrics = metricsOf(out)
		}
		return status
	}, objects...)
	if err == nil && status == End {
		err = io.EOF
	}
	return metrics, err
}

// Train trains to the end, or until onEvent, which may be nil, answers EventStop; false: the run was complete before.
// A context that is done ends it as Cancel does.
func (t *Trainer) Train(ctx context.Context, onEvent EventFunc) (bool, error) {
	call := &call{context: ctx}
	if onEvent != nil {
		call.host = onEvent
	}
	status, err := t.run(call, func(e errorOut) C.trl_status { return C.trlgo_trainer_train(t.pointer(), call.user(), e) })
	return err == nil && status != End, err
}

// Step does one optimizer step; io.EOF: nothing is left.
func (t *Trainer) Step(ctx context.Context) (Metrics, error) {
	return t.measure(ctx, func(out **C.trl_metrics, e errorOut) C.trl_status { return C.trl_trainer_step(t.pointer(), out, e) })
}

// Backward does the first half of a step: gradients can be read before Update does the second one. io.EOF: nothing is left.
func (t *Trainer) Backward(ctx context.Context) (Metrics, error) {
	return t.measure(ctx, func(out **C.trl_metrics, e errorOut) C.trl_status { return C.trl_trainer_backward(t.pointer(), out, e) })
}

// Update does the second half of a step that Backward has begun. With apply false the step counts, but weights stay.
func (t *Trainer) Update(ctx context.Context, apply bool) (Metrics, error) {
	return t.measure(ctx, func(out **C.trl_metrics, e errorOut) C.trl_status {
		return C.trl_trainer_update(t.pointer(), flag(apply), out, e)
	})
}

// SetLearningRate sets the learning rate of the next steps, in place of the schedule's; math.NaN(): the schedule's again.
// Any goroutine may call it, also within a function of the host.
func (t *Trainer) SetLearningRate(rate float64) error {
	_, err := new(call).do(func(e errorOut) C.trl_status {
		return C.trl_trainer_set_learning_rate(t.pointer(), C.double(rate), e)
	}, t.object)
	return err
}

// Evaluate evaluates on the evaluation rows (nil), or on others.
func (t *Trainer) Evaluate(ctx context.Context, rows *Dataset) (Metrics, error) {
	return t.measure(ctx, func(out **C.trl_metrics, e errorOut) C.trl_status {
		return C.trl_trainer_evaluate(t.pointer(), rows.pointer(), out, e)
	}, rows.base())
}

// Save saves the model, or what save.kind says; "": into output_dir.
func (t *Trainer) Save(path string, options Options) error {
	var call call
	folder, config := call.optional(path), call.options(options)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_trainer_save(t.pointer(), folder, config, e) }, t.object)
	return err
}

// AddReward adds a function that sets a reward for each row of a rollout.
func (t *Trainer) AddReward(name string, function RolloutFunc) error {
	var call call
	metric := call.text(name)
	_, err := call.do(func(e errorOut) C.trl_status {
		return C.trlgo_trainer_add_reward(t.pointer(), metric, t.keep(function), e)
	}, t.object)
	return err
}

// SetRollout has a function write the completions of a rollout.
func (t *Trainer) SetRollout(function RolloutFunc) error {
	return t.register(function, func(host C.uintptr_t, e errorOut) C.trl_status {
		return C.trlgo_trainer_set_rollout(t.pointer(), host, e)
	})
}

// SetTools has a function answer the tools that completions call.
func (t *Trainer) SetTools(function RolloutFunc) error {
	return t.register(function, func(host C.uintptr_t, e errorOut) C.trl_status {
		return C.trlgo_trainer_set_tools(t.pointer(), host, e)
	})
}

// Cancel ends the call that runs on this trainer, or else the next one, with ECancelled; from any goroutine.
func (t *Trainer) Cancel() { t.signal(cancelTrainer) }

// Pause holds the call that runs on this trainer, or else the next one, until Resume; from any goroutine.
func (t *Trainer) Pause() {
	t.signal(func(pointer unsafe.Pointer) { C.trl_trainer_pause((*C.trl_trainer)(pointer)) })
}

// Resume ends a pause.
func (t *Trainer) Resume() {
	t.signal(func(pointer unsafe.Pointer) { C.trl_trainer_resume((*C.trl_trainer)(pointer)) })
}

// Describe returns the state of the training, as in trainer_state.json, after the last step that is done. Any goroutine may
// call it, also while another one trains, and within a function of the host.
func (t *Trainer) Describe() (json.RawMessage, error) {
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_trainer_describe(t.pointer(), out, e) },
		t.object)
}

// Integers returns integers of the run by a name: global_step, eos_token_ids and others of trl_trainer_get_integers. Any
// goroutine may call it, as Describe.
func (t *Trainer) Integers(name string) ([]int64, error) {
	var call call
	key := call.text(name)
	var found []int64
	_, err := call.do(func(e errorOut) C.trl_status {
		for {
			var values *C.int64_t
			var count C.size_t
			if len(found) > 0 {
				values = (*C.int64_t)(unsafe.Pointer(&found[0]))
			}
			status := C.trl_trainer_get_integers(t.pointer(), key, values, C.size_t(len(found)), &count, e)
			if status < C.TRL_OK || int(count) <= len(found) {
				found = found[:count]
				return status
			}
			found = make([]int64, count)
		}
	}, t.object)
	return found, err
}

// Plan tells the memory, time and disk that a trainer of this configuration needs: as JSON, and as text. train may be nil.
func Plan(runtime *Runtime, config Options, train *Dataset) (numbers json.RawMessage, text string, err error) {
	if runtime == nil { // it owns the texts until they are copied
		if runtime, err = NewRuntime(nil); err != nil {
			return nil, "", err
		}
		defer runtime.Close()
	}
	var call call
	var object, lines *C.char
	keys := call.options(config)
	_, err = call.do(func(e errorOut) C.trl_status {
		status := C.trl_trainer_plan(runtime.pointer(), keys, train.pointer(), &object, &lines, e)
		numbers, text = json.RawMessage(C.GoString(object)), C.GoString(lines)
		return status
	}, runtime.base(), train.base())
	if err != nil {
		return nil, "", err
	}
	return numbers, text, nil
}

// Check checks a run as NewTrainer does before it reads rows and weights, and creates nothing.
func Check(runtime *Runtime, config Options) error {
	var call call
	keys := call.options(config)
	_, err := call.do(func(e errorOut) C.trl_status { return C.trl_trainer_check(runtime.pointer(), keys, e) }, runtime.base())
	return err
}

// Evaluator is a model that is measured on rows, without a run. It is made by NewEvaluator.
type Evaluator struct {
	*object
	borrows sync.Mutex
}

func (v *Evaluator) pointer() *C.trl_evaluator { return (*C.trl_evaluator)(v.raw()) }

// NewEvaluator opens the model that a configuration names.
func NewEvaluator(runtime *Runtime, config Options) (*Evaluator, error) {
	made, call := &Evaluator{object: new(object)}, new(call)
	keys := call.options(config)
	err := call.create(made.object, func(out *unsafe.Pointer, e errorOut) C.trl_status {
		return C.trl_evaluator_create(runtime.pointer(), keys, (**C.trl_evaluator)(unsafe.Pointer(out)), e)
	}, func(pointer unsafe.Pointer) { C.trl_evaluator_destroy((*C.trl_evaluator)(pointer)) }, runtime.base())
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Evaluate returns the numbers of an evaluation within a run, under the same names.
func (v *Evaluator) Evaluate(rows *Dataset) (metrics Metrics, err error) {
	if !v.borrows.TryLock() {
		return nil, errBusy
	}
	defer v.borrows.Unlock()
	var out *C.trl_metrics
	_, err = new(call).do(func(e errorOut) C.trl_status {
		status := C.trl_evaluator_evaluate(v.pointer(), rows.pointer(), &out, e)
		if status >= C.TRL_OK {
			metrics = metricsOf(out)
		}
		return status
	}, v.object, rows.base())
	return metrics, err
}

// Complete completes sample_prompts; the result is JSON.
func (v *Evaluator) Complete() (json.RawMessage, error) {
	if !v.borrows.TryLock() {
		return nil, errBusy
	}
	defer v.borrows.Unlock()
	return new(call).askJSON(func(out **C.char, e errorOut) C.trl_status { return C.trl_evaluator_complete(v.pointer(), out, e) },
		v.object)
}
