"""Tests demo/tasks/facts.py: answers agree with the table, and every question has one."""

from random import Random

from gradscore.demo.tasks.facts import ANIMALS, COUNTRIES, ELEMENTS, WHYS, write


def test_tables_have_no_double_entries() -> None:
    for table, n_unique in ((COUNTRIES, 2), (ELEMENTS, 3), (ANIMALS, 1), (WHYS, 2)):
        for column in range(n_unique):
            values = [row[column] for row in table]
            assert len(values) == len(set(values))


def test_country_answers_come_from_the_row_asked_about() -> None:
    seen = 0
    for seed in range(400):
        example = write(Random(seed))
        for row in COUNTRIES:
            if row[0] in example.instruction or row[1] in example.instruction:
                seen += 1
                assert any(value in example.output for value in row)
                others = [other for other in COUNTRIES if other is not row]
                assert not any(o[0] in example.output or o[1] in example.output for o in others)
    assert seen > 50
