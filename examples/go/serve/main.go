// Command serve serves a model over HTTP from within a program: serve MODEL [--stay] [KEY=VALUE ...]. MODEL is a Hugging Face
// directory or a GGUF file; keys are those of the groups `serve` and `generate`. The program asks its own server; with --stay
// it then serves until Ctrl-C.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"libtrl/trl"
)

// onLog is called within calls of the server such as Start and Wait, and not on its threads.
func onLog(_ trl.LogLevel, component, text string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", component, text)
}

func addressOf(server *trl.Server) (string, error) {
	text, err := server.Describe()
	var described struct{ Address string }
	if err == nil {
		err = json.Unmarshal(text, &described)
	}
	return described.Address, err
}

// complete asks as any client does.
func complete(address, prompt string) (string, error) {
	body, err := json.Marshal(map[string]any{"model": "tiny", "prompt": prompt, "max_tokens": 16})
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: time.Minute}
	response, err := client.Post("http://"+address+"/v1/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Choices []struct{ Text string }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Choices) == 0 {
		return "", errors.New(response.Status)
	}
	return answer.Choices[0].Text, nil
}

// use asks the server, and lets its model sleep: the memory of keys and values goes back to the system meanwhile.
func use(server *trl.Server) error {
	address, err := addressOf(server)
	if err != nil {
		return err
	}
	text, err := complete(address, "The kernel")
	if err != nil {
		return err
	}
	fmt.Println("The kernel ->", text)
	if err := server.Sleep("", 1, ""); err != nil {
		return err
	}
	_, err = complete(address, "The kernel")
	fmt.Println("asleep:", err)
	return server.WakeUp("", "")
}

func run(ctx context.Context, path string, stay bool, options trl.Options) error {
	runtime, err := trl.NewRuntime(options)
	if err != nil {
		return err
	}
	defer runtime.Close()
	if err := runtime.SetLog(onLog); err != nil {
		return err
	}
	model, err := trl.OpenModel(runtime, path, options)
	if err != nil {
		return err
	}
	defer model.Close()
	server, err := trl.NewServer(runtime, options)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.AddModel("tiny", model, nil, nil); err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	if err := use(server); err != nil {
		return err
	}
	if stay {
		if err := server.Wait(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	err = server.Stop(-1) // requests that run may end
	fmt.Println("stopped")
	return err
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL [--stay] [KEY=VALUE ...]\n", os.Args[0])
		os.Exit(1)
	}
	options, stay := trl.Keys{"serve.port": 0}, false // any port that is free
	for _, argument := range os.Args[2:] {
		key, value, found := strings.Cut(argument, "=")
		switch {
		case argument == "--stay":
			stay = true
		case found:
			options[key] = value
		default:
			fmt.Fprintln(os.Stderr, "KEY=VALUE is needed, not", argument)
			os.Exit(1)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], stay, options); err != nil {
		var failed *trl.Error
		if errors.As(err, &failed) {
			fmt.Fprintf(os.Stderr, "error %d: ", int32(failed.Status))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
