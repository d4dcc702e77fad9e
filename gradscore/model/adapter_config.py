"""Read the configuration of a PEFT adapter, and say clearly when there is none that can be used."""

from pathlib import Path

from huggingface_hub.errors import HFValidationError
from peft import PeftConfig

from gradscore.errors import ModelError, UnsupportedError


def read_adapter_config(name: str) -> PeftConfig:
    """Return the configuration of a LoRA adapter, from a folder or the Hub.

    Raises:
        ModelError: there is no adapter of that name.
        UnsupportedError: it is another kind of adapter.
    """
    try:
        adapter_config = PeftConfig.from_pretrained(name)
    except (ValueError, OSError, HFValidationError, TypeError, KeyError) as error:
        found = "exists, but holds" if Path(name).exists() else "is no folder here, and the Hub gave"
        raise ModelError(
            f"The adapter {name} {found} no readable adapter_config.json. Pass a folder that PEFT's save_pretrained wrote."
        ) from error
    if adapter_config.peft_type != "LORA":
        kind = getattr(adapter_config.peft_type, "value", adapter_config.peft_type)
        raise UnsupportedError(
            f"{name} is a {kind} adapter; LoRA adapters (also rsLoRA and DoRA) are supported. Merge it into its model first."
        )
    return adapter_config
