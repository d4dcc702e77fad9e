"""Tests demo/tasks/units.py: converting the answer back gives the question."""

import re
from random import Random

from gradscore.demo.tasks.units import CONVERSIONS, write

FACTORS = {(source, target): factor for source, target, factor, _, _ in CONVERSIONS}


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_every_conversion_can_be_turned_back() -> None:
    checked = 0
    for seed in range(400):
        example = write(Random(seed))
        question = f"{example.instruction} {example.input}"
        if "Celsius" in question or "°C" in question:
            celsius, fahrenheit = (numbers(example.output)[-1], numbers(question)[0])
            if "°F" in example.output.split()[-1] or example.output.endswith("°F."):
                celsius, fahrenheit = fahrenheit, celsius
            assert fahrenheit == celsius * 9 / 5 + 32, example
        else:
            pair = next(p for p in FACTORS if p[0] in question and p[1] in question + example.output)
            assert numbers(example.output)[-1] == numbers(question)[0] * FACTORS[pair], example
        checked += 1
    assert checked == 400
