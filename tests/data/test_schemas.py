"""Recognising a schema from the columns, and overriding what is recognised."""

import pytest

from gradscore.config import DataConfig
from gradscore.data.schemas import SCHEMAS, parse_columns, recognise
from gradscore.errors import ConfigError, DatasetError


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (["instruction", "input", "output", "text"], "alpaca"),
        (["id", "instruction", "response"], "alpaca"),
        (["instruction", "context", "response", "category"], "alpaca"),
        (["id", "conversations", "tools"], "sharegpt"),
        (["messages", "label"], "messages"),
        (["prompt", "prompt_id", "messages"], "messages"),
        (["prompt", "completion"], "prompt_completion"),
        (["prompt", "response"], "prompt_completion"),
        (["question", "answer"], "question_answer"),
        (["conversations", "chosen", "rejected"], "preference"),
        (["chosen", "rejected", "prompt", "messages"], "preference"),
        (["text", "meta"], "text"),
    ],
)
def test_schema_is_recognised(columns, name):
    schema = recognise(columns, DataConfig())
    assert schema.name == name
    assert all(schema.columns[role] in columns for role in SCHEMAS[name].needed)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_recognised_by_its_usual_columns_in_any_order(name):
    columns = [spellings[0] for spellings in SCHEMAS[name].needed.values()]
    assert recognise(columns, DataConfig()) == recognise(columns[::-1], DataConfig())
    assert recognise(columns, DataConfig()).name == name


def test_schema_option_wins_over_recognition():
    schema = recognise(["instruction", "output", "text"], DataConfig(schema="text"))
    assert (schema.name, schema.columns) == ("text", {"text": "text"})


def test_named_columns_decide_the_schema_and_keep_the_other_roles():
    config = DataConfig(columns="instruction=task,output=gold")
    schema = recognise(["task", "gold", "input"], config)
    assert schema.name == "alpaca"
    assert (schema.columns["instruction"], schema.columns["output"], schema.columns["input"]) == (
        "task",
        "gold",
        "input",
    )


def test_a_column_has_one_role():
    config = DataConfig(columns="prompt=instruction,chosen=a,rejected=b")
    schema = recognise(["instruction", "a", "b"], config)
    assert (schema.name, schema.columns["prompt"]) == ("preference", "instruction")


def test_named_column_may_reach_inside():
    config = DataConfig(columns="output=instances.0.output")
    assert recognise(["instruction", "instances"], config).columns["output"] == "instances.0.output"


def test_unrecognised_columns_are_listed_with_what_each_schema_needs():
    with pytest.raises(DatasetError) as error:
        recognise(["id", "body"], DataConfig())
    text = str(error.value)
    assert "are of no known schema; they are: id, body." in text
    assert "alpaca: instruction, output|response" in text
    assert "--columns instruction=question,output=solution" in text
    assert all(f"  {name}: " in text for name in SCHEMAS)


def test_forced_schema_that_does_not_fit_says_so():
    with pytest.raises(DatasetError, match="are not those of --schema sharegpt; they are: text"):
        recognise(["text"], DataConfig(schema="sharegpt"))


def test_named_column_that_does_not_exist():
    with pytest.raises(
        DatasetError, match="--columns names gold, not found in the dataset; its columns are: a, b"
    ):
        recognise(["a", "b"], DataConfig(columns="instruction=a,output=gold"))


@pytest.mark.parametrize("text", ["instruction", "=a", "a=", "a=b,c"])
def test_columns_option_must_be_pairs(text):
    with pytest.raises(ConfigError, match="--columns takes role=column,role=column"):
        parse_columns(text)


def test_unknown_role_lists_the_roles():
    with pytest.raises(ConfigError, match=r"gives the roles nonsense, .*alpaca: instruction,output,input"):
        recognise(["a"], DataConfig(columns="nonsense=a"))
    assert parse_columns(" a = b , c=d ") == {"a": "b", "c": "d"}
    assert parse_columns(None) == {}
