"""Conversions between units, with the rule spelled out in some answers."""

from random import Random

from gradscore.demo.example import Example

# from, to, factor, what is measured, values that are asked for
CONVERSIONS = (
    ("kilometres", "metres", 1000, "distance", (2, 3.5, 7, 12, 0.4)),
    ("metres", "centimetres", 100, "length", (1.2, 3, 0.75, 18, 6.5)),
    ("hours", "minutes", 60, "time", (2, 1.5, 4, 7, 0.5)),
    ("minutes", "seconds", 60, "time", (3, 5, 12, 2.5, 45)),
    ("days", "hours", 24, "time", (2, 5, 7, 10, 0.5)),
    ("kilograms", "grams", 1000, "mass", (2, 0.25, 1.6, 9, 4.5)),
    ("litres", "millilitres", 1000, "volume", (0.5, 1.5, 3, 2.2, 8)),
    ("feet", "inches", 12, "length", (4, 6, 5.5, 9, 11)),
    ("gallons", "quarts", 4, "volume", (2, 3.5, 6, 10, 7)),
    ("pounds", "ounces", 16, "weight", (2, 3, 1.5, 8, 5)),
    ("weeks", "days", 7, "time", (3, 6, 9, 12, 52)),
    ("gigabytes", "megabytes", 1000, "data size", (4, 16, 2.5, 32, 7)),
)


def write(rng: Random) -> Example:
    """Return a conversion; one in four asks about temperature, which needs more than a factor."""
    if rng.random() < 0.25:
        return _temperature(rng)
    source, target, factor, measured, values = rng.choice(CONVERSIONS)
    value = rng.choice(values)
    result = value * factor
    task, given = rng.choice(
        (
            (f"Convert {value:g} {source} to {target}.", ""),
            (f"How many {target} are there in {value:g} {source}?", ""),
            (f"Change this {measured} to {target}.", f"{value:g} {source}"),
            (f"Express the {measured} of {value:g} {source} in {target}.", ""),
        )
    )
    one = source[:-1] if source != "feet" else "foot"
    answer = rng.choice(
        (
            f"{result:g} {target}",
            f"{value:g} {source} are {result:g} {target}.",
            f"One {one} has {factor} {target}, so {value:g} {source} make {value:g} × {factor} = {result:g} {target}.",
            f"Multiply by {factor}: {value:g} × {factor} = {result:g}. The answer is {result:g} {target}.",
        )
    )
    return Example(task, given, answer)


def _temperature(rng: Random) -> Example:
    celsius = rng.choice((-10, -5, 0, 5, 10, 15, 20, 25, 30, 35, 40, 60, 100))
    fahrenheit = celsius * 9 // 5 + 32
    if rng.random() < 0.5:
        task = rng.choice(
            (f"What is {celsius} °C in Fahrenheit?", f"Convert {celsius} degrees Celsius to Fahrenheit.")
        )
        answer = rng.choice(
            (
                f"{fahrenheit} °F",
                f"Multiply by 9/5 and add 32: {celsius} × 9/5 + 32 = {fahrenheit}, so it is {fahrenheit} °F.",
            )
        )
    else:
        task = f"The thermometer shows {fahrenheit} °F. What does a Celsius thermometer show?"
        answer = rng.choice(
            (
                f"It shows {celsius} °C.",
                f"Subtract 32 and multiply by 5/9: ({fahrenheit} − 32) × 5/9 = {celsius}. It shows {celsius} °C.",
            )
        )
    return Example(task, "", answer)
