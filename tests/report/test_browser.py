"""Tests the page in headless Chromium: it draws, sorts, searches, answers the mouse, and logs no error."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradscore.config import FilterConfig
from gradscore.records import SilentReporter
from gradscore.report.make import ReportOptions, make_report
from tests.report.tables import make_table

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver (Debian: chromium-driver)"
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    folder = tmp_path_factory.mktemp("browser")
    page = folder / "report.html"
    config = FilterConfig(table=str(make_table(folder)), top_k="0.3")
    make_report(config, ReportOptions(output=str(page)), SilentReporter())
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.get(Path(page).as_uri())
    yield driver
    driver.quit()


def see(browser: Any, picture: str) -> Any:
    """Scroll to a picture and return its element once it is drawn."""
    from selenium.webdriver.support.wait import WebDriverWait

    element = browser.find_element("css selector", f'[data-chart="{picture}"]')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    WebDriverWait(browser, 20).until(lambda _: element.find_elements("css selector", "svg"))
    return element


def shown_rows(browser: Any) -> list[int]:
    script = "return [...document.querySelectorAll('#examples tbody tr:not([hidden])')].map(r => +r.cells[1].dataset.value)"
    return browser.execute_script(script)


def test_every_visible_picture_is_drawn(browser: Any) -> None:
    for picture in (
        "cut",
        "scatter-loss",
        "distribution-gsnr",
        "categories",
        "pair-cosines",
        "layers",
        "layers-by-view",
        "overlaps",
    ):
        assert see(browser, picture).size["width"] > 200


def test_hover_shows_the_row(browser: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.wait import WebDriverWait

    mark = see(browser, "scatter-loss").find_elements("css selector", ".mark-symbol path")[5]
    ActionChains(browser).move_to_element(mark).perform()
    tooltip = WebDriverWait(browser, 5).until(
        lambda driver: driver.find_element("css selector", "#vg-tooltip-element.visible")
    )
    assert "row" in tooltip.text
    assert "gsnr" in tooltip.text


def test_a_click_on_a_heading_sorts_both_ways(browser: Any) -> None:
    loss = next(
        button
        for button in browser.find_elements("css selector", "#examples th button")
        if button.text.strip() == "loss"
    )
    before = shown_rows(browser)
    browser.execute_script("arguments[0].click()", loss)
    up = shown_rows(browser)
    browser.execute_script("arguments[0].click()", loss)
    down = shown_rows(browser)
    assert up == sorted(before)  # loss rises with the row index
    assert down == sorted(before, reverse=True)


def test_search_narrows_to_the_rows_that_have_every_word(browser: Any) -> None:
    search = browser.find_element("id", "search")
    search.send_keys("onerror src")
    assert sorted(shown_rows(browser)) == [1, 6]
    search.clear()
    search.send_keys(" ")
    assert len(shown_rows(browser)) > 20


def test_the_theme_changes_paper_and_pictures(browser: Any) -> None:
    def paper() -> str:
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    before = paper()
    browser.find_element("id", "theme").click()
    assert paper() != before


def test_nothing_in_a_row_ran_and_the_console_is_silent(browser: Any) -> None:
    assert browser.execute_script("return window.attacked") is None
    assert browser.find_elements("css selector", "h1")[0].text.startswith("What the scores")
    assert len(browser.find_elements("css selector", "h1")) == 1
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_it_fits_a_phone(browser: Any) -> None:
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
