"""The real page in a real browser: opened from disk, used, and found silent."""

from __future__ import annotations

import csv
import json
import shutil
import time

import pytest

from gelato import compare
from gelato.report.page import write_report
from gelato.report.rivals import summarise_rows
from gelato.text import paired_difference, percent_margin, printable
from support.small_graphs import community_graph

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,  # a browser starts for every page
    pytest.mark.skipif(
        not (BROWSER and DRIVER),
        reason="no chromium or chromedriver here: apt-get install chromium "
        "chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--disable-dev-shm-usage"),
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    logs = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.get("about:blank")  # the browser's own first page is not ours to judge
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, run_page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(run_page, encoding="utf-8")
    yield from opened(browser, path, browser)


def opened(browser, path, given):
    """Open a page; afterwards nothing may have been requested or logged."""
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("performance")
    browser.get(path.as_uri())
    yield given
    asked = []
    for entry in browser.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            asked.append(event["params"]["request"]["url"])
    assert path.as_uri() in asked  # requests are seen at all
    local = ("data:", "blob:", "chrome:", path.as_uri())
    assert [url for url in asked if not url.startswith(local)] == []
    assert browser.get_log("browser") == []


@pytest.fixture
def comparison(browser, tmp_path):
    """A page about three models on three splits."""
    graph = community_graph(60)
    table = compare(graph, ["cn", "ac", "pa"], splits=3, protocols=["all", "sampled"])
    summary = summarise_rows(
        [dict(row, run="", seconds=0.1) for row in table.to_dicts()]
    )
    path = write_report(summary, tmp_path / "comparison.html")
    yield from opened(browser, path, summary)


def column(page, number):
    rows = page.find_elements(By.CSS_SELECTOR, "#links tbody > tr:first-child")
    return [
        row.find_elements(By.TAG_NAME, "td")[number].text
        for row in rows
        if row.is_displayed()
    ]


def test_links_are_sorted_by_click_and_by_key(page, run_summary):
    links = run_summary["prediction"]["links"]
    assert column(page, 0) == [str(link["rank"]) for link in links]
    heads = page.find_elements(By.CSS_SELECTOR, "#links thead th")
    score = next(head for head in heads if head.text.strip() == "score")
    score.find_element(By.TAG_NAME, "button").click()
    assert score.get_attribute("aria-sort") == "descending"
    score.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert score.get_attribute("aria-sort") == "ascending"
    ranks = [int(rank) for rank in column(page, 0)]
    scores = {link["rank"]: link["score"] for link in links}
    assert [scores[r] for r in ranks] == sorted(scores.values())
    assert heads[0].get_attribute("aria-sort") is None
    common = next(h for h in heads if h.text.split() == ["common", "neighbours"])
    common.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    shown = [int(text) for text in column(page, heads.index(common))]
    assert shown == sorted(shown, reverse=True)


def test_links_are_filtered(page, run_summary):
    links = run_summary["prediction"]["links"]
    field = page.find_element(By.ID, "filter")
    field.send_keys("ONERROR")
    expected = [
        str(link["rank"])
        for link in links
        if "onerror" in f"{link['source']} {link['target']}"
    ]
    assert column(page, 0) == expected != []
    told = page.find_element(By.ID, "shown").text
    assert told == f"{len(expected)} of {len(links)} links"
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(Keys.BACKSPACE)
    assert len(column(page, 0)) == len(links)


def test_protocol_switch_shows_the_biased_curves(page):
    parts = {
        name: page.find_element(By.CSS_SELECTOR, f"[data-protocol={name}]")
        for name in ("exact", "biased")
    }
    assert parts["exact"].is_displayed()
    assert not parts["biased"].is_displayed()
    radio = page.find_element(By.CSS_SELECTOR, "input[name=protocol][value=exact]")
    radio.send_keys(Keys.ARROW_RIGHT)  # the keyboard flips it, too
    assert parts["biased"].is_displayed()
    assert not parts["exact"].is_displayed()
    assert "BIASED" in parts["biased"].text
    radio.click()
    assert parts["exact"].is_displayed()


def test_explanation_expands(page, run_summary):
    button = page.find_element(By.CSS_SELECTOR, "#links button.why")
    detail = page.find_element(By.ID, button.get_attribute("aria-controls"))
    assert not detail.is_displayed()
    button.send_keys(Keys.ENTER)
    assert detail.is_displayed()
    assert button.get_attribute("aria-expanded") == "true"
    walk = run_summary["prediction"]["links"][0]["why"]["walks"][0]
    shown = detail.find_element(By.CSS_SELECTOR, ".path").text
    for node in walk["nodes"]:
        assert printable(node) in shown
    button.click()
    assert not detail.is_displayed()


def test_values_are_read_off_charts_and_heat_maps(page, run_summary):
    chart = page.find_element(By.CSS_SELECTOR, "#curves svg[data-reading]")
    chart.send_keys(Keys.ARROW_RIGHT)
    told = chart.find_element(By.XPATH, "../output").text
    assert told.startswith(f"k {run_summary['curves']['exact']['k'][0]}: gelato ")
    image = page.find_element(By.CSS_SELECTOR, ".heat img")
    image.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    nodes = [printable(node) for node in run_summary["heat_maps"]["nodes"][:2]]
    told = page.find_element(By.ID, "heat-reading").get_property("value")
    assert told.startswith(f"{nodes[0]} and {nodes[1]}: input adjacency ")


def test_download_is_csv_without_formulas(page, run_summary, tmp_path):
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    page.find_element(By.ID, "download").click()
    path = tmp_path / "links.csv"
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, link in zip(rows, run_summary["prediction"]["links"], strict=True):
        for key in ("source", "target"):
            guard = "'" if link[key].startswith("=") else ""
            assert row[key] == guard + link[key]
        assert float(row["score"]) == link["score"]


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_only_tables_scroll_sideways(page, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.find_element(By.CSS_SELECTOR, "#links button.why").send_keys(Keys.ENTER)
    wide = page.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width


def test_dark_and_print_have_colours_of_their_own(page):
    def colours(**media):
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        return page.execute_script(
            "const s = getComputedStyle(document.body); "
            "return [s.backgroundColor, s.color]"
        )

    def scheme(value):
        return {"features": [{"name": "prefers-color-scheme", "value": value}]}

    light, dark = colours(**scheme("light")), colours(**scheme("dark"))
    paper = colours(media="print", **scheme("light"))
    colours(media="", features=[])
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert paper == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]


def test_comparison_has_intervals_and_sorts_by_difference(comparison, browser):
    rows = browser.find_elements(
        By.CSS_SELECTOR, "#ranking-table tbody:first-of-type tr"
    )
    fair = [entry for entry in comparison["ranking"] if not entry["biased"]]
    for row, entry in zip(rows, fair, strict=True):
        cells = [cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")]
        found = entry["difference"]["ap"]
        assert cells[0] == entry["model"]
        assert cells[2] == percent_margin(entry["mean"]["ap"], entry["interval"]["ap"])
        assert cells[3] == paired_difference(found)
    assert " ± " in rows[-1].text
    heads = browser.find_elements(By.CSS_SELECTOR, "#ranking-table thead button")
    heads[3].click()
    heads[3].click()
    first = browser.find_element(By.CSS_SELECTOR, "#ranking-table tbody tr th").text
    lowest = min(fair[1:], key=lambda entry: entry["difference"]["ap"]["value"])
    assert first == lowest["model"]
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg .whisker")) == 3
    told = browser.find_element(By.ID, "meaning").text
    assert "over 3 splits" in told
    size = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 360
