package trl_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"libtrl/trl"
)

func newGenerator(t *testing.T) *trl.Generator {
	t.Helper()
	opened := must(trl.OpenModel(nil, model, nil))(t)
	t.Cleanup(func() { opened.Close() })
	return must(opened.Generator(must(trl.OpenTokenizer(nil, model, nil))(t)))(t)
}

func TestEnginePromptsTogether(t *testing.T) {
	generator, tokens, likely := newGenerator(t), map[int][]int32{}, map[int][]any{}
	completions := must(generator.Generate(background, []string{"the kernel", "a page"}, trl.Keys{"generate.max_new_tokens": 4,
		"generate.num_return_sequences": 2, "generate.logprobs": 0, "generate.temperature": 1},
		func(completion int, token trl.Token) error {
			tokens[completion] = append(tokens[completion], token.ID)
			likely[completion] = append(likely[completion], token.LogProbability)
			return nil
		}))(t)
	equal(t, len(completions), 4)
	for i, completion := range completions {
		equal(t, completion.FinishReason, "length")
		equal(t, completion.Tokens, tokens[i])
		equal(t, unpack(t, completion.JSON)["logprobs"], any(likely[i]))
	}
	must(generator.Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 1}, func(_ int, token trl.Token) error {
		equal(t, math.IsNaN(token.LogProbability), true)
		return nil
	}))(t)
	equal(t, len(must(generator.Generate(background, nil, nil, nil))(t)), 0)
}

func TestEngineErrorsOfTokens(t *testing.T) {
	generator, oops := newGenerator(t), errors.New("at a token")
	done := must(generator.Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 9},
		func(int, trl.Token) error { return trl.ErrStop }))(t)
	equal(t, len(done[0].Tokens), 1)
	_, err := generator.Generate(background, []string{"the", "a"}, nil, func(int, trl.Token) error { return oops })
	is(t, err, oops)
	panics(t, oops, func() {
		generator.Generate(background, []string{"the"}, nil, func(int, trl.Token) error { panic(oops) })
	})
	ctx, cancel := context.WithCancel(background)
	seen := 0
	_, err = generator.Generate(ctx, []string{"the"}, trl.Keys{"generate.max_new_tokens": 100}, func(int, trl.Token) error {
		if seen++; seen == 3 {
			cancel()
		}
		return nil
	})
	is(t, err, context.Canceled)
	is(t, err, trl.ECancelled)
	equal(t, seen, 3)
	ctx, cancel = context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; {
		_, err = generator.Generate(ctx, []string{"the"}, trl.Keys{"generate.max_new_tokens": 100}, nil)
	}
	is(t, err, context.DeadlineExceeded)
	equal(t, len(must(generator.Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 3}, nil))(t)[0].Tokens), 3)
}

func TestEngineRequests(t *testing.T) {
	generator := newGenerator(t)
	first := must(generator.Add("the kernel", trl.Keys{"generate.max_new_tokens": 3, "generate.keep": true}))(t)
	other := must(generator.AddTokens([]int32{1, 2, 3}, trl.Keys{"generate.max_new_tokens": 50}))(t)
	for tokens := 0; tokens < 6; {
		check(t, generator.Step(func(int, trl.Token) error { tokens++; return nil }))
	}
	equal(t, must(generator.Take(first, 1))(t)[0].FinishReason, "length")
	check(t, generator.Extend(first, " waits", trl.Keys{"generate.max_new_tokens": 2}))
	check(t, generator.Cancel(other, 1))
	for err := error(nil); err != io.EOF; err = generator.Step(nil) {
		check(t, err)
	}
	equal(t, len(must(generator.Take(first, 1))(t)[0].Tokens), 2)
	check(t, generator.ExtendTokens(first, []int32{5}, trl.Keys{"generate.max_new_tokens": 1}))
	equal(t, must(generator.Take(other, 1))(t)[0].FinishReason, "cancelled")
	check(t, generator.Cancel(first, 1))
	check(t, generator.ReleaseMemory())
	_, err := generator.Take(other, 1)
	is(t, err, trl.ENotFound)
}

// TestEngineTokensFail has a function fail for one of three completions: only this one ends.
func TestEngineTokensFail(t *testing.T) {
	generator, oops := newGenerator(t), errors.New("at a token")
	for _, fail := range []func() error{func() error { return oops }, func() error { panic(oops) }} {
		var numbers [3]int
		for i, prompt := range []string{"the kernel", "a page", "the lock"} {
			numbers[i] = must(generator.Add(prompt, trl.Keys{"generate.max_new_tokens": 3, "generate.ignore_eos": true}))(t)
		}
		told := map[int]int{}
		onToken := func(completion int, token trl.Token) error {
			if told[completion]++; completion == numbers[1] {
				return fail()
			}
			return nil
		}
		err := func() (err error) {
			defer func() {
				if value := recover(); value != nil {
					err = value.(error)
				}
			}()
			return generator.Step(onToken)
		}()
		is(t, err, oops)
		for err = nil; err != io.EOF; err = generator.Step(onToken) {
			check(t, err)
		}
		for i, reason := range []string{"length", "cancelled", "length"} {
			done := must(generator.Take(numbers[i], 1))(t)[0]
			equal(t, done.FinishReason, reason)
			equal(t, len(done.Tokens), []int{3, 1, 3}[i])
			equal(t, told[numbers[i]], len(done.Tokens))
		}
	}
}

