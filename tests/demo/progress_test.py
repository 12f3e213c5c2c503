"""What a user sees, and the page that describes it."""

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from mhc_kernels.demo import plan
from mhc_kernels.demo.progress import Progress

ROOT = Path(__file__).resolve().parents[2]


def steps(progress, count=12):
    progress.show("held_out", {"step": 0, "loss": 5.5, "seconds": 0.0})
    for k in range(1, count + 1):
        progress.show("train", {"step": k, "loss": 5.0 - k / 10, "seconds": 0.25 * k})
    progress.show("held_out", {"step": count, "loss": 3.25, "seconds": 0.25 * count})


def test_a_terminal_gets_a_bar_with_loss_speed_and_time_left(tiny):
    screen = io.StringIO()
    with Progress("kernel", tiny, Console(file=screen, force_terminal=True, width=120)) as progress:
        steps(progress)
    text = screen.getvalue()
    # 8 sequences of 32 bytes in a quarter of a second.
    assert "kernel" in text and "12/20" in text and "loss 3.800" in text
    assert re.search(r"1,024 tokens/s  0:\d\d left", text)


def test_a_file_gets_a_line_per_evaluation(tiny, capsys):
    with Progress("kernel", tiny, Console(file=io.StringIO())) as progress:
        steps(progress)
    first, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["kernel", "0/20", "held", "out", "5.500"]
    assert re.search(r"12/20  loss 3.800  held out 3.250  1,024 tokens/s  0:\d\d left", last)


def test_the_program_of_the_page(text_file):
    page = (ROOT / "docs/demo.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert "steps=10," in code
    code = code.replace("steps=10,", f"steps=10, text={str(text_file)!r},")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_names_every_flag():
    page = (ROOT / "docs/demo.md").read_text()
    for name in ("implementation", "out", "resume", *plan.FLAGS):
        assert f"`--{name.replace('_', '-')}`" in page
