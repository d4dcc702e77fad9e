"""Tests cli/equivalent.py: the command that is printed gives the same configuration again."""

import shlex

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradscore.cli import filter, score
from gradscore.cli.equivalent import equivalent_command
from gradscore.cli.main import main
from gradscore.config import DataConfig, EmitConfig, FilterConfig, ModelConfig, RunConfig, TableConfig
from tests.cli.conftest import FakePipeline

# A value that begins with a dash would read as a flag; no path or column of ours does.
words = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F), min_size=1).filter(
    lambda w: w[0] != "-"
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    dataset=words,
    limit=st.none() | st.integers(1, 10**9),
    learning_rate=st.floats(1e-9, 10),
    resume=st.booleans(),
    overwrite=st.booleans(),
)
def test_score_round_trip(
    pipeline: FakePipeline,
    dataset: str,
    limit: int | None,
    learning_rate: float,
    resume: bool,
    overwrite: bool,
) -> None:
    config = RunConfig(
        data=DataConfig(dataset=dataset, limit=limit),
        model=ModelConfig(model="m", learning_rate=learning_rate),
        table=TableConfig(output="s.parquet", resume=resume, overwrite=overwrite),
    )
    pipeline.configs.clear()
    program, *arguments = shlex.split(equivalent_command("score", score.OFFER, config))
    assert program == "gradscore"
    assert main(arguments) == 0
    assert pipeline.configs == [config]


def test_defaults_are_left_out_and_the_table_stands_first() -> None:
    config = RunConfig(
        filter=FilterConfig(table="my scores.parquet", top_k="0.7"), emit=EmitConfig("k.jsonl")
    )
    command = equivalent_command("filter", filter.OFFER, config)
    assert command == "gradscore filter 'my scores.parquet' --top-k 0.7 --output k.jsonl"
