"""The command that a configuration amounts to, so that a person can repeat and change what the demo did."""

import dataclasses
import shlex

from gradscore.cli.options import Offer, flag_of
from gradscore.config import SECTIONS, RunConfig


def equivalent_command(command: str, offer: Offer, config: RunConfig) -> str:
    """Return the shell command whose options give `config`; what has its default value is left out."""
    words = ["gradscore", command]
    for section, name in offer.fields:
        value = getattr(getattr(config, section), name)
        default = next(f.default for f in dataclasses.fields(SECTIONS[section]) if f.name == name)
        if value == default:
            continue
        if name == offer.positional:
            words.insert(2, str(value))
        elif isinstance(value, bool):
            words.append(flag_of(name) if value else flag_of(f"no_{name}"))
        else:
            words += [flag_of(name), str(value)]
    return shlex.join(words)
