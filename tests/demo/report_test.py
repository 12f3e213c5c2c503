"""The report has its parts, needs no network, says what failed, and lives with missing parts."""

import base64
import re

import made_run
import pytest
from mhc_kernels.demo import report

PICTURES = {
    "bench",
    "entropy",
    "gain",
    "gates",
    "h_res_kernel",
    "h_res_unconstrained",
    "loss_by_step",
    "loss_by_time",
    "norms",
    "overview",
    "runs",
    "sums",
}


def page_of(folder, **options):
    made_run.write(folder, **options)
    return report.write(folder).read_text()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def page(made):
    return page_of(made)


def sections(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_parts(made, page):
    assert sections(page) == [
        "Checks",
        "Equality",
        "Speed and memory of one site",
        "Training",
        "The streams",
        "Text from the trained model",
        "To repeat this",
    ]
    assert page.count("x_next") == 13
    written = {made / "report.html", *(made / "pictures").iterdir()}
    assert written == {f for pattern in report.MADE for f in made.glob(pattern)}
    assert {f.stem for f in (made / "pictures").glob("*.png")} == PICTURES
    # Each picture twice, light and dark; all different.
    uris = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    assert len(uris) == len(set(uris)) == 2 * len(PICTURES)
    assert all(base64.b64decode(u).rstrip().endswith(b"</svg>") for u in uris)
    for text in (
        "A Processor (R)",
        "python 3.11.2, jax 0.10.2.",
        "avx2",
        "unconstrained: step 7: layer 3 mlp is not finite",
        "1,234,567",
        "python -m mhc_kernels.demo --out &#39;a b&#39;",
    ):
        assert text in page
    assert "FAILED" not in page and "Everything passed." in page


def test_needs_no_network(page):
    sources = re.findall(r"(?:src|srcset|href)=\"([^\"]*)\"", page)
    assert sources and all(s.startswith("data:") for s in sources)
    assert "<script" not in page and "url(" not in page and "@import" not in page


def test_text_is_escaped(page):
    assert "return &lt;b&gt;x&lt;/b&gt; &amp; &#34;y&#34;" in page and "<b>x</b>" not in page


def test_failed_checks_show(tmp_path):
    page = page_of(tmp_path, checks_pass=False)
    assert "FAILED" in page and "Not everything passed." in page


def test_training_alone(tmp_path):
    page = page_of(tmp_path, parts=False, manifold="sinkhorn")
    assert "Equality" not in page and "Speed and memory of one site" not in page
    drawn = {f.stem for f in (tmp_path / "pictures").glob("*.png")}
    assert drawn == PICTURES - {"bench", "entropy"}  # the latter is about permutations


def test_same_run_same_page(made, page):
    assert report.write(made).read_text() == page


def test_no_summary(tmp_path):
    with pytest.raises(FileNotFoundError, match="summary.json"):
        report.write(tmp_path)
