"""Tests the page of `tsq report` in Chromium: clicks, keys, search, colours, a phone's screen, and data with odd parts or hostile names.

    tests/report/report_page_test.py [--screenshots DIR] [--only WORD] [--chromium PROGRAM]

A test also fails on any warning or error on the console, on an error of a script and on any request beyond the page itself. Needs the PyPI
package playwright and a Chromium, which `scripts/setup.sh --tests` installs. Exits with 1 if a test fails.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from make_page import make_page
from playwright.sync_api import Browser, Error, Locator, Page, expect, sync_playwright
from sample_data import HOSTILE_NAMES, REPORTS

VIEWS = ("summary", "graph", "layers", "decisions", "advice")
DESKTOP = {"viewport": {"width": 1400, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
FIRST_VIEW_SECONDS = 3
FIRST_VIEW_NODES = 300
OWN_BYTES = 1_500_000

# The kernel and layer of the operator where the reader is, and other questions to the graph that only its own state answers.
CURRENT = "() => { const node = tsqReport.graphView.panes()[0].cy.nodes('.current'); return node.nonempty() ? node.data('label') : null; }"
NODES = "() => tsqReport.graphView.panes()[0].cy.nodes(':childless').length"
FILLS = "() => tsqReport.graphView.panes()[0].cy.nodes(':childless').map((node) => node.data('fill')).join()"
LOAD_SECONDS = "() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd / 1000"
PLACE = """(label) => {
  const node = tsqReport.graphView.panes()[0].cy.nodes(':childless').filter((one) => one.data('label').includes(label)).first();
  return node.nonempty() ? node.renderedPosition() : null;
}"""


@dataclass
class Session:
    """The browser, the folder of the pages, and what went wrong in them."""

    browser: Browser
    folder: Path
    screenshots: Path | None
    faults: list[str] = field(default_factory=list)

    def page_file(self, kind: str) -> Path:
        path = self.folder / f"{kind}.html"
        if not path.exists():
            path.write_text(make_page(REPORTS[kind]()), encoding="utf-8")
        return path

    def watch(self, page: Page, own: str) -> None:
        page.on("console", lambda message: message.type in ("warning", "error") and self.faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("request", lambda request: request.url.split("#")[0] != own and self.faults.append(f"request: {request.url[:200]}"))

    @contextmanager
    def page(self, kind: str, view: str = "summary", **context: object) -> Iterator[Page]:
        with self.browser.new_context(**(DESKTOP | context)) as opened:
            page = opened.new_page()
            page.set_default_timeout(5000)
            own = self.page_file(kind).as_uri()
            self.watch(page, own)
            page.goto(f"{own}#{view}")
            yield page

    def views(self, page: Page) -> Iterator[str]:
        """Shows one view after the other; those that the report does not have show the first instead."""
        for view in VIEWS:
            page.evaluate("view => { location.hash = view; }", view)
            page.wait_for_timeout(80)
            yield view

    def picture(self, page: Page, name: str) -> None:
        if self.screenshots is not None:
            page.wait_for_timeout(200)
            page.screenshot(path=self.screenshots / f"{name}.png")


def check(is_so: bool, what: str) -> None:
    if not is_so:
        raise AssertionError(what)


def check_equal(found: object, expected: object, what: str) -> None:
    check(found == expected, f"{what}: {found!r} instead of {expected!r}")


def click_node(page: Page, label: str) -> None:
    """Clicks the node of the first graph whose label contains this text."""
    place = page.evaluate(PLACE, label)
    check(place is not None, f"no node of the graph is labelled '{label}'")
    page.locator(".graph").first.click(position=place)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def column(page: Page, title: str) -> list[str]:
    """Returns the texts of a column of the first table."""
    table = page.locator("table").first
    titles = [text.rstrip(" ▲▼") for text in table.locator("thead th").all_inner_texts()]
    check(title in titles, f"there is no column '{title}' among {titles}")
    return table.locator(f"tbody tr > :nth-child({titles.index(title) + 1})").all_inner_texts()


def has_focus(locator: Locator) -> bool:
    return locator.evaluate("element => element === document.activeElement")


def test_each_view_of_a_small_report_is_reached_by_its_link(session: Session) -> None:
    with session.page("small") as page:
        for view in VIEWS:
            page.get_by_role("link", name=view.capitalize()).click()
            expect(page.locator(f"#view-{view}")).to_be_visible()
            session.picture(page, f"small_{view}")


def test_the_summary_states_models_machine_and_command(session: Session) -> None:
    with session.page("small") as page:
        for text in ("model.int8.pt", "19.0 MB", "13.8 ms", "avx512_vnni", "test.pt, 16 samples", "tsq report model.pt", "LibTorch 2.13.0",
                     "of 96; of the clear ones 41 of 41", "rows of a softmax along dimension 1"):
            expect(page.locator("main")).to_contain_text(text)
        for caption in ("SQNR against latency", "Agreement of decisions against latency", "File sizes", "Latencies"):
            expect(page.get_by_role("img", name=caption, exact=True)).to_be_visible()


def test_a_click_on_an_operator_shows_all_about_it(session: Session) -> None:
    with session.page("small", "graph") as page:
        click_node(page, "conv2d_relu\nconv1")
        panel = page.locator("#panel")
        for text in ("quantized::conv2d_relu", "stage0.0.conv1", "[1, 32, 28, 28]", "SQNR alone", "of 256"):
            expect(panel).to_contain_text(text)
        for text in ("HistogramObserver", "fused with the ReLU after it", "an outlier channel"):
            expect(panel).to_contain_text(text)
        expect(panel.get_by_role("img", name="Values of the output")).to_be_visible()
        expect(panel.get_by_role("img", name="Values of the weight")).to_be_visible()
        session.picture(page, "panel")
        panel.get_by_role("button", name="quantized::conv2d (stage0.0.conv2)").click()
        expect(page.locator("#panel-title")).to_have_text("quantized::conv2d")
        panel.get_by_role("button", name="Close").click()
        expect(panel).to_be_hidden()


def test_rows_that_one_model_lacks_stand_in_the_order_of_the_flow(session: Session) -> None:
    rows = """() => {
      const models = [{ rows: ['a', 'act', 'head'] }, { rows: ['a', 'block', 'act', 'act', 'head', 'last'] }];
      return tsqReport.sideBySide(models, ({ rows }) => rows, (row) => row).map(({ key }) => key);
    }"""
    with session.page("nothing") as page:
        check_equal(page.evaluate(rows), ["a", "block", "act", "act", "head", "last"], "the rows of two models")


def test_a_large_graph_appears_soon_and_with_few_nodes(session: Session) -> None:
    for kind in ("large", "flat"):
        with session.page(kind, "graph") as page:
            seconds = page.evaluate(LOAD_SECONDS)
            nodes = page.evaluate(NODES)
            check(1 < nodes <= FIRST_VIEW_NODES, f"the first view of '{kind}' has {nodes} nodes")
            check(seconds < FIRST_VIEW_SECONDS, f"the graph of '{kind}' appeared after {seconds:.1f} s")
            session.picture(page, f"{kind}_graph")


def test_groups_open_by_click_and_close_by_key(session: Session) -> None:
    with session.page("large", "graph") as page:
        before = page.evaluate(NODES)
        click_node(page, "stage1\n")
        check_equal(page.evaluate(NODES), before + 9, "nodes after a group of ten blocks was opened")
        check("▸ 0" in page.evaluate(CURRENT), "the first block of the opened group is where the reader is")
        session.picture(page, "large_group_open")
        press(page, "Backspace")
        check_equal(page.evaluate(NODES), before, "nodes after the group was closed")
        check("stage1" in page.evaluate(CURRENT), "the closed group is where the reader is")


def test_one_level_more_opens_and_all_groups_close(session: Session) -> None:
    with session.page("large", "graph") as page:
        before = page.evaluate(NODES)
        page.get_by_role("button", name="Close all groups").click()
        closed = page.evaluate(NODES)
        check(closed < before, f"{closed} nodes are shown after all groups were closed, {before} before")
        page.get_by_role("button", name="Open one level").click()
        check_equal(page.evaluate(NODES), before, "nodes after one level was opened")


def test_groups_that_feed_one_another_are_laid_out(session: Session) -> None:
    with session.page("tangled", "graph") as page:
        for _ in range(6):
            page.get_by_role("button", name="Open one level").click()
        check_equal(page.evaluate(NODES), 400, "operators shown with all groups open")
        places = "() => new Set(tsqReport.graphView.panes()[0].cy.nodes(':childless').map((node) => JSON.stringify(node.position()))).size"
        check_equal(page.evaluate(places), 400, "different places of the operators")
        session.picture(page, "tangled_graph")


def test_an_operator_without_layer_lies_in_the_module_around_it(session: Session) -> None:
    paths = """() => {
      const layers = ['a.first', '', 'a.second', '', 'b'];
      const existing = (index) => [index].filter((other) => other in layers);
      const operators = layers.map((layer, index) => ({ layer, index, inputs: existing(index - 1), outputs: existing(index + 1) }));
      return tsqReport.tree.moduleTree(operators).leaves.map((leaf) => leaf.parent.path);
    }"""
    with session.page("nothing") as page:
        check_equal(page.evaluate(paths), ["a", "a", "a", "", ""], "the groups around the operators")


def test_search_opens_the_groups_around_what_it_finds(session: Session) -> None:
    with session.page("large", "graph") as page:
        press(page, "/")
        page.keyboard.type("stage169.9.CONV2")
        expect(page.locator(".found").first).to_have_text("1 found")
        press(page, "Enter")
        check_equal(page.evaluate(CURRENT), "conv2d\nconv2", "where the reader is")
        check(page.evaluate(PLACE, "conv2d\nconv2") is not None, "the operator is shown")
        page.get_by_label("Search").fill("aten::")
        press(page, "Enter", "Enter")
        check("dequantize" in page.evaluate(CURRENT), "the second operator of aten:: is the dequantization")
        press(page, "Shift+Enter")
        check("quantize_per_tensor" in page.evaluate(CURRENT), "the one before it is the quantization")


def test_the_graph_is_moved_through_by_keys_alone(session: Session) -> None:
    with session.page("small", "graph") as page:
        graph = page.locator(".graph")
        for _ in range(30):
            press(page, "Tab")
            if has_focus(graph):
                break
        check(has_focus(graph), "the Tab key reaches the graph")
        check(graph.evaluate("element => getComputedStyle(element).outlineStyle") != "none", "the graph shows that it has the focus")
        press(page, "ArrowDown")
        check_equal(page.evaluate(CURRENT), "quantize_per_tensor", "after the first key")
        press(page, "ArrowDown")
        check_equal(page.evaluate(CURRENT), "conv2d_relu\nconv1", "after a step down the flow")
        expect(page.locator("#announcements")).to_contain_text("quantized::conv2d_relu, stage0.0.conv1, int8")
        press(page, "ArrowUp", "ArrowDown", "Enter")
        check(has_focus(page.locator("#panel-title")), "Enter leads into the panel")
        press(page, "Escape")
        expect(page.locator("#panel")).to_be_hidden()
        check(has_focus(graph), "Escape leads back to the graph")


def test_arrows_to_the_side_reach_what_has_the_same_input(session: Session) -> None:
    with session.page("small", "graph") as page:
        page.locator(".graph").focus()
        press(page, "ArrowDown", "ArrowDown")
        start = page.evaluate(CURRENT)
        found = set()
        for key in ("ArrowLeft", "ArrowRight"):
            press(page, key)
            found.add(page.evaluate(CURRENT))
        check_equal(found, {start, "add_relu\nadd"}, "the operators beside the first convolution")


def test_each_choice_of_colour_paints_the_nodes_anew(session: Session) -> None:
    with session.page("small", "graph") as page:
        seen = {page.evaluate(FILLS)}
        for mode, unit in (("seconds", "µs"), ("sqnr", "dB"), ("alone", "dB")):
            page.get_by_label("Colour").select_option(mode)
            expect(page.locator(".legend")).to_contain_text(unit)
            seen.add(page.evaluate(FILLS))
            session.picture(page, f"colour_{mode}")
        check_equal(len(seen), 4, "different paintings of the graph")


def test_a_model_without_times_says_so_in_the_legend(session: Session) -> None:
    with session.page("bare", "graph") as page:
        page.get_by_label("Colour").select_option("seconds")
        expect(page.locator(".legend")).to_have_text("No such values in this model.")


def test_tables_sort_and_filter(session: Session) -> None:
    with session.page("small", "layers") as page:
        page.get_by_role("button", name="SQNR", exact=True).click()
        values = [float(text.split("\u00a0")[0]) for text in column(page, "SQNR")]
        check_equal(values, sorted(values), "SQNR in ascending order")
        press(page, "Enter")
        values = [float(text.split("\u00a0")[0]) for text in column(page, "SQNR")]
        check_equal(values, sorted(values, reverse=True), "SQNR in descending order, by the Enter key")
        press(page, "/")
        page.keyboard.type("stage0.3.")
        check_equal(len(column(page, "Layer")), 3, "layers of block 3")
        expect(page.locator(".found").first).to_have_text("3 of 24 rows")


def test_long_tables_are_shown_piece_by_piece(session: Session) -> None:
    with session.page("large", "layers") as page:
        check_equal(len(column(page, "Layer")), 200, "rows at first")
        page.get_by_role("button", name="Show 200 more").click()
        check_equal(len(column(page, "Layer")), 400, "rows after more were asked for")
        session.picture(page, "large_layers")


def test_a_layer_of_the_table_opens_its_histograms(session: Session) -> None:
    with session.page("small", "layers") as page:
        page.get_by_role("button", name="stage0.2.conv1").click()
        expect(page.locator("#panel-title")).to_have_text("stage0.2.conv1")
        expect(page.locator("#panel canvas")).to_have_count(2)
        press(page, "Escape")
        check(has_focus(page.get_by_role("button", name="stage0.2.conv1")), "Escape leads back to the table")


def test_a_click_on_a_chart_of_layers_opens_the_layer(session: Session) -> None:
    with session.page("small", "layers") as page:
        page.get_by_role("img", name="Time of each layer").click()
        expect(page.locator("#panel-title")).to_contain_text("stage0.")


def test_a_layer_of_the_table_is_shown_in_the_graph(session: Session) -> None:
    with session.page("large", "layers") as page:
        page.get_by_role("button", name="stage4.2.conv2").click()
        page.get_by_role("button", name="Show in the graph").click()
        expect(page.locator("#view-graph")).to_be_visible()
        check_equal(page.evaluate(CURRENT), "conv2d\nconv2", "where the reader is")


def test_decisions_can_be_reduced_to_what_stays_float(session: Session) -> None:
    with session.page("small", "decisions") as page:
        page.get_by_label("float only").check()
        check_equal(column(page, "Layer"), ["classifier"], "layers that stay float")
        expect(page.locator("tbody")).to_contain_text("no pattern of backend 'x86' matches it – see tsq backend-config show x86")


def test_advice_copies_its_mapping(session: Session) -> None:
    with session.page("small", "advice") as page:
        page.get_by_role("button", name="Copy QConfigMapping").first.click()
        expect(page.get_by_text("Copied")).to_be_visible()
        page.get_by_label("Filter advice").focus()
        press(page, "Control+V")
        pasted = "".join(page.get_by_label("Filter advice").input_value().split())
        check_equal(pasted, '{"module_name_qconfigs":[["stage0.0.conv1",{"weight":"PerChannelMinMaxObserver"}]]}', "the clipboard")


def test_two_int8_models_stand_side_by_side(session: Session) -> None:
    with session.page("two_int8", "layers") as page:
        check_equal(len(column(page, "SQNR, model.best.pt")), 24, "rows of the first model")
        check_equal(column(page, "SQNR, model.fx.pt")[-1].split()[-2:], ["–", "(differs)"], "the layer that the second model lacks")
        session.picture(page, "two_layers")
        page.get_by_role("link", name="Decisions").click()
        page.get_by_label("differences only").check()
        check_equal(column(page, "Layer"), ["stage0.1.conv1"], "layers with different decisions")
        session.picture(page, "two_decisions")
        page.get_by_role("link", name="Advice").click()
        expect(page.locator("#view-advice")).to_be_visible()
        findings = column(page, "Finding, model.fx.pt")
        check_equal([text.endswith("(differs)") for text in findings], [False, False, True], "findings that the second model lacks")
        page.get_by_role("link", name="Graph").click()
        expect(page.locator(".graph")).to_have_count(2)
        click_node(page, "conv2d_relu\nconv1")
        current = page.evaluate("() => tsqReport.graphView.panes()[1].cy.nodes('.current').data('label')")
        check_equal(current, "conv2d_relu\nconv1", "the same layer in the graph beside")
        expect(page.locator("#panel thead")).to_contain_text("model.fx.pt")
        session.picture(page, "two_graph")


def test_the_summary_states_the_fault_of_a_model(session: Session) -> None:
    with session.page("two_int8") as page:
        check_equal(column(page, "Fault"), ["–", "–", "it decides differently than the float model"], "faults")


def test_the_float_model_can_be_put_beside_the_int8_model(session: Session) -> None:
    with session.page("small", "graph") as page:
        page.get_by_label("beside").select_option(label="model.pt (float)")
        check_equal(page.locator(".pane h3").all_inner_texts(), ["model.int8.pt", "model.pt"], "graphs")
        page.get_by_label("beside").select_option(label="nothing")
        expect(page.locator(".graph")).to_have_count(1)


def test_a_phone_shows_no_view_wider_than_its_screen(session: Session) -> None:
    for kind in ("two_int8", "hostile"):
        with session.page(kind, **PHONE) as page:
            for view in session.views(page):
                check_equal(page.evaluate("document.documentElement.scrollWidth"), 360, f"width of view {view} of '{kind}'")
                session.picture(page, f"phone_{kind}_{view}")


def test_a_phone_shows_the_panel_below_the_graph(session: Session) -> None:
    with session.page("small", "graph", **PHONE) as page:
        place = page.evaluate(PLACE, "conv2d_relu\nconv1")
        page.locator(".graph").tap(position=place)
        box = page.locator("#panel").bounding_box()
        check(box is not None and box["x"] == 0 and box["width"] == 360 and box["y"] > 200, f"the panel is at {box}")
        check_equal(page.evaluate("document.documentElement.scrollWidth"), 360, "width of the page")
        session.picture(page, "phone_panel")


def test_missing_parts_break_no_view(session: Session) -> None:
    for kind in ("bare", "nothing", "float_only"):
        with session.page(kind) as page:
            for view in session.views(page):
                expect(page.locator("main section").first).to_be_visible()
                session.picture(page, f"{kind}_{view}")


def test_the_sqnr_of_equal_tensors_is_infinite_and_the_best(session: Session) -> None:
    with session.page("exact", "layers") as page:
        check_equal(column(page, "SQNR"), ["∞\u00a0dB", "30.5\u00a0dB"], "SQNR as it came")
        page.get_by_role("button", name="SQNR").first.click()
        check_equal(column(page, "SQNR"), ["30.5\u00a0dB", "∞\u00a0dB"], "SQNR in order")
    with session.page("exact", "graph") as page:
        click_node(page, "linear\nfc")
        expect(page.locator("#panel")).to_contain_text("∞\u00a0dB")


def test_an_operator_without_layer_and_inputs_has_a_panel(session: Session) -> None:
    with session.page("bare", "graph") as page:
        click_node(page, "linear")
        expect(page.locator("#panel-title")).to_have_text("aten::linear")


def test_hostile_names_are_shown_as_they_are(session: Session) -> None:
    with session.page("hostile", "layers") as page:
        shown = "\n".join(page.locator("tbody th").evaluate_all("cells => cells.map((cell) => cell.textContent)"))
        for name in HOSTILE_NAMES:
            check(name in shown, f"the name {name!r} is shown")
        for view in VIEWS:
            page.get_by_role("link", name=view.capitalize()).click()
            check_equal(page.locator("img, main script, main b").count(), 0, f"elements that names have made in view {view}")
        check(page.title().endswith("tsq report"), f"the title is {page.title()!r}")


def test_the_colour_scheme_of_the_system_is_followed(session: Session) -> None:
    background = "() => getComputedStyle(document.body).backgroundColor"
    with session.page("small", "graph", color_scheme="light") as page:
        light = (page.evaluate(background), page.evaluate(FILLS))
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(100)
        dark = (page.evaluate(background), page.evaluate(FILLS))
        check(light[0] != dark[0] and light[1] != dark[1], "page and graph change with the scheme")
        session.picture(page, "dark_graph")
    with session.page("two_int8", color_scheme="dark") as page:
        for view in session.views(page):
            session.picture(page, f"dark_{view}")


def test_every_control_has_a_name_and_every_id_is_unique(session: Session) -> None:
    nameless = """() => [...document.querySelectorAll('button, a, select, input, canvas[role=img], [role=application]')]
      .filter((element) => !(element.ariaLabel || element.textContent.trim() || element.labels?.length))
      .map((element) => element.outerHTML)"""
    repeated = """() => [...document.querySelectorAll('[id]')].map(({ id }) => id)
      .filter((id, place, ids) => ids.indexOf(id) !== place)"""
    with session.page("two_int8") as page:
        for view in session.views(page):
            check_equal(page.evaluate(nameless), [], f"controls without a name in view {view}")
            check_equal(page.evaluate(repeated), [], f"ids that occur twice in view {view}")


def test_the_page_is_light_and_whole(session: Session) -> None:
    text = make_page(REPORTS["nothing"]())
    check(len(text.encode()) < OWN_BYTES, f"the page weighs {len(text.encode())} bytes without data")
    check("<!--tsq:" not in text, "every place is filled")
    with session.page("nothing") as page:
        page.get_by_text("Licences of the libraries").click()
        for holder in ("The Cytoscape Consortium", "Chris Pettitt", "Chart.js Contributors"):
            expect(page.locator("footer pre")).to_contain_text(holder)


def run(test: Callable[[Session], None], session: Session) -> str | None:
    """Returns what is wrong, or None."""
    session.faults.clear()
    try:
        test(session)
    except (AssertionError, Error) as error:
        return "; ".join([str(error), *session.faults])
    return "; ".join(session.faults) or None


def sentence(test: Callable[[Session], None]) -> str:
    return test.__name__.removeprefix("test_").replace("_", " ")


def run_all(tests: list[Callable[[Session], None]], session: Session) -> int:
    failed = 0
    for test in tests:
        start = time.monotonic()
        fault = run(test, session)
        failed += fault is not None
        print(f"{'ok    ' if fault is None else 'FAILED'} {sentence(test)} ({time.monotonic() - start:.1f} s)", flush=True)
        if fault is not None:
            print(f"       {fault}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed or not tests else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Tests the page of `tsq report` in Chromium.")
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="save pictures of the page here")
    parser.add_argument("--only", default="", metavar="WORD", help="run the tests whose names contain this")
    parser.add_argument("--chromium", type=Path, default=Path("/usr/bin/chromium"), metavar="PROGRAM", help="default: %(default)s")
    arguments = parser.parse_args()
    if not arguments.chromium.exists():
        remedy = "run scripts/setup.sh --tests, or name a Chromium with --chromium"
        print(f"report_page_test: there is no {arguments.chromium}: {remedy}", file=sys.stderr)
        return 1
    if arguments.screenshots is not None:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    tests = [value for name, value in globals().items() if name.startswith("test_") and arguments.only in sentence(value)]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        return run_all(tests, Session(browser, Path(folder), arguments.screenshots))


if __name__ == "__main__":
    sys.exit(main())
