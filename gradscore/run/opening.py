"""Open the dataset, the model, and what turns rows of the one into tokens of the other."""

from typing import NamedTuple

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from gradscore.config import RunConfig
from gradscore.data.encode import Encoder
from gradscore.data.read import RowSource, open_source
from gradscore.data.schemas import Schema, recognise
from gradscore.errors import ConfigError
from gradscore.model.load import LoadedModel, context_length, load_model, load_text
from gradscore.records import Reporter

DEFAULT_MAX_LENGTH = 2048


class Opened(NamedTuple):
    """What a run works on."""

    source: RowSource
    encoder: Encoder
    loaded: LoadedModel


def open_data_and_model(config: RunConfig, reporter: Reporter) -> Opened:
    """Return the dataset, its encoder and the model; the dataset first, since most mistakes are there."""
    source, schema = _open_data(config, reporter)
    # vmap has no batched rule for fused attention; the other engines take what the model has.
    loaded = load_model(config.model, "eager" if config.gradients.engine == "vmap" else None, reporter)
    encoder = _make_encoder(config, loaded.tokenizer, loaded.model.config, schema, reporter)
    reporter.message(f"Model: {loaded.description}")
    return Opened(source, encoder, loaded)


def open_data_and_text(config: RunConfig, reporter: Reporter) -> tuple[RowSource, Encoder]:
    """Return the dataset and its encoder without reading the model's weights."""
    source, schema = _open_data(config, reporter)
    text = load_text(config.model, reporter)
    return source, _make_encoder(config, text.tokenizer, text.config, schema, reporter)


def _open_data(config: RunConfig, reporter: Reporter) -> tuple[RowSource, Schema]:
    source = open_source(config.data)
    schema = recognise(source.record.columns, config.data)
    reporter.message(f"Data: {source.record.dataset}, {source.record.n_rows} rows, schema {schema.name}")
    return source, schema


def _make_encoder(
    config: RunConfig,
    tokenizer: PreTrainedTokenizerBase,
    model_config: PretrainedConfig,
    schema: Schema,
    reporter: Reporter,
) -> Encoder:
    limit = context_length(model_config)
    max_length = config.data.max_length or min(DEFAULT_MAX_LENGTH, limit or DEFAULT_MAX_LENGTH)
    if limit is not None and max_length > limit:
        raise ConfigError(
            f"--max-length {max_length} is more than the {limit} tokens that {config.model.model} can take. "
            "Pass a smaller --max-length, or leave it out."
        )
    encoder = Encoder(tokenizer, config.data, max_length, schema)
    reporter.message(f"Text: {encoder.renderer.summary}, at most {max_length} tokens")
    return encoder
