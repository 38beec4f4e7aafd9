package trl_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"libtrl/trl"
)

func TestEngineHalvesAreAStep(t *testing.T) {
	whole, halves := newTrainer(t, nil, few, trl.Keys{"max_steps": 2}), newTrainer(t, nil, few, trl.Keys{"max_steps": 2})
	_, err := halves.Update(background, true)
	is(t, err, trl.EInvalidArgument)
	for i := 0; i < 2; i++ {
		want, begun := must(whole.Step(background))(t), must(halves.Backward(background))(t)
		equal(t, begun["loss"], want["loss"])
		_, err = halves.Backward(background)
		is(t, err, trl.EInvalidArgument)
		_, err = halves.Step(background)
		is(t, err, trl.EInvalidArgument)
		equal(t, must(halves.Update(background, true))(t), want)
	}
	_, err = halves.Backward(background)
	equal(t, err, io.EOF)
}

func TestEngineAStepIsLeftOut(t *testing.T) {
	trainer := newTrainer(t, nil, few, nil)
	model := modelOf(t, trainer)
	before := must(model.ReadTensor(matrix, trl.TensorCopy))(t)
	must(trainer.Backward(background))(t)
	equal(t, must(trainer.Update(background, false))(t)["step"], 1.0)
	equal(t, must(model.ReadTensor(matrix, trl.TensorCopy))(t), before)
	must(trainer.Backward(background))(t)
	equal(t, must(trainer.Update(background, true))(t)["step"], 2.0)
	equal(t, equalTensors(must(model.ReadTensor(matrix, trl.TensorCopy))(t), before), false)
}

func TestEngineLearningRates(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"max_steps": 6, "learning_rate": 1e-3})
	check(t, trainer.SetLearningRate(0.25))
	equal(t, must(trainer.Step(background))(t)["learning_rate"], 0.25)
	is(t, trainer.SetLearningRate(-0.5), trl.EInvalidArgument)
	check(t, trainer.SetLearningRate(math.NaN()))
	equal(t, must(trainer.Step(background))(t)["learning_rate"] < 1e-3, true)
	var rates []float64
	must(trainer.Train(background, func(event *trl.Event) (trl.Answer, error) {
		if event.Kind != trl.OnStep {
			return 0, nil
		}
		rates = append(rates, event.Metrics["learning_rate"])
		return 0, trainer.SetLearningRate(event.Metrics["step"] / 1000)
	}))(t)
	equal(t, rates[1:], []float64{0.003, 0.004, 0.005})
}

func TestEngineOtherRowsAreEvaluated(t *testing.T) {
	runtime := must(trl.NewRuntime(nil))(t)
	trainer := newTrainer(t, runtime, few, nil)
	_, err := trainer.Evaluate(background, nil)
	is(t, err, trl.EInvalidArgument)
	state := must(trainer.Describe())(t)
	others := must(trl.NewDataset(nil, trl.SliceRows(few[:2]), nil))(t)
	equal(t, must(trainer.Evaluate(background, others))(t)["eval_loss"] > 0, true)
	equal(t, string(must(trainer.Describe())(t)), string(state))
	oops := errors.New("in the other rows")
	failing := must(trl.NewDataset(nil, given{next: func(*trl.Record) error { return oops }}, nil))(t)
	_, err = trainer.Evaluate(background, failing)
	is(t, err, oops)
}

func TestEngineIntegers(t *testing.T) {
	trainer := newTrainer(t, nil, few, nil)
	equal(t, must(trainer.Integers("max_steps"))(t), []int64{4})
	equal(t, must(trainer.Integers("global_step"))(t), []int64{0})
	equal(t, len(must(trainer.Integers("eos_token_ids"))(t)) > 0, true)
	_, err := trainer.Integers("no such")
	is(t, err, trl.ENotFound)
}

// The state is told beside a call that trains and within it, and generators take turns with its steps.
func TestEngineBesideTraining(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"max_steps": 60})
	generator := generatorOf(t, trainer)
	over, failed := make(chan struct{}), make(chan error, 2)
	go func() {
		last := 0.0
		for {
			select {
			case <-over:
				failed <- nil
				return
			default:
			}
			text, err := trainer.Describe()
			steps, other := trainer.Integers("global_step")
			if err == nil && other == nil {
				now := unpack(t, text)["global_step"].(float64)
				if now < last || float64(steps[0]) < now {
					err = fmt.Errorf("step %v, and %v after %v", steps[0], now, last)
				}
				last = now
			}
			if err == nil {
				err = other
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	go func() {
		_, err := generator.Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 3}, nil)
		failed <- err
	}()
	must(trainer.Train(background, func(event *trl.Event) (trl.Answer, error) {
		text, err := trainer.Describe()
		if err == nil && unpack(t, text)["global_step"] != event.Metrics["step"] {
			err = fmt.Errorf("the event of step %v has the state %s", event.Metrics["step"], text)
		}
		made, other := trainer.Model()
		if err == nil {
			err = other
		}
		if err == nil {
			_, busy := made.Tensors()
			if !errors.Is(busy, trl.EBusy) {
				err = fmt.Errorf("the error is %v", busy)
			}
			made.Close()
		}
		return 0, err
	}))(t)
	close(over)
	check(t, <-failed)
	check(t, <-failed)
}
