"""Answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on with another
conversation: main.py MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file with a chat template; keys are
those of the group `generate`, such as generate.temperature."""

import sys

import libtrl

PROMPTS = ("What does the kernel do?", "Who wrote it?", "Name a row.")
NEXT = "And since when?"
MARK = "THE-ANSWER-4f1c"  # stands for an answer in the template
SETTINGS = {"generate.max_new_tokens": 8, "generate.chat": True, "generate.keep": True}


def on_token(number: int, token: int, text: str, log_probability: float) -> None:
    """Tokens of different completions alternate. A result that is true would end this completion."""
    print(f'[{number}] {token} "{text}"')


def run(generator: libtrl.Generator, cancelled: int | None = None) -> None:
    """Steps until all completions are over. One of them is cancelled after three steps."""
    steps = 0
    while generator.step(on_token):
        steps += 1
        if steps == 3 and cancelled is not None:
            generator.cancel(cancelled)


def take(generator: libtrl.Generator, prompt: str, number: int) -> libtrl.Completion:
    [done] = generator.take(number)
    print(f"{prompt} -> {done.text} ({done.finish_reason})")
    return done


def next_message(tokenizer: libtrl.Tokenizer, answer: libtrl.Completion) -> list[int]:
    """The tokens of the template from the end of an answer to the beginning of the next one. The answer's own stay as they
    were generated; the first token here is its end, which it has already unless it ended for another reason."""
    turns = zip(("user", "assistant", "user"), (PROMPTS[0], MARK, NEXT))
    messages = [{"role": role, "content": content} for role, content in turns]
    text = tokenizer.apply_chat_template({"messages": messages, "add_generation_prompt": True})
    _, mark, rest = text.partition(MARK)
    if not mark:
        sys.exit("the chat template does not write answers as they are")
    ids = tokenizer.encode(rest, add_special_tokens=False, split_special_tokens=False)
    return ids[1:] if answer.token_ids[-1:] == tuple(ids[:1]) else ids


def main(path: str, options: libtrl.Config) -> None:
    with (libtrl.Tokenizer(path) as tokenizer, libtrl.Model(path, options) as model,
          model.generator(tokenizer) as generator):
        numbers = [generator.add(prompt, options) for prompt in PROMPTS]
        run(generator, cancelled=numbers[1])
        answers = [take(generator, prompt, number) for prompt, number in zip(PROMPTS, numbers)]
        # generate.keep has kept its keys and values: only the new message is computed now.
        generator.extend(numbers[0], next_message(tokenizer, answers[0]), options)
        run(generator)
        take(generator, NEXT, numbers[0])
        generator.release_memory()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} MODEL [KEY=VALUE ...]")
    if wrong := [pair for pair in sys.argv[2:] if "=" not in pair]:
        sys.exit(f"KEY=VALUE is needed, not {wrong[0]}")
    try:
        main(sys.argv[1], libtrl.Config({**SETTINGS, **dict(pair.split("=", 1) for pair in sys.argv[2:])}))
    except libtrl.Error as error:
        sys.exit(f"error {error.status}: {error}")
