"""Open the dataset, the model, and what turns rows of the one into tokens of the other."""

from gradscore.config import RunConfig
from gradscore.data.encode import Encoder
from gradscore.data.read import RowSource, open_source
from gradscore.data.schemas import recognise
from gradscore.errors import ConfigError
from gradscore.model.load import LoadedModel, context_length, load_model
from gradscore.records import Reporter

DEFAULT_MAX_LENGTH = 2048


def open_data_and_model(config: RunConfig, reporter: Reporter) -> tuple[RowSource, Encoder, LoadedModel]:
    """Open the dataset first, because that is quick and most mistakes are there; then the model."""
    source = open_source(config.data)
    schema = recognise(source.record.columns, config.data)
    # vmap has no batched rule for fused attention; the other engines take what the model has.
    loaded = load_model(config.model, "eager" if config.gradients.engine == "vmap" else None, reporter)
    limit = context_length(loaded.model)
    max_length = config.data.max_length or min(DEFAULT_MAX_LENGTH, limit or DEFAULT_MAX_LENGTH)
    if limit is not None and max_length > limit:
        raise ConfigError(
            f"--max-length {max_length} is more than the {limit} tokens that {loaded.name} can take. "
            "Pass a smaller --max-length, or leave it out."
        )
    encoder = Encoder(loaded.tokenizer, config.data, max_length, schema)
    reporter.message(f"Data: {source.record.dataset}, {source.record.n_rows} rows, schema {schema.name}")
    reporter.message(f"Text: {encoder.renderer.summary}, at most {max_length} tokens")
    reporter.message(f"Model: {loaded.description}")
    return source, encoder, loaded
