"""Tests gradscore.report.readings: a symptom is found from its number, and unknown where there is none."""

import pytest

from gradscore.report.profile import Profile
from gradscore.report.readings import Reading, readings_of


def reading(name: str, **values: float) -> Reading:
    found = readings_of(Profile(values, {}), {}, None)
    return next(each for each in found if each.name == name)


@pytest.mark.parametrize(
    ("name", "healthy", "ill"),
    [
        ("homogeneous", {"pair_cosine_mean": 0.15}, {"pair_cosine_mean": 0.8}),
        (
            "homogeneous",
            {"pair_cosine_share_high": 0.0},
            {"pair_cosine_mean": 0.5, "pair_cosine_share_high": 0.3},
        ),
        ("contradictory", {"pair_cosine_mean": 0.1}, {"pair_cosine_mean": -0.1}),
        ("low_snr", {"gsnr_over_floor": 3.0}, {"gsnr_over_floor": 1.1}),
        ("polarised", {"norm_spread": 5.0}, {"norm_spread": 50.0}),
        ("layers", {"layers_middle": 3.0, "layers_top": 1.0}, {"layers_top": 30.0}),
        ("noisy_order", {"gsnr_error_over_spread": 0.3}, {"gsnr_error_over_spread": 2.0}),
        ("duplicates", {"duplicate_share": 0.0}, {"duplicate_share": 0.2}),
    ],
)
def test_found_by_its_number(name: str, healthy: dict[str, float], ill: dict[str, float]) -> None:
    assert reading(name, **healthy).state == "fine"
    assert reading(name, **ill).state == "found"
    assert dict(reading(name, **ill).evidence) == ill
    assert reading(name).state == "unknown"


def test_correlations_and_categories_count_and_what_was_found_comes_first() -> None:
    found = readings_of(Profile({"norm_spread": 2.0}, {}), {"length": -0.9, "loss": 0.1}, 0.5)
    assert [each.name for each in found if each.state == "found"] == ["is_length", "is_category"]
    assert [each.state for each in found] == sorted(
        (each.state for each in found), key=["found", "fine", "unknown"].index
    )
