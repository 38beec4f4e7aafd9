// Command generate answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on
// with another conversation: generate MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file with a chat
// template; keys are those of the group `generate`, such as generate.temperature.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"libtrl/trl"
)

const (
	question = "What does the kernel do?"
	next     = "And since when?"
	mark     = "THE-ANSWER-4f1c" // stands for an answer in the template
)

// onToken gets the tokens of different completions in turn. ErrStop would end this completion.
func onToken(completion int, token trl.Token) error {
	fmt.Printf("[%d] %d \"%s\"\n", completion, token.ID, token.Text)
	return nil
}

// steps computes until all completions are over, or as many steps as limit says; -1: no limit.
func steps(generator *trl.Generator, limit int) error {
	for ; limit != 0; limit-- {
		if err := generator.Step(onToken); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	return nil
}

func printCompletion(generator *trl.Generator, prompt string, number int) (trl.Completion, error) {
	done, err := generator.Take(number, 1)
	if err != nil {
		return trl.Completion{}, err
	}
	fmt.Printf("%s -> %s (%s)\n", prompt, done[0].Text, done[0].FinishReason)
	return done[0], nil
}

// between returns the tokens that the template writes between an answer and the next one.
func between(tokenizer *trl.Tokenizer) ([]int32, error) {
	text, err := tokenizer.ApplyChatTemplate(map[string]any{"add_generation_prompt": true, "messages": []map[string]string{
		{"role": "user", "content": question}, {"role": "assistant", "content": mark}, {"role": "user", "content": next}}})
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(text, mark)
	if !found {
		return nil, errors.New("the chat template does not write answers as they are")
	}
	return tokenizer.EncodeSplit(rest, false, false)
}

// sayNext goes on after the user's next message. The answer's tokens stay as they were generated, and what the template
// writes after it follows them. The first token of that is the end of the answer, which is there already unless the answer
// ended for another reason.
func sayNext(generator *trl.Generator, tokenizer *trl.Tokenizer, number int, answer trl.Completion, config *trl.Config) error {
	ids, err := between(tokenizer)
	if err != nil {
		return err
	}
	if count := len(answer.Tokens); count > 0 && len(ids) > 0 && ids[0] == answer.Tokens[count-1] {
		ids = ids[1:]
	}
	return generator.ExtendTokens(number, ids, config)
}

func generate(generator *trl.Generator, tokenizer *trl.Tokenizer, config *trl.Config) error {
	prompts := [...]string{question, "Who wrote it?", "Name a row."}
	var numbers [len(prompts)]int
	var answers [len(prompts)]trl.Completion
	var err error
	for i, prompt := range prompts {
		if numbers[i], err = generator.Add(prompt, config); err != nil {
			return err
		}
	}
	if err := steps(generator, 3); err != nil {
		return err
	}
	if err := generator.Cancel(numbers[1], 1); err != nil {
		return err
	}
	if err := steps(generator, -1); err != nil {
		return err
	}
	for i, prompt := range prompts {
		if answers[i], err = printCompletion(generator, prompt, numbers[i]); err != nil {
			return err
		}
	}
	// The keys and values of it are kept (generate.keep): only the new message is computed now.
	if err := sayNext(generator, tokenizer, numbers[0], answers[0], config); err != nil {
		return err
	}
	if err := steps(generator, -1); err != nil {
		return err
	}
	if _, err := printCompletion(generator, next, numbers[0]); err != nil {
		return err
	}
	return generator.ReleaseMemory()
}

func run(path string, pairs []string) error {
	config, err := trl.NewConfig(trl.Keys{"generate.max_new_tokens": 8, "generate.chat": true, "generate.keep": true})
	if err != nil {
		return err
	}
	defer config.Close()
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("KEY=VALUE is needed, not %s", pair)
		}
		if err := config.Set(key, value); err != nil {
			return err
		}
	}
	tokenizer, err := trl.OpenTokenizer(nil, path, nil)
	if err != nil {
		return err
	}
	defer tokenizer.Close()
	model, err := trl.OpenModel(nil, path, config)
	if err != nil {
		return err
	}
	defer model.Close()
	generator, err := model.Generator(tokenizer)
	if err != nil {
		return err
	}
	defer generator.Close()
	return generate(generator, tokenizer, config)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL [KEY=VALUE ...]\n", os.Args[0])
		os.Exit(1)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		var failed *trl.Error
		if errors.As(err, &failed) {
			fmt.Fprintf(os.Stderr, "error %d: ", int32(failed.Status))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
