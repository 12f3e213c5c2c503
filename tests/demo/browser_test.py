"""The report in a real browser: renders, no console errors, every picture there, narrow windows."""

import made_run
import pytest
from mhc_kernels.demo import report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService("/usr/bin/chromedriver")
    )
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    made_run.write(folder)
    return report.write(folder)


def show(browser, page, width, dark):
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1200])
def test_page(browser, page, width, dark):
    show(browser, page, width, dark)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    pictures = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.currentSrc])"
    )
    assert len(pictures) == 12
    assert all(complete and size > 100 for complete, size, _ in pictures)
    sources = browser.execute_script(
        "return [...document.querySelectorAll('source')].map(s => s.srcset)"
    )
    assert ([p[2] for p in pictures] == sources) is dark
    ink = browser.execute_script("return getComputedStyle(document.body).color")
    assert (ink == "rgb(230, 237, 243)") is dark
    heads = browser.execute_script("return [...document.querySelectorAll('h2')].length")
    assert heads == 7


def test_axis_is_chosen_without_a_script(browser, page):
    show(browser, page, 800, False)
    shown = lambda name: browser.execute_script(
        f"return getComputedStyle(document.querySelector('.{name}')).display !== 'none'"
    )
    assert shown("by-step") and not shown("by-time")
    browser.execute_script("document.getElementById('by-time').click()")
    assert shown("by-time") and not shown("by-step")
