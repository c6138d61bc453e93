#!/usr/bin/env python3
"""Opens a report's page in headless Chromium and checks it at phone and desktop width, in dark mode and
in print. Needs Playwright (requirements.txt) and Chromium; exits with 77 where one is missing.

Usage: browser_test.py REPORT.html [--screenshots DIR]
       browser_test.py --render RENDER_PAGE [--screenshots DIR]    checks pages of made-up reports
"""
import argparse
import csv
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print(f"skipped: {sys.executable} has no playwright (tests/report_page/requirements.txt)")
    sys.exit(77)

HERE = pathlib.Path(__file__).parent
PHONE, DESKTOP = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
PLOTS = ["frontier", "length", "condition", "heat", "time", "shapes"]
STUDY = {"frontier": "inputs", "length": "length", "condition": "condition", "heat": "inputs", "types": "types", "files": "files",
         "operations": "operations"}


class Page:
    """A page in a fresh context, with what went wrong in it; close() fails on any of that."""

    def __init__(self, browser, path, viewport, **how):
        self.context = browser.new_context(viewport=viewport, accept_downloads=True, **how)
        self.page = self.context.new_page()
        self.wrong = []
        self.page.on("console", lambda m: self.wrong.append(f"console {m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.wrong.append(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.wrong.append(f"dialog: {d.message}"), d.dismiss()))
        url = path.resolve().as_uri()
        self.page.on("request", lambda r: r.url == url or r.url.startswith(("data:", "blob:")) or self.wrong.append(f"request: {r.url[:200]}"))
        self.page.goto(url)
        self.report = json.loads(self.page.locator("#report").text_content())

    def settle(self):
        """Waits until every figure that the page has is drawn."""
        for name in PLOTS:
            if self.page.locator(f"#{name}").count():
                self.page.wait_for_function(
                    "id => document.querySelector(`#${id} .chart svg, #${id} .chart .empty`) || document.querySelector(`#${id} .empty`).textContent", arg=name)
        self.page.wait_for_timeout(300)

    def close(self):
        self.context.close()
        assert not self.wrong, "\n".join(self.wrong)


def check_layout(p, width):
    over = p.page.evaluate("document.documentElement.scrollWidth")
    assert over <= width, f"the page is {over} wide, the screen {width}"
    for name in PLOTS:
        if not p.page.locator(f"#{name}").count():
            continue
        box = p.page.locator(f"#{name} .chart svg").bounding_box()
        assert box["width"] > 200 and box["height"] > 150, (name, box)
        assert box["x"] >= 0 and box["x"] + box["width"] <= width + 0.5, (name, box)
        marks = p.page.locator(f"#{name} .chart .role-mark [role=graphics-symbol][aria-label]")
        assert marks.count() > 0, f"{name}: no marks with a description"
        # Nothing is cut off: every text lies within the SVG.
        cut = p.page.evaluate("""id => {
          const svg = document.querySelector(`#${id} .chart svg`), outer = svg.getBoundingClientRect();
          return [...svg.querySelectorAll('text')].filter(t => t.textContent && getComputedStyle(t).opacity !== '0').map(t => [t.textContent, t.getBoundingClientRect()])
            .filter(([, b]) => b.width && (b.left < outer.left - 1 || b.right > outer.right + 1 || b.top < outer.top - 1 || b.bottom > outer.bottom + 1))
            .map(([text]) => text)}""", name)
        assert not cut, f"{name}: cut off: {cut}"


def check_stacks(p, width):
    """Tables that are lists on narrow screens: nothing of them needs to be scrolled to, and each value has its label beside it."""
    narrow = width <= 992
    for name in ["operations", "products", "ranks", "contestants"]:
        if p.page.locator(f"#{name}").count():
            assert p.page.locator(f"#{name} .chart table.stack").count() == 1, name
    for table in p.page.locator("table.stack").all():
        caption = table.locator("caption").inner_text()
        at = table.evaluate("""(t, narrow) => {
          const scroll = t.closest('.scroll'), cells = [...t.querySelectorAll('tbody td')].filter(c => c.childNodes.length);
          const shown = c => getComputedStyle(c, '::before').content;
          return {
            over: scroll.scrollWidth - scroll.clientWidth,
            labels: cells.every(c => narrow ? c.dataset.label && [`"${c.dataset.label}"`, 'attr(data-label)'].includes(shown(c)) : shown(c) === 'none'),
            inside: cells.every(c => !narrow || c.getBoundingClientRect().right <= document.documentElement.clientWidth + .5),
            block: getComputedStyle(t).display, roles: t.getAttribute('role') === 'table' && cells.every(c => c.getAttribute('role') === 'cell'),
          }}""", narrow)
        assert at["labels"] and at["inside"] and at["roles"] and at["block"] == ("block" if narrow else "table"), (caption, width, at)
        assert at["over"] <= 0, (caption, width, at)


def check_content(p):
    page, report = p.page, p.report
    assert page.locator("#headlines > li").count() == len(report["headlines"]) == 5
    verdict = page.locator("#findings .verdict").inner_text()
    if report["findings"]:
        assert str(len(report["findings"])) in verdict and page.locator("#findings tbody tr").count() == len(report["findings"])
    else:
        assert "All promises kept" in verdict
    assert page.locator("main").count() == 1 and page.locator("h1").count() == 1 and page.locator("html").get_attribute("lang")
    assert page.locator("section:not([aria-labelledby])").count() == 0
    assert page.locator("select").count() == page.locator("label[for]").count()
    assert page.locator("th:not([scope])").count() == 0
    present = [s for s in STUDY if any(r["study"] == STUDY[s] for r in report["accuracy"])]
    for name in present:
        assert page.locator(f"#{name} figcaption").inner_text(), name
    for m in report["missing"] + report.get("failures", []):
        assert m["why"] in page.locator("#contestants").inner_text()
    wrong = [next(c for c in report["contestants"] if c["id"] == w["contestant"]) for w in report.get("wrong", [])]
    assert page.locator("#wrong").count() == bool(wrong)
    for c, w in zip(wrong, report.get("wrong", [])):
        assert f"{c['name']} ({c['in']}, {c['device']})" in page.locator("#wrong").inner_text()
        assert w["got"] in page.locator("#contestants").inner_text()
        for legend in page.locator(".legend").all():
            shown = legend.inner_text()
            assert c["name"] not in shown or f"{c['name']}, wrong here" in shown


def chosen(page, name):
    """What the controls of a section say: {label: text}."""
    return {c.locator("label").inner_text(): c.locator("option:checked").inner_text() for c in page.locator(f"#{name} .control").all()}


def check_tables(p):
    """The tables, opened by keyboard, have the rows that the data has for the choice of the controls."""
    page, report = p.page, p.report
    info = {c["id"]: c for c in report["contestants"]}
    for name in ["length", "condition", "frontier"]:
        if not page.locator(f"#{name}").count():
            continue
        c = chosen(page, name)
        device = {"CPU": "cpu", "GPU (CUDA)": "cuda"}.get(c.get("Device"))
        rows = [r for r in report["accuracy"] if r["study"] == STUDY[name] and info[r["contestant"]]["main"]
                and c.get("Element type", r["in"]) == r["in"] and c.get("Input", r["input"]) == r["input"]
                and (device is None or info[r["contestant"]]["device"] == device) and (name != "frontier" or r["gbps"] is not None)]
        if "Elements" in c:
            continue
        page.locator(f"#{name} summary").focus()
        page.keyboard.press("Enter")
        table = page.locator(f"#{name} details table")
        table.wait_for()
        assert table.locator("tbody tr").count() == len(rows), (name, table.locator("tbody tr").count(), len(rows))
        assert table.locator("caption").count() == 1 and table.locator("tbody th[scope=row]").count() == len(rows)
    if page.locator("#operations").count():
        c = chosen(page, "operations")
        device = {"CPU": "cpu", "GPU (CUDA)": "cuda"}.get(c.get("Device"), next(iter(info.values()))["device"])
        here = [info[i] for i in dict.fromkeys(r["contestant"] for r in report["accuracy"] if r["study"] == "operations" and r["in"] == c["Element type"])]
        here = [i for i in here if i["device"] == device]
        lines = page.locator("#operations .chart tbody th").all_inner_texts()
        assert lines == list(dict.fromkeys(i.get("op", "sum") for i in here)), lines
        heads = page.locator("#operations .chart thead th").all_inner_texts()
        columns = {}  # {who: operations}
        for i in here:
            if i["family"] != "bitfold" or i["method"] in (None, "tree", "kahan", "exact"):
                columns.setdefault(f"bitfold {i['method']}" if i["method"] in ("kahan", "exact") else i["family"], set()).add(i.get("op", "sum"))
        columns = {who: ops for who, ops in columns.items() if ops != {"sum"}}
        assert heads[:2] == ["operation", "bitfold"] and sorted(heads[1:]) == sorted(columns), heads
        for k, op in enumerate(lines):
            cells = page.locator("#operations .chart tbody tr").nth(k).locator("td").all_inner_texts()
            assert [bool(c) for c in cells] == [op in columns[head] for head in heads[1:]], (op, cells)
        page.locator("#operations summary").press("Enter")
        page.locator("#operations details table").wait_for()
        assert page.locator("#operations details tbody tr").count() == len(here)
    if page.locator("#shapes").count():
        c = chosen(page, "shapes")
        device = {"CPU": "cpu", "GPU (CUDA)": "cuda"}.get(c.get("Device"))
        def of(rows):
            return [r for r in rows if r["in"] == c["Element type"] and r["layout"] == c["Reduce"] and device in (None, info[r["contestant"]]["device"])]
        for layout in ("columns", "rows"):
            page.locator("#shapes select").last.select_option(layout)
            c = chosen(page, "shapes")
            verdicts = page.locator("#shapes > div:not(.controls) > .scroll tbody tr")
            batches = of(report["batches"])
            lengths = list(dict.fromkeys(r["length"] for r in batches))
            assert verdicts.count() == len({info[r["contestant"]]["name"] for r in batches})
            for line in verdicts.all():
                name = line.locator("th").inner_text().removesuffix(", wrong here")
                for length, cell in zip(lengths, line.locator("td").all_inner_texts(), strict=True):
                    mine = [r for r in batches if r["length"] == length and info[r["contestant"]]["name"] == name]
                    changed = [r["changed"] for r in mine if r["changed"] is not None]
                    want = "–" if not mine else f"at {f'2{chr(0xb9)}{chr(0x2070)}' if min(changed) == 1024 else min(changed)}" if changed else "✓"
                    assert cell == want, (name, layout, length, cell, want)
        page.locator("#shapes summary").press("Enter")
        page.locator("#shapes details table").wait_for()
        assert page.locator("#shapes details tbody tr").count() == len(of(report["shapes"]))
    for name, extra in [("products", "product_bits"), ("ranks", None)]:
        if not report.get(name):
            continue
        c = chosen(page, name)
        here = [r for r in report[name] if r["in"] == c.get("Element type", r["in"]) and r["input"] == c.get("Input", r["input"])]
        who = list(dict.fromkeys(info[r["contestant"]]["name"] for r in here))
        assert page.locator(f"#{name} .chart tbody th").all_text_contents() == who, name
        first = page.locator(f"#{name} .chart thead th").all_text_contents()
        assert first[0] == "contestant" and first[1:] == list(dict.fromkeys(r["input"] for r in here)) if name == "products" else "2 ranks" in first
        if extra:
            verdicts = page.locator(f"#{name} > div:not(.controls) > .scroll tbody tr")
            for line, who_is in zip(verdicts.all(), who, strict=True):
                row = next(r for r in report[extra] if info[r["contestant"]]["name"] == who_is and r["in"] == here[0]["in"])
                cells = line.locator("td").all_text_contents()
                for cell, key in zip(cells, ["way_results", "batch_results", "layout_results"]):
                    alone = key == "way_results" and row["ways"] == 1
                    assert cell.startswith("one way" if alone else "✓" if row[key] == 1 else f"{row[key]} results"), (who_is, key, cell)
        page.locator(f"#{name} summary").press("Enter")
        page.locator(f"#{name} details table").wait_for()
        assert page.locator(f"#{name} details tbody tr").count() == len(here)
    page.locator("#heat summary").press("Enter")
    inputs = {r["input"] for r in report["accuracy"] if r["study"] == "inputs"}
    page.locator("#heat details table").wait_for()
    assert page.locator("#heat details tbody tr").count() <= len(inputs)
    page.locator("#inputs summary").press("Enter")
    page.locator("#inputs table").wait_for()
    assert page.locator("#inputs tbody th").all_inner_texts() == [i["id"].replace("\u2028", "\n") for i in report["inputs"]] or \
        page.locator("#inputs tbody th").all_text_contents() == [i["id"] for i in report["inputs"]]


def check_controls(p):
    """By keyboard: a choice redraws its figure, a name below it hides and shows its marks."""
    page = p.page
    def drawn():
        return page.locator("#frontier .chart svg").evaluate("e => e.outerHTML")
    before = drawn()
    select = page.locator("#frontier select").last
    select.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("old => { const e = document.querySelector('#frontier .chart svg'); return e && e.outerHTML !== old }", arg=before)
    marks = page.locator("#frontier .chart .role-mark [role=graphics-symbol][aria-label]")
    shown = marks.count()
    assert shown == page.locator("#frontier .legend button[aria-pressed=true]").count(), "a mark for each contestant"
    button = page.locator("#frontier .legend button[aria-pressed=true]").first
    name = button.text_content()
    button.focus()
    before = drawn()
    page.keyboard.press("Space")
    page.wait_for_function("old => { const e = document.querySelector('#frontier .chart svg'); return e && e.outerHTML !== old }", arg=before)
    assert marks.count() == shown - 1, (marks.count(), shown)
    assert page.evaluate("document.activeElement.textContent") == name, "the focus is lost"
    before = drawn()
    page.keyboard.press("Space")
    page.wait_for_function("old => { const e = document.querySelector('#frontier .chart svg'); return e && e.outerHTML !== old }", arg=before)
    assert marks.count() == shown


def check_tooltip(p):
    """Pointing at a mark shows its description, as text."""
    marks = p.page.locator("#frontier .chart .role-mark [role=graphics-symbol][aria-label]")
    mark = next((m for m in marks.all() if "<i>" in m.get_attribute("aria-label")), marks.first)
    mark.hover(force=True)
    tooltip = p.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert tooltip.inner_text() == mark.get_attribute("aria-label")


def check_downloads(p):
    page, report = p.page, p.report
    def get(locator):
        with page.expect_download() as d:
            locator.press("Enter")
        return d.value.suggested_filename, pathlib.Path(d.value.path()).read_bytes().decode("utf-8")
    name, text = get(page.locator("#download"))
    assert name == "report.json" and json.loads(text) == report
    expected = {"time": report["speed"], "shapes": report.get("shapes", []), "products": report.get("products", []), "ranks": report.get("ranks", []), "bits": report["bits"], "inputs": report["inputs"], "contestants": report["contestants"],
                **{k: [r for r in report["accuracy"] if r["study"] == v and (k != "frontier" or r["gbps"] is not None)] for k, v in STUDY.items()}}
    for section, rows in expected.items():
        if not rows:
            continue
        page.wait_for_timeout(250)  # Chromium drops downloads that come faster
        name, text = get(page.locator(f"#{section} .data button"))
        assert name == f"{section}.csv"
        got = list(csv.reader(io.StringIO(text, newline="")))
        assert got[0] == list(rows[0]) and len(got) == len(rows) + 1, section
        column = got[0].index("input" if "input" in rows[0] else "id" if "id" in rows[0] else "contestant")
        assert [g[column] for g in got[1:]] == [r[got[0][column]] for r in rows], section


def check_hostile(p):
    """Text that looks like markup stands on the page as text."""
    page = p.page
    hostile = next(i["id"] for i in p.report["inputs"] if "<script>" in i["id"])
    page.locator("#files summary").press("Enter")
    page.locator("#files details table").wait_for()
    assert hostile in page.locator("#files details tbody th").all_text_contents()
    assert page.locator("img").count() == 0 and page.locator("main b:not(.digest b)").count() == 0
    assert page.locator("script").count() == 4, "scripts: the report, the specs, the plot library and ours"


def check_dark(p):
    ink, paper, label = p.page.evaluate("""[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor,
      getComputedStyle(document.querySelector('#length .chart .role-axis-label text')).fill]""")
    light = [sum(map(int, c[c.index("(") + 1:-1].split(",")[:3])) for c in (ink, paper, label)]
    assert light[0] > 600 and light[1] < 120 and light[2] > 400, (ink, paper, label)


def check_print(p, pdf):
    page = p.page
    page.pdf(path=pdf, format="A4", print_background=True)
    assert pathlib.Path(pdf).stat().st_size > 20_000
    page.emulate_media(media="print")
    assert not page.locator(".controls").first.is_visible() and not page.locator(".data").first.is_visible()
    assert page.locator("#length .chart svg").is_visible()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)", f"printed on {background}"


def check(browser, path, shots, hostile):
    def shoot(p, name):
        if shots:
            p.page.screenshot(path=shots / f"{name}.png", full_page=True)

    for name, viewport, scheme in [("desktop", DESKTOP, "light"), ("phone", PHONE, "light"), ("desktop-dark", DESKTOP, "dark"), ("phone-dark", PHONE, "dark")]:
        p = Page(browser, path, viewport, color_scheme=scheme)
        p.settle()
        shoot(p, name)
        check_layout(p, viewport["width"])
        check_stacks(p, viewport["width"])
        check_content(p)
        if scheme == "dark":
            check_dark(p)
            check_print(p, (shots or pathlib.Path(tempfile.gettempdir())) / f"{name}.pdf")
        else:
            check_tooltip(p)
            check_controls(p)
            check_tables(p)
            check_downloads(p)
            if hostile:
                check_hostile(p)
            shoot(p, name + "-tables")
            p.page.set_viewport_size({"width": 500, "height": 740})  # the figures follow
            p.page.wait_for_timeout(1500)
            check_layout(p, 500)
            check_stacks(p, 500)
            p.page.set_viewport_size({"width": 900, "height": 740})
            check_stacks(p, 900)
        p.close()
        print(f"ok: {path.name}, {name}")


def check_without_plots(browser, path):
    p = Page(browser, path, PHONE)
    check_content(p)
    assert "without the plot library" in p.page.locator("#length .chart").inner_text()
    p.page.locator("#length summary").press("Enter")
    p.page.locator("#length details table").wait_for()
    p.close()
    print(f"ok: {path.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=pathlib.Path)
    parser.add_argument("--render", help="the executable render_page")
    parser.add_argument("--screenshots", type=pathlib.Path)
    args = parser.parse_args()
    if bool(args.report) == bool(args.render):
        parser.error("give REPORT.html or --render")
    chromium = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if not chromium:
        print("skipped: no chromium")
        sys.exit(77)
    if args.screenshots:
        args.screenshots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as work:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if args.report:
            check(browser, args.report, args.screenshots, hostile=False)
            return
        work = pathlib.Path(work)
        for name, fixture, render in [("report", [], []), ("kept", ["--kept"], []), ("no-plots", [], ["--without-plots"])]:
            subprocess.run([sys.executable, HERE / "make_fixture.py", work / f"{name}.json", *fixture], check=True)
            subprocess.run([args.render, work / f"{name}.json", work / f"{name}.html", *render], check=True)
        if "window.vegaEmbed=" not in (work / "report.html").read_text(encoding="utf-8"):
            check_without_plots(browser, work / "no-plots.html")
            print("skipped: built without the plot library")
            sys.exit(77)
        check(browser, work / "report.html", args.screenshots, hostile=True)
        p = Page(browser, work / "kept.html", DESKTOP)
        p.settle()
        check_content(p)
        p.close()
        check_without_plots(browser, work / "no-plots.html")


if __name__ == "__main__":
    main()
