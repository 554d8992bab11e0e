import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.code_extract import find_program

CODE = "n = int(input())\nprint(n * n)"


@pytest.mark.parametrize(
    "completion",
    [
        f"```python\n{CODE}\n```",
        f"```py\n{CODE}\n```",
        f"```Python3\r\n{CODE}\r\n```\r\n",
        f"~~~python\n{CODE}\n~~~",
        f"````python\n{CODE}\n````",
        f"``` python title=a.py\n{CODE}\n```",
        f"Text\n```\n{CODE}\n```\nmore text",
        f"```python\n{CODE}\n```\nExample:\n```\n3\n9\n```",
        f"```python\n{CODE}\n```\nOutput:\n```text\n9\n```\nRun it:\n```bash\npython a.py\n```",
        f"```python\nprint(1)\n```\nBetter:\n```python\n{CODE}\n```",
        f"```cpp\nint main() {{}}\n```\n```python\n{CODE}\n```",
        f"{CODE}\n```",
        CODE,
        f"```python\n{CODE}",
        f"```python\n{CODE}```",
        f"<answer>```python\n{CODE}\n```</answer>",
        f"<think>```python\nprint(1)\n```</think>\n```python\n{CODE}\n```",
        f"<answer>\n{CODE}\n</answer>",
        f"<think>one</think> no <think>two</think>\n```python\n{CODE}\n```",
        f"thinking without a start</think>\n```python\n{CODE}\n```",
        "1. Do this\n   ```python\n   n = int(input())\n   print(n * n)\n   ```",
        f"```python\n{CODE}\n```\n```python\n\n```",
    ],
)
def test_the_program_is_found(completion):
    program = find_program(completion)
    assert program.source.strip() == CODE


@pytest.mark.parametrize(
    "completion",
    [
        *("", "  \n", "```python\n\n```", "```\n```", "```java\nclass A {}\n```"),
        *(f"<think>```python\n{CODE}\n```", f"<think>```python\n{CODE}\n```</think>"),
    ],
)
def test_no_program_is_found_where_there_is_none(completion):
    assert find_program(completion) is None


def test_the_block_that_defines_the_entry_is_preferred_to_a_later_one():
    completion = "```python\ndef f(x):\n    return x\n```\nUse:\n```python\nprint(f(1))\n```"
    assert find_program(completion, "f").source.startswith("def f")
    assert find_program(completion, "g").source.startswith("print")
    assert find_program(completion, "(").source.startswith("print")


def test_a_deeper_fence_belongs_to_the_program():
    source = 'def f():\n    """\n    ```\n    f()\n    ```\n    """\n    return 1\n'
    assert find_program(f"```python\n{source}```").source == source


def test_unusual_characters_are_not_line_ends():
    source = "print('a\x0cb\u2028c')\n"
    assert find_program(f"```python\n{source}```").source == source


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`~\r")))
def test_a_fenced_text_comes_back_as_it_was(text):
    program = find_program(f"```python\n#\n{text}\n```")
    assert program.source == f"#\n{text}\n"


@pytest.mark.parametrize("piece", ["```python\n", "<think>", " ", "`", "```\n x\n", "~~~ \n\t"])
def test_megabytes_take_little_time(piece):
    started = time.process_time()
    find_program(piece * (3_000_000 // len(piece)), "f")
    assert time.process_time() - started < 5.0
