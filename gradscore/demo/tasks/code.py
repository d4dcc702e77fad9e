"""Short Python functions. Every one of them is run by the tests, so that the answers are right."""

from random import Random

from gradscore.demo.example import Example

# task, function name, body lines, a sentence about it
FUNCTIONS = (
    ("returns the {n} largest numbers of a list", "largest", ("return sorted(numbers, reverse=True)[:{n}]",), "numbers",
     "Sorting in reverse order puts the largest numbers first."),
    ("adds {n} to every number of a list", "shift", ("return [number + {n} for number in numbers]",), "numbers",
     "The list comprehension leaves the original list unchanged."),
    ("keeps only the numbers that {n} divides", "multiples", ("return [number for number in numbers if number % {n} == 0]",), "numbers",
     "The remainder of a division is zero exactly for multiples."),
    ("sums the squares of the first {n} items of a list", "sum_of_squares", ("return sum(number**2 for number in numbers[:{n}])",), "numbers",
     "The slice takes the first items, and a shorter list is no problem."),
    ("returns every {ordinal} character of a string", "every_nth", ("return text[::{n}]",), "text",
     "The third part of a slice is its step."),
    ("repeats a string {n} times, separated by dashes", "repeat", ("return '-'.join([text] * {n})",), "text",
     "Joining avoids a dash at the end."),
    ("cuts a string after {n} characters", "shorten", ("return text[:{n}]",), "text",
     "A shorter string is returned whole."),
    ("tells whether a word has more than {n} letters", "is_long", ("return len(text) > {n}",), "text",
     "The comparison is a boolean already, so no if is needed."),
    ("counts the words of a string that have at least {n} letters", "count_long_words",
     ("count = 0", "for word in text.split():", "    if len(word) >= {n}:", "        count += 1", "return count"), "text",
     "Splitting without an argument also handles several spaces in a row."),
    ("returns the average of a list, rounded to {n} digits, or None for an empty list", "average",
     ("if not numbers:", "    return None", "return round(sum(numbers) / len(numbers), {n})"), "numbers",
     "The empty list is handled first, since dividing by zero would fail."),
)  # fmt: skip
ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
LEADS = (
    "Write a Python function that",
    "Show me a Python function that",
    "In Python, define a function that",
)


def write(rng: Random) -> Example:
    """Return a request for a function, and the function."""
    task, name, body, argument, remark = rng.choice(FUNCTIONS)
    n = rng.randint(2, 9)
    lines = [f"def {name}({argument}):", *(f"    {line.format(n=n)}" for line in body)]
    code = "\n".join(lines)
    answer = rng.choice((code, f"```python\n{code}\n```", f"```python\n{code}\n```\n{remark}"))
    return Example(f"{rng.choice(LEADS)} {task.format(n=n, ordinal=ORDINALS[n])}.", "", answer)
