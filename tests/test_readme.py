"""Tests that what README.md, docs/cli.md and configs/ say is true: commands run, names exist, nothing is stale."""

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gradscore.cli.main import COMMANDS
from gradscore.cli.options import build_config
from gradscore.records import ScoredRow
from scripts.make_cli_docs import TARGET, make_page

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def blocks(language: str) -> list[str]:
    """Return the README's fenced blocks of one language, in order."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", README)


def run(command: list[str], folder: Path) -> None:
    """Run one command of the README where a reader would: the package's scripts on the path, no network."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_commands_run_in_order_and_leave_what_they_name(tmp_path: Path) -> None:
    for block in blocks("sh"):
        run(["bash", "-euc", block], tmp_path)
    for block in blocks("python"):
        run([sys.executable, "-c", block], tmp_path)
    named = {
        word for block in blocks("sh") for word in shlex.split(block) if word.endswith((".jsonl", ".parquet"))
    }
    assert len(named) >= 5
    assert [name for name in sorted(named) if not (tmp_path / name).exists()] == []
    assert (tmp_path / "kept.manifest.json").exists()
    assert (tmp_path / "kept.dropped.parquet").exists()
    assert (tmp_path / "scores.run" / "config.yaml").exists()


def test_the_first_two_blocks_are_the_two_commands() -> None:
    demo, check = blocks("bash")
    assert demo == "scripts/setup && .venv/bin/gradscore demo\n"
    assert check.strip() in (ROOT / ".ci" / "run").read_text()
    assert README.index(demo) < README.index(check) < README.index("## Use it")


@pytest.mark.parametrize("script", [".ci/run", "scripts/setup", "scripts/test"])
def test_scripts_can_be_executed(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)


def test_every_column_of_the_table_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", README))
    assert set(ScoredRow.__dataclass_fields__) <= named


def test_every_link_leads_to_a_file() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_folder_of_the_tree_exists_and_every_package_folder_is_in_it() -> None:
    (tree,) = blocks("text")
    named = set(re.findall(r"(?m)^ *(\w+)/", tree))
    packages = {path.parent.name for path in (ROOT / "gradscore").glob("*/__init__.py")}
    assert packages <= named
    assert all((ROOT / name).is_dir() or (ROOT / "gradscore" / name).is_dir() for name in named)


def test_the_page_of_commands_is_fresh() -> None:
    assert TARGET.read_text(encoding="utf-8") == make_page(), "run scripts/make_cli_docs.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_stands_in_the_docs_with_its_options(name: str) -> None:
    section = TARGET.read_text(encoding="utf-8").split(f"## gradscore {name}\n")[1].split("\n## ")[0]
    assert COMMANDS[name].run.__doc__.splitlines()[0] in section
    assert COMMANDS[name].EXAMPLE.removeprefix("Example: ") in section
    for _, field in COMMANDS[name].OFFER.fields:
        assert f"--{field.replace('_', '-')}" in section or f"`{field.upper()}`" in section


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_each_configuration_opens_with_commands_that_load_it(path: Path) -> None:
    first, *others = path.read_text(encoding="utf-8").splitlines()
    commands = [line for line in [first, *others] if line.startswith("# gradscore ")]
    assert first in commands
    for line in commands:
        words = shlex.split(line.removeprefix("# gradscore "))
        module = COMMANDS[words[0]]
        assert words[words.index("--config") + 1] == f"configs/{path.name}"
        given = {flag[2:].replace("-", "_"): value for flag, value in pairwise(words) if flag[:2] == "--"}
        if module.OFFER.positional:
            given[module.OFFER.positional] = words[1]
        by_section = {
            section: {name: given[name] for s, name in module.OFFER.fields if s == section and name in given}
            for section, _ in module.OFFER.fields
        }
        assert build_config(module.OFFER, by_section, str(path)) is not None


def test_there_are_configurations() -> None:
    assert len(CONFIGS) >= 3
