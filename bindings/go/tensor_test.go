package trl_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"libtrl/trl"
)

const matrix = "model.layers.0.mlp.down_proj.weight"

func equalTensors(a, b *trl.Tensor) bool { return reflect.DeepEqual(a, b) }

func read(t *testing.T, model *trl.Model, name string, form trl.TensorForm) []float32 {
	t.Helper()
	return must(model.ReadTensor(name, form))(t).Data.([]float32)
}

func TestEngineTensors(t *testing.T) {
	opened := must(trl.OpenModel(nil, model, nil))(t)
	for _, info := range must(opened.Tensors())(t) {
		tensor := must(opened.ReadTensor(info.Name, trl.TensorCopy))(t)
		equal(t, tensor.Shape, info.Shape)
		equal(t, []any{fmt.Sprintf("%T", tensor.Data), info.DType, info.Stored, info.Trained, info.Gradient},
			[]any{"[]float32", "float32", "float32", false, false})
		count := int64(1)
		for _, extent := range info.Shape {
			count *= extent
		}
		equal(t, int64(len(tensor.Data.([]float32))), count)
		equal(t, must(opened.ReadTensor(info.Name, trl.TensorView))(t), tensor)
	}
	_, err := opened.ReadTensor("no such", trl.TensorCopy)
	is(t, err, trl.ENotFound)
	_, err = opened.ReadTensor(matrix, trl.TensorGradient)
	is(t, err, trl.ENotFound)
	_, err = opened.ReadTensor(matrix, 99)
	is(t, err, trl.EInvalidArgument)
	half := must(trl.OpenModel(nil, source+"/tests/golden/models/qwen2_bf16", trl.Keys{"dtype": "bfloat16"}))(t)
	equal(t, reflect.TypeOf(must(half.ReadTensor(matrix, trl.TensorCopy))(t).Data), reflect.TypeOf([]trl.BFloat16{}))
}

func TestEngineBorrowedTensors(t *testing.T) {
	trainer := newTrainer(t, nil, few, nil)
	model := modelOf(t, trainer)
	before, oops := read(t, model, matrix, trl.TensorCopy), errors.New("with a tensor")
	var kept *trl.Tensor
	check(t, model.BorrowTensor(matrix, trl.TensorView, func(tensor *trl.Tensor) error {
		kept = tensor
		equal(t, tensor.Data, any(before))
		must(trainer.Step(background))(t) // its values may be others now
		sum := float32(0)
		for _, number := range tensor.Data.([]float32) {
			sum += number
		}
		equal(t, len(tensor.Data.([]float32)), len(before))
		check(t, trainer.Close())
		check(t, model.Close())
		equal(t, len(tensor.Data.([]float32)), len(before))
		return nil
	}))
	equal(t, kept.Data == nil, true)
	is(t, model.BorrowTensor(matrix, trl.TensorView, nil), trl.EInvalidArgument)
	opened := must(trl.OpenModel(nil, "../../tests/golden/models/qwen2", nil))(t)
	equal(t, opened.BorrowTensor(matrix, trl.TensorCopy, func(*trl.Tensor) error { return oops }), oops)
	panics(t, oops, func() { opened.BorrowTensor(matrix, trl.TensorCopy, func(*trl.Tensor) error { panic(oops) }) })
}

func TestEngineWrittenTensors(t *testing.T) {
	trainer := newTrainer(t, nil, few, nil)
	model := modelOf(t, trainer)
	shape := must(model.ReadTensor(matrix, trl.TensorView))(t).Shape
	count := int(shape[0] * shape[1])
	for _, ones := range []any{make([]float32, count), make([]float64, count), make([]trl.Float16, count), make([]trl.BFloat16, count)} {
		for i := 0; i < count; i++ {
			switch list := ones.(type) {
			case []float32:
				list[i] = 1
			case []float64:
				list[i] = 1
			case []trl.Float16:
				list[i] = 0x3c00
			case []trl.BFloat16:
				list[i] = 0x3f80
			}
		}
		check(t, model.WriteTensor(matrix, &trl.Tensor{Shape: shape, Data: make([]float32, count)}))
		equal(t, read(t, model, matrix, trl.TensorCopy)[count-1], float32(0))
		check(t, model.WriteTensor(matrix, &trl.Tensor{Shape: shape, Data: ones}))
		for _, number := range read(t, model, matrix, trl.TensorCopy) {
			equal(t, number, float32(1))
		}
	}
	for _, wrong := range []*trl.Tensor{{}, {shape, []string{"one"}}, {shape, make([]int32, count)}, {shape, []float32{1}},
		{[]int64{int64(count)}, make([]float32, count)}, {nil, []float32{1}}} {
		is(t, model.WriteTensor(matrix, wrong), trl.EInvalidArgument)
	}
	is(t, model.WriteTensor("no such", &trl.Tensor{Data: []float32{1}}), trl.ENotFound)
	must(trainer.Step(background))(t)
	equal(t, read(t, model, matrix, trl.TensorCopy)[0] != 1, true)
}

func TestEngineAModelOutlivesItsTrainer(t *testing.T) {
	trainer := newTrainer(t, nil, few, nil)
	model := modelOf(t, trainer)
	must(trainer.Step(background))(t)
	before := read(t, model, matrix, trl.TensorCopy)
	check(t, trainer.Close())
	equal(t, read(t, model, matrix, trl.TensorCopy), before)
	must(must(model.Generator(nil))(t).Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 1}, nil))(t)
	_, err := trainer.Model()
	is(t, err, trl.EInvalidArgument)
}

// Plain SGD with a rate of 1 takes the gradient itself.
func TestEngineGradients(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"optim": "sgd", "learning_rate": 1, "lr_scheduler_type": "constant", "max_grad_norm": 0,
		"weight_decay": 0})
	model := modelOf(t, trainer)
	must(trainer.Backward(background))(t)
	for _, info := range must(model.Tensors())(t) {
		equal(t, []bool{info.Trained, info.Gradient}, []bool{true, true})
	}
	before, gradient := read(t, model, matrix, trl.TensorCopy), read(t, model, matrix, trl.TensorGradient)
	must(trainer.Update(background, true))(t)
	for i, after := range read(t, model, matrix, trl.TensorCopy) {
		equal(t, math.Abs(float64(after-(before[i]-gradient[i]))) < 1e-6, true)
	}
	_, err := model.ReadTensor(matrix, trl.TensorGradient)
	is(t, err, trl.ENotFound)
}
