#!/usr/bin/env python3
"""usage: terminal_test.py TRL CASE. The trl command on a real pseudo-terminal of 60, 80 and 120 columns."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

TRL = sys.argv[1]
DATA = pathlib.Path(__file__).resolve().parents[1] / "golden"
SFT = ["sft", "--model_name_or_path", str(DATA / "models/qwen2"), "--dataset_name",
       str(DATA / "data/datasets/train_lm.jsonl"), "--output_dir", "out", "--bf16", "false", "--logging_steps", "1",
       "--per_device_train_batch_size", "4"]
WIDTHS = (60, 80, 120)


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def run(words, columns, pipe_stdout=False, on_output=None, code=0):
    """The output on a terminal of so many columns; with pipe_stdout also what went to stdout, which is a pipe."""
    terminal, child = pty.openpty()
    resize(terminal, columns)
    environment = dict(os.environ, HOME=os.getcwd(), NO_COLOR="1", TERM="xterm")
    process = subprocess.Popen([TRL, *words], stdin=child, stdout=subprocess.PIPE if pipe_stdout else child,
                               stderr=child, env=environment, start_new_session=True)
    os.close(child)
    seen = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
        if on_output:
            on_output(terminal, seen)
    piped = process.stdout.read().decode() if pipe_stdout else ""
    assert process.wait() == code, f"exit code {process.returncode}: {seen.decode()}"
    os.close(terminal)
    return seen.decode(), piped


def drawn(text):
    """What was drawn on lines: a line that is drawn anew begins again."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return [line for line in re.split(r"[\r\n]+", plain) if line]


def steps(text):
    return [line for line in drawn(text) if re.search(r"step \d+/\d+", line)]


def case_progress_fits():
    for columns in WIDTHS:
        text, _ = run([*SFT, "--max_steps", "4", "--save_steps", "2", "--output_dir", f"out{columns}"], columns)
        lines = steps(text)
        assert lines, text
        for line in lines:
            assert len(line) < columns, f"{columns}: {line!r}"
            assert line.endswith(" left"), f"no time left: {line!r}"
        assert any("loss" in line for line in lines), lines
        assert (columns < 80) or any("peak " in line for line in lines), lines
        for phase in ("loading the engine", "preparing rows ", "opening the model: tensors ", "saving: "):
            shown = [line for line in drawn(text) if line.startswith(phase)]
            assert shown or phase == "preparing rows ", f"{phase} was not shown: {text}"  # few rows are ready at once
            assert max(map(len, shown), default=0) < columns, shown


def case_width_is_asked_anew():
    resized = []

    def narrow(terminal, seen):
        if not resized and b"step 2/" in seen:
            resize(terminal, 60)
            resized.append(len(seen))

    text, _ = run([*SFT, "--max_steps", "40", "--num_train_epochs", "9", "--save_strategy", "no"], 120, on_output=narrow)
    assert max(map(len, steps(text))) > 60
    late = [line for line in steps(text) if re.search(r"step (3\d|40)/40", line)]
    assert late and max(map(len, late)) < 60, late


def case_records_are_short_on_a_terminal():
    for columns in WIDTHS:
        text, _ = run([*SFT, "--max_steps", "2", "--save_strategy", "no", "--output_dir", f"out{columns}"], columns)
        assert '{"loss"' not in text, text
        records = [line for line in drawn(text) if re.match(r"step \d+  loss ", line)]
        assert len(records) == 2, text
        assert any(re.match(r"step 2  train_loss ", line) for line in drawn(text)), text
        assert max(map(len, records)) < columns, records


def case_records_are_json_in_a_pipe():
    text, piped = run([*SFT, "--max_steps", "2", "--save_strategy", "no"], 80, pipe_stdout=True)
    assert piped.count('{"loss": ') == 2, piped
    assert '"loss"' not in text and steps(text), text


def case_quiet_is_quiet():
    text, _ = run([*SFT, "--max_steps", "2", "-q"], 80)
    assert text == "", text
    text, _ = run([*SFT, "--max_steps", "2", "-q", "--report_to", "wandb", "--output_dir", "other"], 80)
    assert "report_to: " in text and not steps(text), text
    text, _ = run([*SFT, "--max_steps", "2", "--log_level", "error", "--report_to", "wandb", "--output_dir", "third"], 80)
    assert "report_to" not in text and "saved in" not in text and steps(text), text


def case_a_closed_terminal_leaves_a_checkpoint():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(TRL, [TRL, *SFT, "--max_steps", "100000", "--save_strategy", "no"])
    seen = b""
    while not re.search(rb"step [1-9]\d*  loss", seen):
        seen += os.read(terminal, 4096)
    os.close(terminal)
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 129, (status, seen)
    assert list(pathlib.Path("out").glob("checkpoint-*/optimizer.safetensors")), os.listdir("out")


def case_chat_wraps_between_words():
    for columns in (30, 60):
        said = pathlib.Path(f"said{columns}.jsonl")
        todo = [b"one two\r", f"/save {said}\r".encode(), b"/exit\r"]
        begun = [0]

        def type_next(terminal, seen):
            if todo and b"> " in seen[begun[0]:]:  # a line can be typed
                begun[0] = len(seen)
                os.write(terminal, todo.pop(0))

        text, _ = run(["chat", "--model_name_or_path", str(DATA / "models/qwen2"), "--max_new_tokens", "400",
                       "--temperature", "1", "--seed", "9"], columns, on_output=type_next)
        answer = json.loads(said.read_text())["messages"][-1]["content"]
        words = [word for word in answer.split() if word.isascii() and word.isprintable() and len(word) < columns]
        assert len(words) > 20 and len(answer) > 3 * columns, answer
        lines = [line for line in drawn(text.split("> one two")[1].split("> /save")[0]) if not line.startswith("trl: ")]
        assert max(map(len, lines)) <= columns, lines
        shown = " ".join(lines).split()
        for word in words:
            assert word in shown, f"{columns}: {word!r} is broken: {lines}"


def case_help_fits():
    for columns in WIDTHS:
        for command in ("sft", "dpo", "kto", "reward", "estimate", "generate", "convert", "profile", "tokenize",
                        "template", "options", "env", "completion", "man", "help", "version"):
            lines = run([command, "--help"], columns)[0].splitlines()
            assert columns < 80 or len(lines) <= 45, f"{command}: {len(lines)} lines"
            for line in lines:
                assert len(line) <= columns, f"{columns}: {line!r}"
    for columns in WIDTHS:
        for line in run(["sft", "--help-all"], columns)[0].splitlines():
            words = line.split()
            assert len(line) <= columns or len(words) < 5, f"{columns}: {line!r}"


try:
    for end in pty.openpty():
        os.close(end)
except OSError as error:
    print(f"no pseudo-terminal can be made here: {error}", file=sys.stderr)
    sys.exit(77)

os.environ.pop("COLUMNS", None)
with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    globals()["case_" + sys.argv[2]]()
    os.chdir("/")
