#!/usr/bin/env python3
"""Records which answers TRL 1.16.0's accuracy_reward accepts for which solutions, with math_verify 0.9.0,
latex2sympy2_extended 1.11.0 and SymPy 1.14.0.

usage: record_answers.py FILE    writes tests/golden/rewards/answers.json.gz: a list of [solution, completion, reward],
where the reward is null if the solution has no answer
"""

import json
import logging
import os
import random
import sys

from trl.rewards import accuracy_reward

from compact import write_gzip

# Solutions that are looked through for an answer; the completion says 8.
SOLUTIONS = [
    "", "   ", " [8] ", "#### 8", "A box holds 48/6=<<48/6=8>>8 pens.\n#### 8", "It is 8.", "x is 8 apples", "8.", "The answer is 8",
    "answer: 8", "answer = 8 and 9", "answer is -8", "answer: a = 3, b = 8", "answer: a=8, b=3", "Answer: 3\n= 8", "$8$ and 9", "9 and $8$",
    "\\boxed{8}", "The result is \\boxed{8}, not 9", "= 8", "a=8", "**8**", "$8", "€8", "£8.00", "8km", "a8", "(8)", "16/2",
    "The value is 16/2 here", "2*4", "2 * 4 = 8", "8 = 2*4", "3+5", "3 + 5 apples", "3 + 5.", "-(-8)", "8%", "8 percent", "800%", "$800\\%$",
    "800 pct", "0008", "8,0", "8,000", "1 000", "-8", "- 8", "+8", "Final answer is 8. I hope", "final answer is 8", "the final answer is $8$ I hope 9",
    "the final answer of it\nis 8, and 9", "\\frac{16}{2}", "-\\frac{-16}{2}", "\\frac{x}{2}", "\\dfrac{16}{2}", "\\sqrt{64}", "$\\sqrt64$",
    "$\\frac{16}2$", "$\\frac16 2$", "$\\frac81$", "$\\sqrt[3]{512}$", "$2^(3)$", "$16/2$", "$8.$", "$.8$", "$8$.", "\\(8\\)", "\\[8\\]",
    "see [8] here", "8!", "2^3", "2**3", "2^{3}", "x=8", "x = 8", "y=9, x=8", "8 or 9", "$8$ or $9$", "8 and 8", "$8\\text{ or }9$",
    "\\boxed{8} and \\boxed{9}", "no number", "$", "$$", "$$$$", "\\boxed{}", "A. 8", "(A) 8", "answer: (A)", "8e0", "8E0", "8×1", "16÷2", "4×2",
    "$4\\times2$", "8:1", "8-0", "10-2", "10 - 2", "10−2", "8\n9", "costs $8 today", "12 = 4 + 8",
]

# Completions for the solution 8.
COMPLETIONS = [
    "$5 and $\\boxed{8}$", "\\boxed{8}. So {x}", "$\\boxed{7}$ and later $\\boxed{8}$", "$\\boxed{7}$, so $\\boxed{8}$",
    "\\boxed{7} text that is long enough to part them \\boxed{8}", "\\boxed{8} text that is long enough to part them \\boxed{8}",
    "\\boxed{7} is one, and the other one of them is \\boxed{8}", "\\fbox{8}", "\\boxed 8", "\\boxed8", "\\boxed{8", "The answer is $8$",
    "the answer is 8", "Answer: $8$", "Final answer is: $8$. I hope it is correct", "The final answer is $8$.", "so $x=8$", "\\[8\\]",
    "answer: \\[8\\]", "answer: \\(8\\)", "answer: $$8$$", "answer: [8] ", "answer \\frac{16}{2}", "Answer: **8**", "\\boxed{ 8 }", "\\boxed{\n8\n}",
    "answer is $7$ but \\boxed{8}", "\\boxed{8} answer is $7$", "$$\\boxed{8}$$", "\\[\\boxed{8}\\]", "\\(\\boxed{8}\\)", "$\\boxed{800}$%",
    "$\\boxed{8}\\%$", "\\boxed{}", "\\boxed{ }", "$x = \\boxed{8}$", "$\\boxed{8}$ cm",
    "answer: the value which is asked for in the question above is $8$", "answer: " + "x" * 45 + " $8$", "answer: " + "x" * 60 + " $8$",
    "answer: " + "é" * 45 + " $8$", "\\boxed{8} and \\boxed{8}", "\\boxed{8}, \\boxed{9}", "answer $7$ or $8$", "answer $8$ and $8$",
    "The final answer is: $\\boxed{8}$. I hope it is correct.", "final answer of all is $8$", "ANSWER: $8$", "answer: $7$ then $8$",
    "answer: $7$. Answer: $8$", "answer: $8$. Now answer it: see above, because it is too far $9$", "\\boxed{\\text{8}}", "",
]

# Pieces that are put together at random.
PIECES = [
    "The answer is ", "answer: ", "Answer:", "final answer is ", "The final answer is: ", "Final answer: ", "I hope it is correct.", ". I hope ",
    "so ", "$8$", "$x=8$", "$$8$$", "\\[8\\]", "\\(8\\)", " [8] ", "8", "9", " 8 ", " = 8", "3+5", " 3 + 5 ", "\\boxed{8}", "\\boxed{9}",
    "$\\boxed{8}$", "\\boxed{\\frac{16}{2}}", "\\frac{16}{2}", " and ", " or ", ", ", ". ", "\n", " ", "$", "5$", "$5 ", "costs $5", "**8**", "%",
    "8%", "50\\%", "\\boxed{8", "}", "{", "\\fbox{8}", "the number is ", "because ", "x", "\\$", "text with some more words ", "1,000", "1 000",
    "2.5", "-3", "\\boxed{x=8}", "\\boxed{8, 9}", "(8)", "$\\sqrt{64}$", "$8\\text{ cm}$", "\\text{8}", "=", "is", "cm", "apples", "\\boxed{}",
    "\\boxed{ 8 }", "e = 8", "$8$ and $9$", "$\\boxed{8}$ and $\\boxed{9}$", "é", "8.", "8,",
]


def boxed():
    """The cases of answer_cases.txt."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "answer_cases.txt")) as file:
        lines = [line.rstrip("\n") for line in file if not line.startswith("#")]
    rows = []
    for line in lines:
        if line.startswith("  "):
            rows[-1] += " " + line.strip()
        else:
            rows.append(line)
    for row in rows:
        solution, *answers = [part.strip() for part in row.split(";;")]
        yield from ((solution, "\\boxed{" + answer + "}") for answer in answers if answer)


def at_random(count):
    draw = random.Random(16)
    for _ in range(count):
        text = "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 9)))
        if draw.random() < 0.5:
            yield draw.choice(["8", "$\\{8,9\\}$", "$8$", "9"]), text
        else:
            yield text, draw.choice(["\\boxed{8}", "\\boxed{9}", "\\boxed{8,9}", "\\boxed{2.5}"])


def main(path):
    logging.disable(logging.CRITICAL)
    cases = list(boxed()) + [(text, "\\boxed{8}") for text in SOLUTIONS] + [("8", text) for text in COMPLETIONS] + list(at_random(800))
    rewards = accuracy_reward([[{"content": completion}] for _, completion in cases], [solution for solution, _ in cases])
    rows = [json.dumps([*case, reward], ensure_ascii=False) for case, reward in zip(cases, rewards)]
    write_gzip(path, "[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