func TestEngineStreams(t *testing.T) {
	generator, options := newGenerator(t), trl.Keys{"generate.max_new_tokens": 6}
	whole := must(generator.Generate(background, []string{"the kernel"}, options, nil))(t)[0]
	stream := must(generator.Stream(background, "the kernel", options))(t)
	var tokens []int32
	for {
		token, err := stream.Next()
		if err == io.EOF {
			break
		}
		check(t, err)
		tokens = append(tokens, token.ID)
	}
	equal(t, tokens, whole.Tokens)
	equal(t, stream.Completion().Text, whole.Text)

	var text bytes.Buffer
	must(io.Copy(&text, must(generator.Stream(background, "the kernel", options))(t)))(t)
	equal(t, text.String(), whole.Text)

	stream = must(generator.Stream(background, "the kernel", options))(t)
	must(stream.Next())(t)
	check(t, stream.Close())
	check(t, stream.Close())
	equal(t, stream.Completion().FinishReason, "cancelled")
	_, err := stream.Next()
	equal(t, err, io.EOF)
	equal(t, generator.Step(nil), io.EOF)

	ctx, cancel := context.WithCancel(background)
	stream = must(generator.Stream(ctx, "the kernel", options))(t)
	must(stream.Next())(t)
	cancel()
	_, err = stream.Next()
	is(t, err, context.Canceled)
	check(t, stream.Close())
}

func TestEngineModels(t *testing.T) {
	folder := t.TempDir()
	opened := must(trl.OpenModel(nil, model, nil))(t)
	parameters := unpack(t, must(opened.Describe())(t))["parameters"]
	target := filepath.Join(folder, "model.gguf")
	check(t, trl.Convert(nil, model, target, trl.Keys{"convert.type": "f32"}))
	again := must(trl.OpenModel(nil, target, nil))(t)
	equal(t, unpack(t, must(again.Describe())(t))["parameters"], parameters)
	check(t, again.Save(filepath.Join(folder, "again"), nil))
	must(os.Stat(filepath.Join(folder, "again", "config.json")))(t)
	_, err := opened.Score([]string{"text"}, trl.TextAnswer, nil)
	is(t, err, trl.EUnsupported)
	_, err = trl.OpenModel(nil, "/nowhere", nil)
	is(t, err, trl.ENotFound)

	trainer := newTrainer(t, nil, few, trl.Keys{"use_peft": true, "lora_r": 2, "max_steps": 2, "learning_rate": 0.05,
		"lora_target_modules": "all-linear"})
	must(trainer.Train(background, nil))(t)
	adapter := filepath.Join(folder, "adapter")
	check(t, trainer.Save(adapter, nil))
	trained := modelOf(t, trainer)
	check(t, trained.AddAdapter("other", adapter))
	must(must(trained.Generator(nil))(t).Generate(background, []string{"the"},
		trl.Keys{"generate.adapter": "other", "generate.max_new_tokens": 1}, nil))(t)
	check(t, trained.RemoveAdapter("other"))
	for _, err := range []error{trained.UseAdapter(""), trained.MergeAdapter(""), trained.Save(folder, nil)} {
		is(t, err, trl.EUnsupported)
	}
	check(t, opened.AddAdapter("mine", adapter))
	check(t, opened.UseAdapter("mine"))
	check(t, opened.MergeAdapter("mine"))
	check(t, opened.MergeAdapter(""))
	check(t, opened.UseAdapter(""))
	check(t, opened.RemoveAdapter("mine"))
	is(t, opened.UseAdapter("mine"), trl.ENotFound)

	reward := newTrainer(t, nil, pairs, trl.Keys{"method": "reward", "max_steps": 1})
	must(reward.Train(background, nil))(t)
	check(t, reward.Save(filepath.Join(folder, "scorer"), nil))
	scorer := must(trl.OpenModel(nil, filepath.Join(folder, "scorer"), nil))(t)
	both := must(scorer.Score([]string{"one two", "one\x00three"}, trl.TextAnswer, nil))(t)
	one := must(scorer.Score([]string{"one two"}, trl.TextAnswer, nil))(t)
	equal(t, math.Abs(float64(both[0]-one[0])) < 1e-5 && math.Abs(float64(both[0]-both[1])) > 1e-5, true)
	equal(t, len(must(scorer.Score(nil, trl.TextAnswer, nil))(t)), 0)
}
